// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <sstream>

#include "src/ir/hlo_text.h"
#include "src/ir/shape_inference.h"
#include "src/passes/expand_scans.h"
#include "src/passes/simplify.h"
#include "src/passes/trip_counts.h"
#include "src/spmd/partitioner/partition.h"
#include "src/spmd/propagation/propagate.h"
#include "tools/tessera/command.h"

namespace tessera::tool {
namespace {

using ModulePtr = std::unique_ptr<ir::Module>;

struct Pass {
  const char* name;
  const char* help;
  void (*run)(ModulePtr& module);
};

constexpr Pass kPasses[] = {
    {"propagate", "Give every instruction a sharding",
     [](ModulePtr& m) { spmd::propagate(m.get()); }},
    {"partition", "From a propagated program to that of one device",
     [](ModulePtr& m) { m = spmd::partition(*m, {}, nullptr); }},
    {"expand-scans", "Put a while loop in the place of each scan",
     [](ModulePtr& m) { passes::expand_scans(m.get()); }},
    {"inline-calls", "Put the bodies of calls and fusions in their callers' places",
     [](ModulePtr& m) { passes::inline_calls(m.get()); }},
    {"trip-counts", "Note how often loops run that count to a constant",
     [](ModulePtr& m) { passes::find_trip_counts(m.get()); }},
    {"join-async", "Make one collective of a start and its done",
     [](ModulePtr& m) { passes::join_async(m.get()); }},
    {"simplify", "Take out what does nothing, until nothing changes",
     [](ModulePtr& m) {
       // Each round only removes; the bound is for safety's sake.
       for (int k = 0; k < 100 && passes::simplify(m.get()) > 0; ++k) {
       }
     }},
    {"eliminate-common", "Compute equal things once",
     [](ModulePtr& m) { passes::eliminate_common(m.get()); }},
    {"eliminate-dead", "Drop what nothing needs",
     [](ModulePtr& m) { passes::eliminate_dead(m.get()); }},
};

struct Options {
  std::string module, output = "-", passes;
  bool list = false;
};

int optimise(const Options& options) {
  if (options.list) {
    for (const Pass& p : kPasses) {
      std::cout << p.name << std::string(20 - std::string(p.name).size(), ' ') << p.help << "\n";
    }
    return kDone;
  }
  std::vector<const Pass*> chosen;
  std::istringstream names(options.passes);
  std::string name;
  while (std::getline(names, name, ',')) {
    const auto* found = std::find_if(std::begin(kPasses), std::end(kPasses),
                                     [&](const Pass& p) { return p.name == name; });
    if (found == std::end(kPasses)) {
      throw UsageError("--passes: there is no pass '" + name + "'; --list shows them");
    }
    chosen.push_back(found);
  }
  ModulePtr module = load_module(options.module).module;
  for (const Pass* pass : chosen) {
    pass->run(module);
    ir::verify(*module);
  }
  write_text(options.output, ir::to_string(*module));
  return kDone;
}

}  // namespace

void add_opt(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("opt", "Run single passes over a module and print it as HLO text");
  command->add_option("module", options->module, "StableHLO or HLO text; - is stdin");
  command->add_option("--passes", options->passes, "Names between commas, run in this order");
  command->add_flag("--list", options->list, "List the passes");
  command->add_option("-o,--output", options->output, "File to write; - is stdout");
  command->callback([&run, options] {
    if (!options->list && options->module.empty()) throw CLI::RequiredError("module, or --list");
    run = [options] { return optimise(*options); };
  });
}

}  // namespace tessera::tool
