// SPDX-License-Identifier: Apache-2.0
// Functions and regions while they are read.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/ir/module.h"
#include "src/text/read/operation.h"

namespace tessera::text {

/// A function whose signature was read and whose body waits.
struct Function {
  struct Argument {
    std::string_view name;
    const Shape* type;
    std::vector<Attribute> attributes;
    std::string_view location;
  };
  std::string_view name;
  const char* at = nullptr;
  ir::Computation* computation = nullptr;
  std::vector<Argument> arguments, results;
  const char* body = nullptr;  ///< behind its opening brace; null: declared only
  bool generic = false;        ///< the arguments' names stand in the body
  bool is_public = true;
  /// Of a function for certain operands: those that are known integers.
  std::vector<std::optional<Dims>> known;
};

/// A function that was read for operands of certain sizes.
struct ClosedFunction {
  Function* function = nullptr;
  bool reading = true;
  bool uses_known = true;  ///< whether other integers may give another function
};

/// Values from outside that the regions of one operation use, in the order of their first use.
struct Captures {
  std::vector<ir::Instruction*> values;
  std::unordered_map<const ir::Instruction*, std::size_t> index;
};

/// A region that is being read.
struct Frame {
  Regions kind = Regions::isolated;
  ir::Computation* computation = nullptr;
  /// The tuple parameter of a loop's or branch's region, and how many elements (of a function on
  /// scalars: arguments) are not captured.
  ir::Instruction* tuple = nullptr;
  std::size_t own = 0;
  Captures* captures = nullptr;
  /// Values of the region around, as they are known here.
  std::unordered_map<const ir::Instruction*, ir::Instruction*> inside;
  std::vector<std::string_view> names;
  std::vector<ir::Instruction*> returned;
};

}  // namespace tessera::text
