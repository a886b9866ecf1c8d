// SPDX-License-Identifier: Apache-2.0
#include "src/spmd/partitioner/given_ways.h"

#include <algorithm>

namespace tessera::spmd {
namespace {

/// The longest of the lists if it begins like the others, else what all begin with.
IndexList agreed(const std::vector<const IndexList*>& lists) {
  IndexList out;
  for (std::size_t n = 0;; ++n) {
    bool some = false, all = true;
    int axis = -1;
    for (const IndexList* list : lists) {
      if (list->size() <= n) continue;
      const int a = (*list)[n];
      if (some && a != axis) all = false;
      some = true;
      axis = a;
    }
    if (!some || !all) return out;
    out.push_back(axis);
  }
}

}  // namespace

double ways_as_given(const FactorRule& rule, const std::vector<const TensorSharding*>& operands,
                     const std::vector<const TensorSharding*>& results) {
  // By factor: the axes of the result, and of the operands that have any.
  const LogicalMesh* mesh = nullptr;
  std::vector<const IndexList*> wanted(rule.factors.size(), nullptr);
  std::vector<std::vector<const IndexList*>> held(rule.factors.size());
  const auto each = [&](const TensorFactors& factors, const TensorSharding& s, auto&& use) {
    if (s.dims.size() != factors.size()) return;
    if (s.mesh) mesh = s.mesh.get();
    for (std::size_t d = 0; d < factors.size(); ++d) {
      const IndexList& axes = s.dims[d].axes;
      if (factors[d].size() == 1 && !axes.empty()) use(std::size_t(factors[d][0]), &axes);
    }
  };
  for (std::size_t k = 0; k < results.size(); ++k) {
    each(rule.results[k], *results[k],
         [&](std::size_t f, const IndexList* axes) { wanted[f] = axes; });
  }
  for (std::size_t k = 0; k < operands.size(); ++k) {
    each(rule.operands[k], *operands[k],
         [&](std::size_t f, const IndexList* axes) { held[f].push_back(axes); });
  }
  if (!mesh) return 1;
  double ways = 1;
  IndexList taken;
  const auto take = [&](const IndexList& axes) {
    for (const int a : axes) {
      if (std::find(taken.begin(), taken.end(), a) != taken.end()) break;
      taken.push_back(a);
      ways *= double(mesh->axes[std::size_t(a)].size);
    }
  };
  for (const bool reduction : {false, true}) {
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
      if ((rule.factors[f].kind == FactorKind::reduction) != reduction) continue;
      if (wanted[f]) {
        take(*wanted[f]);
      } else if (held[f].size() >= (reduction ? 2 : 1)) {
        take(agreed(held[f]));
      }
    }
  }
  return ways;
}

}  // namespace tessera::spmd
