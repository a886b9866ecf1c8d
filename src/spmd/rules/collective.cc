// SPDX-License-Identifier: Apache-2.0
// Collectives of the user's own, within manual computations.
#include <algorithm>

#include "src/spmd/rules/rules.h"

namespace tessera::spmd::rules {

/// Along which dims a collective treats each part the same.
std::optional<FactorRule> collective(const ir::Instruction& source) {
  if (source.operands().size() != flatten(source.shape).size()) return std::nullopt;
  FactorRule rule;
  std::vector<TensorFactors> operands, results;
  const std::vector<Shape> outs = flatten(source.shape);
  const auto* attrs = source.attrs.get_if<ir::CollectiveAttrs>();
  for (std::size_t k = 0; k < outs.size(); ++k) {
    TensorFactors in(outs[k].dims.size()), out(outs[k].dims.size());
    for (std::size_t d = 0; d < outs[k].dims.size(); ++d) {
      const bool mixed = attrs && std::find(attrs->dims.begin(), attrs->dims.end(),
                                            std::int64_t(d)) != attrs->dims.end();
      const FactorKind kind = mixed ? FactorKind::need_replication : FactorKind::pass_through;
      in[d] = out[d] = {int(rule.factors.size())};
      rule.factors.push_back({source.operand(k)->shape.dim(std::int64_t(d)), kind});
      if (mixed) {
        out[d] = {int(rule.factors.size())};
        rule.factors.push_back({outs[k].dims[d], kind});
      }
    }
    operands.push_back(std::move(in));
    results.push_back(std::move(out));
  }
  rule.operands = std::move(operands);
  rule.results = std::move(results);
  return rule;
}

}  // namespace tessera::spmd::rules
