// SPDX-License-Identifier: Apache-2.0
// Looks for one constant behind broadcasts and reshapes.
#include "src/ir/analysis/splat_constants.h"

#include <cstring>

#include "src/base/arrays/literal_util.h"

namespace tessera::ir {

const Literal* splat_constant(const Instruction& x) {
  const Instruction* one = &x;
  while (one->is(Opcode::broadcast) || one->is(Opcode::reshape) || one->is(Opcode::copy)) {
    one = one->operand(0);
  }
  if (!one->is(Opcode::constant) || !one->shape.is_scalar() || one->get<ConstantAttrs>().elided) {
    return nullptr;
  }
  return &one->get<ConstantAttrs>().value;
}

bool is_splat_of(const Instruction& x, double value) {
  if (!x.shape.is_array()) return false;
  const DType t = x.shape.dtype;
  if (!is_integer(t) && (!is_floating(t) || byte_size(t) == 1)) return false;
  const Literal* known = splat_constant(x);
  if (known == nullptr || known->shape().dtype != t) return false;
  const Literal number = Literal::scalar(t, value);
  return std::memcmp(known->bytes(), number.bytes(), number.byte_count()) == 0;
}

}  // namespace tessera::ir
