// SPDX-License-Identifier: Apache-2.0
// Contractions: zeros in the padding of both operands, partial sums where a contracted dim is
// split.
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

namespace {

/// Emits a contraction of two operands whose listed dims are summed over.
void contract(ComputationPartitioner& p, const ir::Instruction& source, const FactorRule& rule,
              const Dims& lhs_dims, const Dims& rhs_dims) {
  ComputeLayout layout = p.layout_for(source, rule);
  std::vector<Value*> operands = p.operands_in(source, layout.operands);
  // Padding may hold NaN or infinity, which a zero on the other side wouldn't stop.
  ir::Instruction* lhs =
      p.masked(operands[0], lhs_dims, p.constant_scalar(operands[0]->shape.dtype, 0));
  ir::Instruction* rhs =
      p.masked(operands[1], rhs_dims, p.constant_scalar(operands[1]->shape.dtype, 0));
  ir::Instruction* x =
      p.emit_local(source, {lhs, rhs}, p.local_shape(source.shape, layout.results.front()));
  p.define(source, {p.make(x, layout.results.front(), source.shape)});
}

}  // namespace

void partition_dot(ComputationPartitioner& p, const ir::Instruction& source) {
  std::optional<FactorRule> rule = rule_for(source);
  if (!rule) return p.replicate(source, "no rule is known");
  const auto& attrs = source.get<ir::DotAttrs>();
  contract(p, source, *rule, attrs.lhs_contracting, attrs.rhs_contracting);
}

void partition_convolution(ComputationPartitioner& p, const ir::Instruction& source) {
  std::optional<FactorRule> rule = rule_for(source);
  if (!rule) return p.replicate(source, "no rule is known");
  const auto& attrs = source.get<ir::ConvolutionAttrs>();
  const bool grouped = attrs.feature_group_count != 1 || attrs.batch_group_count != 1;
  // Kept: batch, output feature and (where there are no groups) input feature.
  std::vector<char> keep(rule->factors.size(), 0);
  auto sole = [](const TensorFactors& t, std::int64_t dim) {
    const std::vector<int>& f = t[std::size_t(dim)];
    return f.size() == 1 ? f.front() : -1;
  };
  const TensorFactors &lhs = rule->operands[0], &rhs = rule->operands[1], &out = rule->results[0];
  const int batch = sole(lhs, attrs.input_batch);
  const int out_feature = sole(rhs, attrs.kernel_output_feature);
  const int in_feature = sole(lhs, attrs.input_feature);
  if (attrs.batch_group_count == 1 && batch >= 0 && batch == sole(out, attrs.output_batch)) {
    keep[std::size_t(batch)] = 1;
  }
  if (!grouped && out_feature >= 0 && out_feature == sole(out, attrs.output_feature)) {
    keep[std::size_t(out_feature)] = 1;
  }
  if (!grouped && in_feature >= 0 && in_feature == sole(rhs, attrs.kernel_input_feature)) {
    keep[std::size_t(in_feature)] = 1;
  }
  for (std::size_t f = 0; f < rule->factors.size(); ++f) {
    if (!keep[f]) rule->factors[f].kind = FactorKind::need_replication;
  }
  contract(p, source, *rule, {attrs.input_feature}, {attrs.kernel_input_feature});
}

}  // namespace tessera::spmd
