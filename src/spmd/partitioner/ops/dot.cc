// SPDX-License-Identifier: Apache-2.0
// Contractions: zeros in the padding of both operands, partial sums where a contracted dim is
// split.
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

void partition_dot(ComputationPartitioner& p, const ir::Instruction& source) {
  std::optional<FactorRule> rule = rule_for(source);
  if (!rule) return p.replicate(source, "no rule is known");
  const auto& attrs = source.get<ir::DotAttrs>();
  ComputeLayout layout = p.layout_for(source, *rule);
  std::vector<Value*> operands = p.operands_in(source, layout.operands);
  // Padding may hold NaN or infinity, which a zero on the other side wouldn't stop.
  ir::Instruction* lhs =
      p.masked(operands[0], attrs.lhs_contracting, p.constant_scalar(operands[0]->shape.dtype, 0));
  ir::Instruction* rhs =
      p.masked(operands[1], attrs.rhs_contracting, p.constant_scalar(operands[1]->shape.dtype, 0));
  ir::Instruction* x =
      p.emit_local(source, {lhs, rhs}, p.local_shape(source.shape, layout.results.front()));
  p.define(source, p.make(x, layout.results.front(), source.shape));
}

}  // namespace tessera::spmd
