// SPDX-License-Identifier: Apache-2.0
// tessera convert: between HLO and StableHLO, as text or as bytecode.
#include "tools/tessera/command.h"

namespace tessera::tool {
namespace {

struct ConvertArguments {
  std::string module, output = "-", to, shapes;
};

int convert(const ConvertArguments& options) {
  using compiler::TextForm;
  const LoadedModule loaded = load_module(options.module, arguments_of_flag(options.shapes));
  TextForm to = loaded.form == TextForm::hlo ? TextForm::stablehlo : TextForm::hlo;
  if (!options.to.empty()) to = compiler::form_named(options.to);
  write_text(options.output, compiler::write_module(*loaded.module, to));
  return kDone;
}

}  // namespace

void add_convert(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<ConvertArguments>();
  CLI::App* command =
      app.add_subcommand("convert", "Turn HLO text into StableHLO, as text or bytecode, or back");
  command
      ->add_option("module", options->module,
                   "StableHLO (text or bytecode) or HLO text; - is stdin")
      ->required();
  add_shapes_flag(command, &options->shapes);
  command->add_option("-o,--output", options->output, "File to write; - is stdout");
  command->add_option("--to", options->to, "Form to write (default: the other one)")
      ->check(CLI::IsMember({"hlo", "stablehlo", "bytecode"}));
  command->callback([&run, options] { run = [options] { return convert(*options); }; });
}

}  // namespace tessera::tool
