// SPDX-License-Identifier: Apache-2.0
// Loops of a single op, for tests of what ops compute.
#pragma once

#include <cstddef>
#include <vector>

#include "src/codegen/kernels/expressions/loop_expr.h"

namespace tessera::codegen {

/// On contiguous arrays, or scalars where `scalars` has a bit.
inline LoopExpr program_of_op(const BlockOp& op, const std::vector<DType>& operands,
                              unsigned scalars, std::size_t out_bytes) {
  LoopExpr program;
  LoopExpr::Op made;
  made.op = op;
  made.scalars = scalars;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    LoopExpr::Register r;
    r.kind = (scalars >> k & 1) != 0 ? LoopExpr::Kind::scalar : LoopExpr::Kind::contiguous;
    r.index = int(k);
    r.element_bytes = int(byte_size(operands[k]));
    program.registers.push_back(r);
    made.operands.push_back(int(k));
  }
  LoopExpr::Register out;
  out.kind = LoopExpr::Kind::output;
  out.element_bytes = int(out_bytes);
  made.out = int(program.registers.size());
  program.registers.push_back(out);
  program.ops.push_back(made);
  return program;
}

}  // namespace tessera::codegen
