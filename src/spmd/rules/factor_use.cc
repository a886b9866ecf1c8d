// SPDX-License-Identifier: Apache-2.0
// What factors are to the tensors of a rule.
#include "src/spmd/rules/factor_use.h"

#include <algorithm>

#include "src/base/check.h"

namespace tessera::spmd {

std::vector<FactorUse> factor_uses(const FactorRule& rule) {
  std::vector<FactorUse> uses(rule.factors.size());
  for (std::size_t f = 0; f < uses.size(); ++f) uses[f].size = rule.factors[f].size;
  const auto look = [&](const std::vector<TensorFactors>& tensors, bool results) {
    for (const TensorFactors& tensor : tensors) {
      for (const IndexList& dim : tensor) {
        for (const int f : dim) {
          uses[std::size_t(f)].in_result |= results;
          uses[std::size_t(f)].compound |= dim.size() > 1;
        }
      }
    }
  };
  look(rule.operands, false);
  look(rule.results, true);
  for (std::size_t f = 0; f < uses.size(); ++f) {
    const FactorKind kind = rule.factors[f].kind;
    uses[f].carries = uses[f].in_result
                          ? kind == FactorKind::pass_through || kind == FactorKind::permutation
                          : kind == FactorKind::reduction;
  }
  return uses;
}

double work_share(const LogicalMesh& mesh, const std::vector<FactorUse>& uses,
                  const std::vector<IndexList>& factor_axes) {
  double share = 1;
  for (std::size_t f = 0; f < factor_axes.size(); ++f) {
    if (factor_axes[f].empty()) continue;
    const std::int64_t ways = ways_of(mesh, factor_axes[f]), size = uses[f].size;
    share *= size > 0 ? double(ceil_div(size, ways)) / double(size) : 1 / double(ways);
  }
  return share;
}

bool can_split(const LogicalMesh& mesh, const std::vector<FactorUse>& uses,
               const std::vector<Projection>& projections, std::size_t factor,
               const IndexList& axes) {
  const std::int64_t size = uses[factor].size;
  if (size > 0 && size % ways_of(mesh, axes) == 0) return true;
  if (uses[factor].compound) return false;
  return std::any_of(projections.begin(), projections.end(), [&](const Projection& p) {
    const IndexList& have = p.factors[factor].axes;
    return have.size() >= axes.size() && std::equal(axes.begin(), axes.end(), have.begin());
  });
}

TensorSharding tensor_sharding(const MeshRef& mesh, const FactorRule& rule,
                               const std::vector<FactorUse>& uses, const TensorFactors& tensor,
                               bool is_result, const std::vector<IndexList>& factor_axes) {
  TensorSharding s;
  s.mesh = mesh;
  tensor_sharding(mesh, rule, uses, tensor, is_result, factor_axes, &s);
  return s;
}

void tensor_sharding(const MeshRef& mesh, const FactorRule& rule,
                     const std::vector<FactorUse>& uses, const TensorFactors& tensor,
                     bool is_result, const std::vector<IndexList>& factor_axes,
                     TensorSharding* out) {
  TensorSharding& s = *out;
  s.dims.resize(tensor.size());
  s.unreduced.clear();
  if (!mesh) return;
  for (std::size_t d = 0; d < s.dims.size(); ++d) {
    s.dims[d].axes = dim_axes(*mesh, rule, tensor[d], factor_axes);
  }
  if (!is_result) return;
  for (std::size_t f = 0; f < factor_axes.size(); ++f) {
    if (uses[f].in_result) continue;
    s.unreduced.insert(s.unreduced.end(), factor_axes[f].begin(), factor_axes[f].end());
  }
  std::sort(s.unreduced.begin(), s.unreduced.end());
}

bool is_expressible(const LogicalMesh& mesh, const FactorRule& rule,
                    const std::vector<IndexList>& factor_axes) {
  bool complete = true;
  for (const auto* tensors : {&rule.operands, &rule.results}) {
    for (const TensorFactors& tensor : *tensors) {
      for (const IndexList& dim : tensor) {
        if (dim.size() > 1) dim_axes(mesh, rule, dim, factor_axes, &complete);
      }
    }
  }
  return complete;
}

}  // namespace tessera::spmd
