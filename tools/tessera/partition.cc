// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>

#include "src/compiler/compile.h"
#include "src/ir/hlo_text.h"
#include "tools/tessera/command.h"

namespace tessera::tool {

namespace {

struct Options {
  std::string module, output = "-";
  bool stats = false;
};

int partition(const Options& options) {
  auto module = ir::parse_hlo(read_text(options.module), options.module);
  // Text without num_partitions still says by its shardings how many devices it is for.
  if (module->num_partitions == 1 && module->mesh) {
    module->num_partitions = module->mesh->num_devices();
  }
  const auto executable = compiler::compile(std::move(module));
  write_text(options.output, ir::to_string(executable->partitioned()));
  if (!options.stats) return 0;
  for (const spmd::CommunicationRecord& r : executable->report().records) {
    std::fprintf(stderr, "%-20s %12.0f bytes  %s  %s to %s  %s (%s)\n", r.kind.c_str(),
                 r.bytes_received, r.for_op.c_str(), r.from.c_str(), r.to.c_str(),
                 r.location.to_string().c_str(), r.reason.c_str());
  }
  for (const std::string& op : executable->report().replicated_ops) {
    std::fprintf(stderr, "computed on gathered operands: %s\n", op.c_str());
  }
  const compiler::CostAnalysis cost = executable->cost_analysis();
  const compiler::MemoryAnalysis memory = executable->memory_analysis();
  std::fprintf(stderr, "per device: %.0f bytes received, %.0f flops, %lld bytes at most\n",
               cost.bytes_received, cost.flops,
               static_cast<long long>(memory.peak_bytes_per_device));
  return 0;
}

}  // namespace

void add_partition(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("partition", "Print one device's program of an HLO text module");
  command->add_option("module", options->module, "HLO text with shardings; - is stdin")->required();
  command->add_option("-o,--output", options->output, "File to write; - is stdout");
  command->add_flag("--stats", options->stats, "Collectives, bytes and flops, to stderr");
  command->callback([&run, options] { run = [options] { return partition(*options); }; });
}

}  // namespace tessera::tool
