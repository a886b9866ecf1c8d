// SPDX-License-Identifier: Apache-2.0
// What the rules of the column JVP of the op table are given.
#pragma once

#include <vector>

#include "src/transforms/jvp/jvp.h"

namespace tessera::transforms {

/// One op to differentiate. At least one operand has a tangent.
struct JvpSite {
  ir::Builder& b;             ///< of the target; what it appends carries the op's metadata
  const ir::Instruction& op;  ///< as it stands in the source
  JvpMode mode;
  std::vector<ir::Instruction*> x;  ///< its operands in the target
  std::vector<Tangent> dx;          ///< their tangents
  /// The op's result in the target. A rule that computes it in a way of its own sets it.
  ir::Instruction* result = nullptr;

  template <class A>
  const A& get() const {
    return op.get<A>();
  }
  const Shape& shape() const { return op.shape; }
  /// The op on its operands, made on demand.
  ir::Instruction* primal();
  /// The same op on other operands of the same shapes.
  ir::Instruction* clone_on(std::vector<ir::Instruction*> operands) const;
  /// The tangent of operand k as an array.
  ir::Instruction* tangent(std::size_t k) const { return materialize(b, dx[k], x[k]->shape); }

  ir::Instruction* number(double value) const { return full(b, op.shape, value); }
  ir::Instruction* un(ir::Opcode o, ir::Instruction* a) const { return b.unary(o, a); }
  ir::Instruction* add(ir::Instruction* a, ir::Instruction* c) const;
  ir::Instruction* sub(ir::Instruction* a, ir::Instruction* c) const;
  ir::Instruction* mul(ir::Instruction* a, ir::Instruction* c) const;
  ir::Instruction* div(ir::Instruction* a, ir::Instruction* c) const;
  ir::Instruction* neg(ir::Instruction* a) const;
  /// Of complex numbers; real ones are their own.
  ir::Instruction* conj(ir::Instruction* a) const;

  /// The derivative of `expansion`, a computation of simpler ops that gives what the op gives, of
  /// the same operands. Also gives the result.
  Tangent through(const ir::Computation& expansion);
  /// NotImplementedError: "can't differentiate sort.3 (model.cc:12): why".
  [[noreturn]] void refuse(const std::string& why) const;
};

// The rules that the op table names. They give the tangent of the result.
#define OP(enumerator, text, operands, attributes, types, shape, factors, evaluate, traits, \
           linear, work, calls, dialect, jvp, ...)                                          \
  Tangent jvp(JvpSite& site);
#include "src/ir/opcode_list.inc"

}  // namespace tessera::transforms
