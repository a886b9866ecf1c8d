// SPDX-License-Identifier: Apache-2.0
// The degree of parallelism of a contraction under its given shardings.
#include "src/spmd/partitioner/layout/given_ways.h"

#include <algorithm>

#include "src/base/contains.h"
#include "src/spmd/partitioner/layout/given_dot.h"
#include "src/spmd/rules/projection.h"

namespace tessera::spmd {
namespace {

/// The axes that the results are split in along dims of a single factor.
IndexList axes_of_results(const FactorRule& rule,
                          const std::vector<const TensorSharding*>& results) {
  IndexList all;
  for (std::size_t k = 0; k < results.size(); ++k) {
    const TensorFactors& factors = rule.results[k];
    if (results[k]->dims.size() != factors.size()) continue;
    for (std::size_t d = 0; d < factors.size(); ++d) {
      if (factors[d].size() != 1) continue;
      for (const int a : results[k]->dims[d].axes) {
        if (!contains(all, a)) all.push_back(a);
      }
    }
  }
  return all;
}

}  // namespace

double ways_as_given(const FactorRule& rule, const std::vector<const TensorSharding*>& operands,
                     const std::vector<const TensorSharding*>& results) {
  if (const auto ways = ways_of_given_dot(rule, operands, results)) return *ways;
  for (const auto* list : {&operands, &results}) {
    for (const TensorSharding* s : *list) {
      if (s->mesh) return double(ways_of(*s->mesh, axes_of_results(rule, results)));
    }
  }
  return 1;
}

}  // namespace tessera::spmd
