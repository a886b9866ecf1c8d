// SPDX-License-Identifier: Apache-2.0
// Reading of the sweeps in bench/data: one program a line, with what XLA makes of it.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "src/cost/count.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/spmd/auto_sharding/auto_sharding.h"
#include "src/spmd/partitioner/compile_context.h"
#include "src/spmd/partitioner/partition.h"

namespace tessera::bench {

struct SweepCase {
  nlohmann::json line;
  std::unique_ptr<ir::Module> global, device;
  cost::CommunicationCount count;
  double ms = 0;  ///< propagation, solver and partitioning, as compiling does it
};

struct SweepOptions {
  std::string file;
  bool quiet = false;  ///< totals only
};

/// `program [--quiet] [FILE]`
inline SweepOptions sweep_options(int argc, char** argv, const std::string& file) {
  SweepOptions options;
  options.file = std::string(TESSERA_SOURCE_DIR) + "/bench/data/" + file;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quiet") == 0) {
      options.quiet = true;
    } else {
      options.file = argv[i];
    }
  }
  return options;
}

/// Partitions each program of a file for 8 devices and hands it on. False if there is no such file.
inline bool for_each_case(const std::string& file, const std::function<void(SweepCase&)>& use) {
  std::ifstream in(file);
  if (!in) {
    std::fprintf(stderr, "cannot read %s\n", file.c_str());
    return false;
  }
  spmd::CompileContext context;
  for (std::string text; std::getline(in, text);) {
    SweepCase c;
    c.line = nlohmann::json::parse(text);
    c.global = ir::parse_hlo(c.line["hlo"].get<std::string>(), file);
    c.global->num_partitions = 8;
    auto start = std::chrono::steady_clock::now();
    spmd::AutoShardingOptions options;
    options.partition.context = &context;
    spmd::AutoSharding found = spmd::propagate_and_solve(std::move(c.global), options);
    c.global = std::move(found.module);
    c.device = std::move(found.device);
    if (!c.device) c.device = spmd::partition(*c.global, options.partition, nullptr);
    c.ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    c.count = cost::count_communication(*c.device);
    use(c);
  }
  return true;
}

/// "P(a, None)" of a parameter or of the root.
inline std::string spec_of(const ir::Instruction& i) { return i.sharding.at(0).to_spec_string(); }

inline double shard_elements(const ir::Instruction& i) {
  return double(element_count(i.sharding.at(0).shard_dims(i.shape.dims)));
}

}  // namespace tessera::bench
