// SPDX-License-Identifier: Apache-2.0
// Programs in files: HLO text, StableHLO text, StableHLO as MLIR bytecode.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "src/ir/module.h"
#include "src/text/read/open_types.h"

namespace tessera::compiler {

/// Bytecode is only written as such: what is read of it is StableHLO.
enum class TextForm { hlo, stablehlo, bytecode };
const char* name(TextForm form);
/// Of those names; a text that is none is HLO's.
TextForm form_named(std::string_view name);

/// By the first word that is no comment; empty if it begins neither. Bytecode is StableHLO.
std::optional<TextForm> text_form(std::string_view text);

/// Parses and verifies. A module whose shardings are on a mesh is for as many devices as the mesh
/// has, also if its text does not say so. ParseError with line and column (of bytecode: the byte),
/// or saying what the text is instead. `file`: for messages. `arguments`: those of a program whose
/// types leave sizes open; null if it gives none (text/read/stablehlo.h).
std::unique_ptr<ir::Module> read_module(std::string_view text, const std::string& file,
                                        std::optional<TextForm> form = std::nullopt,
                                        const text::Arguments* arguments = nullptr);
/// As text, or as bytecode with the lines of the user's program.
std::string write_module(const ir::Module& module, TextForm form);

/// All of a file. IoError.
std::string read_file(const std::string& path);

}  // namespace tessera::compiler
