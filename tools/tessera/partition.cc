// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <iostream>

#include "src/compiler/compile.h"
#include "src/ir/hlo_text.h"
#include "tools/tessera/command.h"
#include "tools/tessera/placement.h"

namespace tessera::tool {

namespace {

struct Options {
  std::string module, output = "-";
  PlacementFlags placement;
  bool stats = false, json = false;
};

OrderedJson stats_of(const compiler::Executable& executable) {
  OrderedJson out;
  out["module"] = executable.partitioned().name;
  out["devices"] = executable.num_devices();
  out["collectives"] = OrderedJson::array();
  for (const spmd::CommunicationRecord& r : executable.report().records) {
    out["collectives"].push_back({{"kind", r.kind},
                                  {"instruction", r.instruction},
                                  {"bytes", r.bytes_received},
                                  {"op", r.for_op},
                                  {"location", r.location.to_string()},
                                  {"from", r.from},
                                  {"to", r.to},
                                  {"full_gather", r.full_gather},
                                  {"reason", r.reason}});
  }
  out["replicated_ops"] = executable.report().replicated_ops;
  const compiler::CostAnalysis cost = executable.cost_analysis();
  out["bytes_received"] = cost.bytes_received;
  out["flops"] = cost.flops;
  out["peak_bytes_per_device"] = executable.memory_analysis().peak_bytes_per_device;
  return out;
}

void print_stats(const OrderedJson& stats) {
  auto text = [](const OrderedJson& j) { return j.get<std::string>(); };
  for (const OrderedJson& c : stats["collectives"]) {
    std::fprintf(stderr, "%-20s %12.0f bytes  %s  %s to %s  %s (%s)\n", text(c["kind"]).c_str(),
                 c["bytes"].get<double>(), text(c["op"]).c_str(), text(c["from"]).c_str(),
                 text(c["to"]).c_str(), text(c["location"]).c_str(), text(c["reason"]).c_str());
  }
  for (const OrderedJson& op : stats["replicated_ops"]) {
    std::fprintf(stderr, "computed on gathered operands: %s\n", text(op).c_str());
  }
  std::fprintf(stderr, "per device: %.0f bytes received, %.0f flops, %lld bytes at most\n",
               stats["bytes_received"].get<double>(), stats["flops"].get<double>(),
               static_cast<long long>(stats["peak_bytes_per_device"].get<std::int64_t>()));
}

int partition(const Options& options) {
  LoadedModule loaded = load_module(options.module);
  place(loaded.module.get(), options.placement);
  const auto executable = compiler::compile(std::move(loaded.module));
  // With --json stdout is the object's, unless a file takes the text.
  if (!options.json || options.output != "-") {
    write_text(options.output, ir::to_string(executable->partitioned()));
  }
  if (!options.stats && !options.json) return kDone;
  const OrderedJson stats = stats_of(*executable);
  if (options.json) {
    std::cout << stats.dump() << "\n" << std::flush;
  } else {
    print_stats(stats);
  }
  return kDone;
}

}  // namespace

void add_partition(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("partition", "Print one device's program of a module, as HLO text");
  command->add_option("module", options->module, "StableHLO or HLO text with shardings; - is stdin")
      ->required();
  command->add_option("-o,--output", options->output, "File to write; - is stdout");
  command->add_flag("--stats", options->stats, "Collectives, bytes and flops, to stderr");
  command->add_flag("--json", options->json,
                    "Print these as one JSON object; the program goes to the file of -o, if any");
  command->add_option("--mesh", options->placement.mesh,
                      "Mesh to partition for: data=2,model=4 (default: the module's own)");
  command->add_option("--in-shardings", options->placement.in_shardings,
                      "A spec per argument: P(\"data\",None);P() (default: the module's own)");
  command->callback([&run, options] { run = [options] { return partition(*options); }; });
}

}  // namespace tessera::tool
