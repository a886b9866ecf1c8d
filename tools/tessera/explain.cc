// SPDX-License-Identifier: Apache-2.0
// tessera explain: reports what a program communicates and why.
#include <cstdio>

#include "src/compiler/explain/explain.h"
#include "tools/tessera/command.h"
#include "tools/tessera/placement.h"

namespace tessera::tool {

namespace {

struct ExplainArguments {
  std::string module, html, layouts, shapes;
  PlacementFlags placement;
  bool json = false, no_suggestions = false;
  int trials = 0;
};

int explain(const ExplainArguments& options) {
  LoadedModule loaded = load_module(options.module, arguments_of_flag(options.shapes));
  place(loaded.module.get(), options.placement);
  ExplainOptions what;
  what.suggest = !options.no_suggestions;
  what.most_trials = options.trials;
  compiler::Options compile;
  compile.layouts = layouts_of(options.layouts);
  const Explanation explanation = compiler::explain_module(*loaded.module, compile, what);
  if (!options.html.empty()) write_text(options.html, explanation.to_html());
  if (options.json) {
    write_text("-", explanation.to_json() + "\n");
  } else if (options.html != "-") {
    write_text("-", explanation.to_text());
  }
  return kDone;
}

}  // namespace

void add_explain(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<ExplainArguments>();
  CLI::App* command = app.add_subcommand(
      "explain", "Tell what a module communicates, why, and which annotation would avoid it");
  command
      ->add_option("module", options->module,
                   "StableHLO (text or bytecode) or HLO text with shardings; - is stdin")
      ->required();
  add_shapes_flag(command, &options->shapes);
  CLI::Option* json = command->add_flag("--json", options->json, "Print one JSON object");
  command->add_option("--html", options->html, "File to write a page to, that needs nothing else")
      ->check([json](const std::string& file) {
        return file == "-" && json->count() > 0 ? "stdout can't take both --json and --html -"
                                                : std::string();
      });
  command->add_flag("--no-suggestions", options->no_suggestions,
                    "Don't try annotations: faster for large programs");
  command
      ->add_option("--trials", options->trials,
                   "The most annotations that are tried (default: by the program's size)")
      ->check(CLI::Range(1, 100000));
  add_layouts_flag(command, &options->layouts);
  command->add_option("--mesh", options->placement.mesh,
                      "Mesh to partition for: data=2,model=4 (default: the module's own)");
  command->add_option("--in-shardings", options->placement.in_shardings,
                      "A spec per argument: P(\"data\",None);P() (default: the module's own)");
  command->callback([&run, options] { run = [options] { return explain(*options); }; });
}

}  // namespace tessera::tool
