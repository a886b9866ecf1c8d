// SPDX-License-Identifier: Apache-2.0
// Programs of HLO, compiled through all stages and run, compared with the evaluator.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/arrays/literal_util.h"
#include "src/compiler/compile.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "tests/compiler/run_executable.h"
#include "tests/support/shards.h"

namespace tessera::testing {

/// 0, step, 2 step and so on.
inline Literal counting(DType t, Dims dims, double step = 1) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < element_count(dims); ++i) values.push_back(double(i) * step);
  return make_literal(t, std::move(dims), values);
}

struct CompiledRun {
  std::shared_ptr<const compiler::Executable> executable;
  compiler::DeviceArrays arrays;
};

/// Compiles, shards, runs, and compares with the evaluator.
inline CompiledRun check_compiled(const std::string& text, const std::vector<Literal>& arguments,
                                  double tolerance = 1e-5) {
  auto module = ir::parse_hlo(text);
  const Literal whole = evaluator::evaluate(*module, arguments);
  CompiledRun r;
  r.executable = compiler::compile(std::move(module));
  std::vector<std::vector<Literal>> args{arguments};
  if (r.executable->num_devices() > 1) {
    args = shard_arguments(r.executable->partitioned(), arguments);
  }
  r.arrays = r.executable->run(to_device_arrays(args), {});
  const auto fault = difference(to_literals(*r.executable, r.arrays), whole,
                                r.executable->result_shardings(), tolerance);
  EXPECT_FALSE(fault.has_value()) << *fault << ir::to_string(r.executable->partitioned());
  return r;
}

}  // namespace tessera::testing
