// SPDX-License-Identifier: Apache-2.0
// Contractions: zeros in the padding of both operands, partial sums where a contracted dim is
// split.
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

OpPlan plan_dot(PartitionContext& p, const ir::Instruction& source) {
  return planned(p.layouts.choose(source, *rule_for(source)));
}

void partition_dot(PartitionContext& p, const ir::Instruction& source) {
  const auto& attrs = source.get<ir::DotAttrs>();
  Value *lhs = p.values.declared(*source.operand(0)), *rhs = p.values.declared(*source.operand(1));
  // Padding may hold NaN or infinity, which a zero on the other side wouldn't stop.
  ir::Instruction* x =
      p.values.masked(lhs, attrs.lhs_contracting, p.emit.constant_scalar(lhs->shape.dtype, 0));
  ir::Instruction* y =
      p.values.masked(rhs, attrs.rhs_contracting, p.emit.constant_scalar(rhs->shape.dtype, 0));
  const TensorSharding& result = p.source.sharding(source);
  p.values.define(source, p.emit.local_op(source, {x, y}, local_shape(source.shape, result)),
                  {result});
}

}  // namespace tessera::spmd
