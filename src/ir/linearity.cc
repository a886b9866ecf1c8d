// SPDX-License-Identifier: Apache-2.0
#include "src/ir/linearity.h"

#include <algorithm>

#include "src/ir/builder.h"

namespace tessera::ir {
namespace {

bool has_linear_type(const Shape& shape) {
  const std::vector<Shape> leaves = flatten(shape);
  return std::all_of(leaves.begin(), leaves.end(), [](const Shape& s) {
    return s.is_array() && (is_floating(s.dtype) || is_complex(s.dtype));
  });
}

}  // namespace

Linearity linearity(const Instruction& i) {
  Linearity out = info(i.opcode).linear;
  if (out.kind == Linearity::Kind::none || !has_linear_type(i.shape)) return {};
  for (std::size_t k = 0; k < i.operands().size(); ++k) {
    if (out.in(k) && !has_linear_type(i.operand(k)->shape)) return {};
  }
  if (out.kind == Linearity::Kind::sums) {
    // The last one combines; what stands before it (of select-and-scatter) chooses.
    if (i.called().empty() || as_binary_reducer(*i.called().back()) != Opcode::add) return {};
    out.kind = Linearity::Kind::jointly;
  }
  return out;
}

}  // namespace tessera::ir
