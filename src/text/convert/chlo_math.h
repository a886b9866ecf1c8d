// SPDX-License-Identifier: Apache-2.0
// Formulas as parts of an operation that is read.
#pragma once

#include "src/ir/formulas/formula.h"
#include "src/text/read/conversions.h"

namespace tessera::text {

using ir::Num;

class ChloMath final : public ir::Formula {
 public:
  /// Formulas in `dtype`, on arrays of these dims, as parts of `op`.
  ChloMath(Conversions& reader, const Operation& op, DType dtype, Dims dims)
      : Formula(dtype, std::move(dims)), reader_(reader), op_(op) {}

  ir::Instruction* make(ir::Opcode opcode, Shape shape, std::vector<ir::Instruction*> operands,
                        ir::Attributes attributes = {},
                        std::vector<ir::Computation*> called = {}) override {
    return reader_.add(op_, opcode, std::move(shape), std::move(operands), std::move(attributes),
                       std::move(called));
  }

 private:
  ir::Instruction* filled(double v) override {
    return reader_.splat(op_, reader_.scalar_constant(op_, dtype(), v), dims());
  }

  Conversions& reader_;
  const Operation& op_;
};

}  // namespace tessera::text
