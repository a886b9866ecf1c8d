// SPDX-License-Identifier: Apache-2.0
// Linearity of instructions: what the op table says, narrowed by reducers and types.
#include "src/ir/analysis/linearity.h"

#include <algorithm>

#include "src/ir/rewrite/builder.h"

namespace tessera::ir {
namespace {

bool is_linear_type(const Shape& s) {
  return s.is_array() && (is_floating(s.dtype) || is_complex(s.dtype));
}

}  // namespace

Linearity linearity(const Instruction& i) {
  Linearity out = info(i.opcode).linear;
  if (out.kind == Linearity::Kind::none) return {};
  const std::vector<Shape> results = flatten(i.shape);
  if (!std::all_of(results.begin(), results.end(), is_linear_type)) return {};
  for (std::size_t k = 0; k < i.operands().size(); ++k) {
    // What a start hands to its end has a context beside the values.
    const std::vector<Shape> leaves = flatten(i.operand(k)->shape);
    if (out.in(k) && std::none_of(leaves.begin(), leaves.end(), is_linear_type)) return {};
  }
  if (out.kind == Linearity::Kind::sums) {
    // The last one combines; what stands before it (of select-and-scatter) chooses.
    if (i.called().empty() || as_binary_reducer(*i.called().back()) != Opcode::add) return {};
    out.kind = Linearity::Kind::jointly;
  }
  return out;
}

}  // namespace tessera::ir
