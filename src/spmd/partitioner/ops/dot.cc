// SPDX-License-Identifier: Apache-2.0
// Contractions: zeros in the padding of both operands, partial sums where a contracted dim is
// split.
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

void partition_dot(PartitionContext& p, const ir::Instruction& source) {
  std::optional<FactorRule> rule = rule_for(source);
  if (!rule) return replicate(p, source, "no rule is known");
  const auto& attrs = source.get<ir::DotAttrs>();
  ComputeLayout layout = p.layouts.choose(source, *rule);
  std::vector<Value*> operands = p.values.operands_in(source, layout.operands);
  // Padding may hold NaN or infinity, which a zero on the other side wouldn't stop.
  ir::Instruction* lhs = p.values.masked(operands[0], attrs.lhs_contracting,
                                         p.emit.constant_scalar(operands[0]->shape.dtype, 0));
  ir::Instruction* rhs = p.values.masked(operands[1], attrs.rhs_contracting,
                                         p.emit.constant_scalar(operands[1]->shape.dtype, 0));
  ir::Instruction* x =
      p.emit.local_op(source, {lhs, rhs}, local_shape(source.shape, layout.results.front()));
  p.values.define(source, p.values.make(x, layout.results.front(), source.shape));
}

}  // namespace tessera::spmd
