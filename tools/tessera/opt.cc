// SPDX-License-Identifier: Apache-2.0
// `tessera opt`: runs passes by name.
#include <algorithm>
#include <iomanip>
#include <iostream>
#include <string_view>

#include "src/compiler/pass_pipeline.h"
#include "src/compiler/pipeline.h"
#include "src/ir/hlo/hlo_text.h"
#include "tools/tessera/command.h"

namespace tessera::tool {
namespace {

struct OptArguments {
  std::string module, output = "-", passes, shapes;
  bool list = false, stages = false;
};

int optimise(const OptArguments& options) {
  if (options.list) {
    std::size_t widest = 0;
    for (const compiler::Pass& p : compiler::all_passes()) {
      widest = std::max(widest, std::string_view(p.name).size());
    }
    for (const compiler::Pass& p : compiler::all_passes()) {
      std::cout << std::left << std::setw(int(widest) + 2) << p.name << p.help << "\n";
    }
    std::cout << "\nGroups:\n";
    for (const compiler::PassGroup& g : compiler::all_groups()) {
      std::cout << std::left << std::setw(int(widest) + 2) << g.name << g.help << ": " << g.passes
                << "\n";
    }
    return kDone;
  }
  if (options.stages) {
    for (const std::string& line : compiler::describe_stages(compiler::cpu_target())) {
      std::cout << line << "\n";
    }
    return kDone;
  }
  compiler::PassPipeline passes;
  try {
    passes = compiler::PassPipeline::parse(options.passes);
  } catch (const ValueError& e) {
    throw UsageError(std::string("--passes: ") + e.what() + "; --list shows all");
  }
  compiler::ModulePtr module =
      load_module(options.module, arguments_of_flag(options.shapes)).module;
  (void)passes.run(module, /*verify=*/true);
  write_text(options.output, ir::to_string(*module));
  return kDone;
}

}  // namespace

void add_opt(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<OptArguments>();
  CLI::App* command =
      app.add_subcommand("opt", "Run single passes over a module and print it as HLO text");
  command->add_option("module", options->module,
                      "StableHLO (text or bytecode) or HLO text; - is stdin");
  add_shapes_flag(command, &options->shapes);
  command->add_option("--passes,--pipeline", options->passes,
                      "Names between commas, run in this order; repeat<N>(a,b) until nothing "
                      "changes; a?(b) if a changed something");
  command->add_flag("--list", options->list, "List the passes, and groups of them");
  command->add_flag("--stages", options->stages, "List the stages of the compiler");
  command->add_option("-o,--output", options->output, "File to write; - is stdout");
  command->callback([&run, options] {
    if (!options->list && !options->stages && options->module.empty()) {
      throw CLI::RequiredError("module, or --list");
    }
    run = [options] { return optimise(*options); };
  });
}

}  // namespace tessera::tool
