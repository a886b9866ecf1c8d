// SPDX-License-Identifier: Apache-2.0
// `tessera opt`: runs passes by name.
#include <algorithm>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <string_view>

#include "src/compiler/pass_table.h"
#include "src/ir/hlo/hlo_text.h"
#include "tools/tessera/command.h"

namespace tessera::tool {
namespace {

struct OptArguments {
  std::string module, output = "-", passes;
  bool list = false;
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
    return kDone;
  }
  std::vector<compiler::PassCall> chosen;
  std::istringstream names(options.passes);
  std::string name;
  while (std::getline(names, name, ',')) {
    try {
      chosen.push_back(compiler::parse_pass(name));
    } catch (const ValueError& e) {
      throw UsageError(std::string("--passes: ") + e.what() + "; --list shows all");
    }
  }
  compiler::ModulePtr module = load_module(options.module).module;
  for (const compiler::PassCall& call : chosen) compiler::run_pass(call, module);
  write_text(options.output, ir::to_string(*module));
  return kDone;
}

}  // namespace

void add_opt(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<OptArguments>();
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
