// SPDX-License-Identifier: Apache-2.0
// Projects shardings of tensors onto factors and back.
#include "src/spmd/rules/projection.h"

namespace tessera::spmd {

Projection project(const LogicalMesh& mesh, const FactorRule& rule, const TensorFactors& tensor,
                   const TensorSharding& sharding) {
  Projection out;
  project(mesh, rule, tensor, sharding, &out);
  return out;
}

void project(const LogicalMesh& mesh, const FactorRule& rule, const TensorFactors& tensor,
             const TensorSharding& sharding, Projection* to) {
  Projection& out = *to;
  out.factors.resize(rule.factors.size());
  for (ProjectedFactor& f : out.factors) {
    f.axes.clear();
    f.extendable = true;
  }
  out.overflow = false;
  out.present.assign(rule.factors.size(), 0);
  for (std::size_t d = 0; d < tensor.size(); ++d) {
    const IndexList& factors = tensor[d];
    std::size_t k = 0;
    std::int64_t rest = 1;
    auto open_factor = [&] {
      if (k < factors.size()) rest = rule.factors[std::size_t(factors[k])].size;
    };
    for (int f : factors) out.present[std::size_t(f)] = 1;
    open_factor();
    bool stuck = false;
    for (int axis : sharding.dims[d].axes) {
      std::int64_t size = mesh.axes[std::size_t(axis)].size;
      while (k + 1 < factors.size() && rest == 1 && size > 1) {
        ++k;
        open_factor();
      }
      if (factors.empty()) {
        stuck = true;
        break;
      }
      bool last = k + 1 == factors.size();
      if (rest % size == 0) {
        rest /= size;
      } else if (last) {
        // Uneven: what remains isn't known any more.
        rest = rest / size > 0 ? rest / size : 1;
      } else {
        stuck = true;
        break;
      }
      out.factors[std::size_t(factors[k])].axes.push_back(axis);
    }
    // Only the factor that the axes have come to may take more, or the next if that one is full.
    while (k + 1 < factors.size() && rest == 1) {
      ++k;
      open_factor();
    }
    for (std::size_t i = 0; i < factors.size(); ++i) {
      out.factors[std::size_t(factors[i])].extendable = !stuck && i == k;
    }
    out.overflow |= stuck;
  }
}

std::optional<std::vector<IndexList>> common_axes(const FactorRule& rule,
                                                  const std::vector<Projection>& projections) {
  std::vector<IndexList> out(rule.factors.size());
  std::vector<char> seen(rule.factors.size(), 0);
  for (const Projection& p : projections) {
    if (p.overflow) return std::nullopt;
    for (std::size_t f = 0; f < out.size(); ++f) {
      if (!p.present[f]) continue;
      if (seen[f] && out[f] != p.factors[f].axes) return std::nullopt;
      seen[f] = 1;
      out[f] = p.factors[f].axes;
    }
  }
  return out;
}

IndexList dim_axes(const LogicalMesh& mesh, const FactorRule& rule, const IndexList& dim_factors,
                   const std::vector<IndexList>& factor_axes, bool* complete) {
  IndexList axes;
  bool full = true;
  for (int f : dim_factors) {
    const auto& list = factor_axes[std::size_t(f)];
    if (!full) {
      if (ways_of(mesh, list) > 1 && complete) *complete = false;
      continue;
    }
    axes.insert(axes.end(), list.begin(), list.end());
    full = ways_of(mesh, list) == rule.factors[std::size_t(f)].size;
  }
  return axes;
}

}  // namespace tessera::spmd
