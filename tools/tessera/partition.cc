// SPDX-License-Identifier: Apache-2.0
// tessera partition: prints one device's program and its costs.
#include <cstdio>
#include <iostream>

#include "src/compiler/compile.h"
#include "src/compiler/read_module.h"
#include "src/ir/hlo/hlo_text.h"
#include "tools/tessera/command.h"
#include "tools/tessera/placement.h"

namespace tessera::tool {

namespace {

struct PartitionArguments {
  std::string module, output = "-", shapes;
  PlacementFlags placement;
  std::string network, layouts;
  bool stats = false, json = false;
};

Network network_of(const std::string& given) {
  try {
    return compiler::read_network(given);
  } catch (const ValueError& e) {
    throw UsageError("--network: " + e.message());
  }
}

OrderedJson costs_of(const CostAnalysis& cost, const Network& network) {
  OrderedJson out;
  out["network"] = network.to_string();
  out["compute_seconds"] = cost.compute_seconds;
  out["collective_seconds"] = cost.collective_seconds;
  out["overlapped_seconds"] = cost.overlapped_seconds;
  out["step_seconds"] = cost.step_seconds();
  out["kinds"] = OrderedJson::object();
  for (const auto& [kind, k] : cost.kinds) {
    out["kinds"][kind] = {{"count", k.count}, {"bytes", k.bytes}, {"seconds", k.seconds}};
  }
  out["collectives"] = OrderedJson::array();
  for (const CollectiveCost& c : cost.collectives) {
    OrderedJson axes = OrderedJson::object();
    for (const auto& [axis, size] : c.axes) axes[axis] = size;
    out["collectives"].push_back({{"kind", c.kind},
                                  {"instruction", c.instruction},
                                  {"location", c.location},
                                  {"axes", axes},
                                  {"group_size", c.group_size},
                                  {"bytes", c.bytes},
                                  {"times", c.times},
                                  {"seconds", c.seconds}});
  }
  return out;
}

OrderedJson stats_of(const compiler::Executable& executable, const CostAnalysis& cost) {
  OrderedJson out;
  out["module"] = executable.partitioned().name;
  out["devices"] = executable.num_devices();
  out["layouts"] = to_string(executable.layouts());
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
  out["bytes_received"] = cost.bytes_received;
  out["flops"] = cost.flops;
  out["transcendentals"] = cost.transcendentals;
  out["bytes_accessed"] = cost.bytes_accessed;
  const MemoryAnalysis memory = executable.memory_analysis();
  out["peak_bytes_per_device"] = memory.peak_bytes_per_device;
  out["argument_bytes"] = memory.argument_bytes;
  out["output_bytes"] = memory.output_bytes;
  out["temp_bytes"] = memory.temp_bytes;
  out["alias_bytes"] = memory.alias_bytes;
  out["peak_host_bytes_per_device"] = memory.peak_host_bytes_per_device;
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
  const auto bytes = [&](const char* name) {
    return static_cast<long long>(stats[name].get<std::int64_t>());
  };
  std::fprintf(stderr, "layouts: %s\n", text(stats["layouts"]).c_str());
  std::fprintf(stderr, "per device: %.0f bytes received, %.0f flops, %lld bytes at most\n",
               stats["bytes_received"].get<double>(), stats["flops"].get<double>(),
               bytes("peak_bytes_per_device"));
  std::fprintf(stderr, "of these: %lld of arguments, %lld of results, %lld temporary\n",
               bytes("argument_bytes"), bytes("output_bytes"), bytes("temp_bytes"));
}

int partition(const PartitionArguments& options) {
  const Network network = options.network.empty() ? Network() : network_of(options.network);
  LoadedModule loaded = load_module(options.module, arguments_of_flag(options.shapes));
  place(loaded.module.get(), options.placement);
  compiler::Options compile;
  compile.runs = false;
  compile.layouts = layouts_of(options.layouts);
  if (!options.network.empty()) compile.network = network;
  const auto executable = compiler::compile(std::move(loaded.module), compile);
  // With --json stdout is the object's, unless a file takes the text.
  if (!options.json || options.output != "-") {
    write_text(options.output, ir::to_string(executable->partitioned()));
  }
  if (!options.stats && !options.json && options.network.empty()) return kDone;
  const CostAnalysis cost = executable->cost_analysis(network);
  OrderedJson stats = stats_of(*executable, cost);
  if (!options.network.empty()) stats["cost"] = costs_of(cost, network);
  if (options.json) {
    std::cout << stats.dump() << "\n" << std::flush;
  } else {
    print_stats(stats);
    if (!options.network.empty()) std::fputs(cost.to_text().c_str(), stderr);
  }
  return kDone;
}

}  // namespace

void add_partition(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<PartitionArguments>();
  CLI::App* command =
      app.add_subcommand("partition", "Print one device's program of a module, as HLO text");
  command
      ->add_option("module", options->module,
                   "StableHLO (text or bytecode) or HLO text with shardings; - is stdin")
      ->required();
  add_shapes_flag(command, &options->shapes);
  command->add_option("-o,--output", options->output, "File to write; - is stdout");
  command->add_flag("--stats", options->stats, "Collectives, bytes and flops, to stderr");
  command->add_flag("--json", options->json,
                    "Print these as one JSON object; the program goes to the file of -o, if any");
  command->add_option(
      "--network", options->network,
      "Partition for it, and estimate times: 'data=50GB/s:1us,*=300GB/s,flops=200T,memory=1TB/s', "
      "or a file that says so");
  add_layouts_flag(command, &options->layouts);
  command->add_option("--mesh", options->placement.mesh,
                      "Mesh to partition for: data=2,model=4 (default: the module's own)");
  command->add_option("--in-shardings", options->placement.in_shardings,
                      "A spec per argument: P(\"data\",None);P() (default: the module's own)");
  command->callback([&run, options] { run = [options] { return partition(*options); }; });
}

}  // namespace tessera::tool
