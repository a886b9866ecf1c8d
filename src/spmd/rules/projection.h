// SPDX-License-Identifier: Apache-2.0
// From axes on the dims of a tensor to axes on the factors of an op, and back.
#pragma once

#include <optional>
#include <vector>

#include "src/sharding/axes/ways.h"
#include "src/spmd/rules/factor_rule.h"

namespace tessera::spmd {

/// A factor's axes as one tensor sees it.
struct ProjectedFactor {
  IndexList axes;  ///< major to minor
  /// More axes may follow on this factor, were the dim open.
  bool extendable = true;
};

struct Projection {
  /// By factor of the rule; those that the tensor lacks are empty and not `present`.
  std::vector<ProjectedFactor> factors;
  std::vector<char> present;
  /// Some dim has axes that no factor can take (they would cut a factor unevenly in its midst).
  bool overflow = false;
};

Projection project(const LogicalMesh& mesh, const FactorRule& rule, const TensorFactors& tensor,
                   const TensorSharding& sharding);
/// The same into one that was used before, whose memory serves again.
void project(const LogicalMesh& mesh, const FactorRule& rule, const TensorFactors& tensor,
             const TensorSharding& sharding, Projection* out);

/// The axes that split each factor in all tensors that have it; nothing if they differ, or if a
/// tensor has axes on no factor.
std::optional<std::vector<IndexList>> common_axes(const FactorRule& rule,
                                                  const std::vector<Projection>& projections);

/// Axes of a dim from those of its factors. A factor's axes can stand only if the factors before
/// are wholly used up: `complete` becomes false if some had to be left out.
IndexList dim_axes(const LogicalMesh& mesh, const FactorRule& rule, const IndexList& dim_factors,
                   const std::vector<IndexList>& factor_axes, bool* complete = nullptr);

}  // namespace tessera::spmd
