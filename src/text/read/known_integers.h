// SPDX-License-Identifier: Apache-2.0
// Integers that are known before a program runs, as shapes are computed.
#pragma once

#include <optional>
#include <unordered_map>

#include "src/base/arrays/literal.h"
#include "src/ir/instruction.h"

namespace tessera::text {

/// Integers and truth values of constants, of sizes of dims, of what a function was given, and of
/// what pure operations and calls make of them; nothing for other values.
class KnownIntegers {
 public:
  std::optional<Dims> of(const ir::Instruction& i);
  /// Says what a value of that shape is that doesn't say it itself: a parameter, or one that a
  /// region captures. `given`: it may be another at another call of the function that is being
  /// read.
  void note(const ir::Instruction& i, const Shape& shape, const Dims& value, bool given);
  /// Whether a value that was asked for depends on what a function was given.
  bool uses_given() const { return uses_given_; }
  void set_uses_given(bool used) { uses_given_ = used; }

 private:
  struct Entry {
    std::optional<Literal> value;
    bool given = false;
  };
  class Evaluation;

  std::unordered_map<const ir::Instruction*, Entry> entries_;
  bool uses_given_ = false;
};

}  // namespace tessera::text
