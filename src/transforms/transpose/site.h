// SPDX-License-Identifier: Apache-2.0
// What the rules of the column TRANSPOSE of the op table are given.
#pragma once

#include <vector>

#include "src/transforms/transpose/transpose.h"

namespace tessera::transforms {

/// One op to transpose: some of its operands are linear, and its result has a cotangent.
struct TransposeSite {
  ir::Builder& b;             ///< of the target; what it appends carries the op's metadata
  const ir::Instruction& op;  ///< as it stands in the source
  Tangent ct;                 ///< of its result
  ir::Cloner& cloner;
  const std::vector<bool>& reached;  ///< of the source: which instructions are linear
  std::vector<Tangent>& cotangents;  ///< of the source's instructions, so far

  template <class A>
  const A& get() const {
    return op.get<A>();
  }
  const Shape& shape(std::size_t k) const { return op.operand(k)->shape; }
  bool is_linear(std::size_t k) const { return reached[std::size_t(op.operand(k)->index)]; }
  /// An operand that is not linear, in the target.
  ir::Instruction* operand(std::size_t k) const;
  /// The cotangent as an array.
  ir::Instruction* array() const { return materialize(b, ct, op.shape); }
  /// Adds to the cotangent of operand k, if it is linear.
  void give(std::size_t k, const Tangent& cotangent) const;
  /// The op on other operands; the shape is that of its result.
  ir::Instruction* clone_on(std::vector<ir::Instruction*> operands) const;
  [[noreturn]] void refuse(const std::string& why) const;
};

// The rules that the op table names.
#define OP(enumerator, text, operands, attributes, types, shape, factors, evaluate, traits, \
           linear, work, calls, dialect, jvp, transpose, ...)                               \
  void transpose(TransposeSite& site);
#include "src/ir/opcode_list.inc"

}  // namespace tessera::transforms
