// SPDX-License-Identifier: Apache-2.0
// An operation as it stands in the text, before it becomes instructions.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "src/ir/module.h"

namespace tessera::text {

class Conversions;
struct Operation;
struct Quantized;

/// An attribute as text; a unit attribute has an empty value.
struct Attribute {
  std::string_view key, value;
};

/// What the regions of an operation become.
enum class Regions : std::uint8_t {
  none,
  loop,      ///< condition and body on a tuple; captured values join the tuple
  branches,  ///< one parameter each: the captured values
  scalar,    ///< to_apply: parameters are the block's arguments
  isolated,  ///< a body that sees no value from outside
  inlined,   ///< its operations come before the one that holds them
};

struct OpInfo {
  std::string_view name;
  /// The pretty form, see pretty.cc; empty if there is only the generic one.
  const char* form;
  /// Makes the instructions and sets operation.values.
  void (Conversions::*convert)(Operation&);
  ir::Opcode opcode = ir::Opcode::parameter;
  Regions regions = Regions::none;
};

/// "stablehlo." or "chlo.".
std::string_view dialect_prefix(ir::Dialect dialect);

struct Operation {
  const OpInfo* info = nullptr;
  std::string_view name;
  const char* at = nullptr;
  std::vector<ir::Instruction*> operands;
  std::vector<const char*> operand_places;
  std::vector<Attribute> attributes;
  std::vector<const Shape*> operand_types, results;
  std::vector<ir::Computation*> regions;
  /// Values from outside that the regions use.
  std::vector<ir::Instruction*> captured;
  /// How many operands a scan goes over, if its short form says so.
  std::optional<std::size_t> scanned;
  /// What an inlined region returns.
  std::vector<ir::Instruction*> inlined;
  /// The operations of an inlined region.
  std::vector<const OpInfo*> inside;
  /// What the values that each region returns stand for; filled if any type is quantized.
  std::vector<std::vector<const Quantized*>> returned;
  /// Set while the operation is read on the numbers that quantized tensors stand for.
  bool from_quantized = false, to_quantized = false;
  /// Whether parts of compound attributes stand among its own, as in vhlo.
  bool flat = false;
  std::string_view location;  ///< inside of loc(...)
  /// One per result, set by convert.
  std::vector<ir::Instruction*> values;

  void clear() {
    info = nullptr;
    operands.clear();
    operand_places.clear();
    attributes.clear();
    operand_types.clear();
    results.clear();
    regions.clear();
    captured.clear();
    scanned.reset();
    inlined.clear();
    inside.clear();
    returned.clear();
    from_quantized = to_quantized = flat = false;
    location = {};
    values.clear();
  }
  const Attribute* find(std::string_view key) const {
    for (const Attribute& a : attributes) {
      if (a.key == key) return &a;
    }
    return nullptr;
  }
};

/// The row of an operation's full name; null if it is unknown.
const OpInfo* find_operation(std::string_view name);

}  // namespace tessera::text
