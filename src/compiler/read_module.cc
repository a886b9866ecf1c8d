// SPDX-License-Identifier: Apache-2.0
// Recognises HLO and StableHLO text and reads or writes either.
#include "src/compiler/read_module.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/ir/hlo/hlo_text.h"
#include "src/passes/control/expand_scans.h"
#include "src/passes/expand_derivative_ops.h"
#include "src/text/bytecode/bytecode.h"
#include "src/text/read/stablehlo.h"
#include "src/text/write/stablehlo.h"

namespace tessera::compiler {
namespace {

/// What follows blanks and comments.
std::string_view first_words(std::string_view text) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  while (!text.empty()) {
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos) return {};
    text.remove_prefix(begin);
    if (text.substr(0, 2) == "//") {
      text.remove_prefix(std::min(text.find('\n'), text.size()));
    } else if (text.substr(0, 2) == "/*") {
      const std::size_t end = text.find("*/");
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
    } else {
      break;
    }
  }
  return text;
}

[[noreturn]] void refuse(std::string_view text, const std::string& file) {
  const std::string_view begin = first_words(text);
  std::string what = "it begins with neither 'HloModule' nor 'module'";
  if (begin.empty()) {
    what = "it is empty";
  } else if (text.find('\0') != std::string_view::npos) {
    what = "it holds bytes, not text: print the module instead of serializing it";
  }
  throw ParseError("column 1: this is no HLO and no StableHLO module: " + what,
                   make_location(file, 1));
}

}  // namespace

const char* name(TextForm form) {
  return form == TextForm::hlo ? "hlo" : form == TextForm::bytecode ? "bytecode" : "stablehlo";
}

TextForm form_named(std::string_view text) {
  for (TextForm form : {TextForm::stablehlo, TextForm::bytecode}) {
    if (text == name(form)) return form;
  }
  return TextForm::hlo;
}

std::optional<TextForm> text_form(std::string_view text) {
  if (text::is_bytecode(text)) return TextForm::stablehlo;
  const std::string_view begin = first_words(text);
  auto starts = [&](std::string_view word) { return begin.substr(0, word.size()) == word; };
  if (starts("HloModule")) return TextForm::hlo;
  // Aliases (#loc = ...), a module, or what may stand in one.
  for (const char* word : {"#", "!", "module", "builtin.module", "\"builtin.module\"", "func.func",
                           "\"func.func\"", "sdy.mesh", "\"sdy.mesh\""}) {
    if (starts(word)) return TextForm::stablehlo;
  }
  return std::nullopt;
}

namespace {

/// For how many devices a text without a count is: those of its largest mesh, and those that
/// something is on.
std::int64_t devices_named(const ir::Module& module) {
  std::int64_t devices = module.mesh ? module.mesh->num_devices() : 1;
  const auto add = [&](const std::vector<TensorSharding>& shardings) {
    for (const TensorSharding& s : shardings) {
      if (s.kind == TensorSharding::Kind::maximal) devices = std::max(devices, s.device + 1);
      if (s.mesh) devices = std::max(devices, s.mesh->num_devices());
    }
  };
  for (const auto& computation : module.computations()) {
    for (const auto& i : computation->instructions()) {
      add(i->sharding);
      if (const auto* manual = i->attrs.get_if<ir::ManualComputationAttrs>()) {
        add(manual->in_shardings);
        add(manual->out_shardings);
        if (manual->mesh) devices = std::max(devices, manual->mesh->num_devices());
      }
    }
  }
  return devices;
}

}  // namespace

std::unique_ptr<ir::Module> read_module(std::string_view text, const std::string& file,
                                        std::optional<TextForm> form,
                                        const text::Arguments* arguments) {
  const std::optional<TextForm> met = text_form(text);
  if (form && met && *form != *met) {
    throw ParseError("column 1: this is " + std::string(name(*met)) + " text, not " + name(*form),
                     make_location(file, 1));
  }
  if (!form) form = met;
  if (!form) refuse(text, file);
  std::unique_ptr<ir::Module> module;
  if (*form == TextForm::hlo) {
    module = ir::parse_hlo(text, file);
  } else if (text::is_bytecode(text)) {
    module = text::parse_bytecode(text, file, arguments);
  } else {
    module = text::parse_stablehlo(text, file, arguments);
  }
  if (module == nullptr) return module;
  if (module->num_partitions == 1) module->num_partitions = devices_named(*module);
  return module;
}

std::string write_module(const ir::Module& module, TextForm form) {
  if (form == TextForm::hlo) {
    ir::PrintOptions options;
    options.axis_names = true;
    return ir::to_string(module, options);
  }
  // StableHLO has none of those.
  const std::unique_ptr<ir::Module> written = module.clone();
  passes::expand_derivative_ops(written.get());
  passes::expand_scans(written.get());
  if (form == TextForm::stablehlo) return text::to_stablehlo(*written);
  text::WriteOptions options;
  options.locations = true;
  return text::to_bytecode(*written, options);
}

std::string read_file(const std::string& path) {
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) throw IoError(path + " is a folder, no file");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError("can't read " + path + ": " + std::strerror(errno));
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) throw IoError("can't read " + path);
  return std::move(text).str();
}

}  // namespace tessera::compiler
