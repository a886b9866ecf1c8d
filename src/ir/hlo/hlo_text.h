// SPDX-License-Identifier: Apache-2.0
// HLO text: what XLA prints and parses.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "src/ir/module.h"

namespace tessera::ir {

struct PrintOptions {
  bool metadata = true;
  bool shardings = true;
  /// Also print shardings as xla.sdy.sharding frontend attributes (axis names, open dims).
  bool axis_names = false;
  /// Constants with more elements print as {...}; -1: never.
  std::int64_t max_constant_elements = -1;
  /// Operand shapes before operand names.
  bool operand_shapes = false;
  /// Drop names, metadata and shardings' names: equal programs, equal text (cache keys).
  bool canonical = false;
};

/// Text that both XLA of 2024 and of 2026 accept: no '%', shapes with layout, brace or iota lists,
/// ENTRY last. Stable: parse(print(m)) prints the same.
std::string to_string(const Module& module, const PrintOptions& options = {});
std::string to_string(const Computation& computation, const PrintOptions& options = {});
std::string to_string(const Instruction& instruction, const PrintOptions& options = {});

/// Reads a module. ParseError names line and column; the module is verified.
/// `file`: for messages.
std::unique_ptr<Module> parse_hlo(std::string_view text, const std::string& file = "<hlo>");

}  // namespace tessera::ir
