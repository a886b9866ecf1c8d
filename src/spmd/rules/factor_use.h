// SPDX-License-Identifier: Apache-2.0
// What the factors of a rule are to its tensors, and the shardings that axes on factors give them.
#pragma once

#include <cstddef>
#include <vector>

#include "src/sharding/axes/tensor_sharding.h"
#include "src/spmd/rules/factor_rule.h"
#include "src/spmd/rules/projection.h"

namespace tessera::spmd {

struct FactorUse {
  bool carries = false;   ///< work can be shared out along it
  bool compound = false;  ///< part of a dim somewhere: cut evenly or not at all
  bool in_result = false;
  std::int64_t size = 1;
};

/// By factor of the rule.
std::vector<FactorUse> factor_uses(const FactorRule& rule);

/// The part of an op's work that one device has where axes split the factors so.
double work_share(const LogicalMesh& mesh, const std::vector<FactorUse>& uses,
                  const std::vector<IndexList>& factor_axes);

/// Whether the axes can split a factor: evenly, or as one of the tensors has it split already.
/// `projections`: of the tensors' shardings.
bool can_split(const LogicalMesh& mesh, const std::vector<FactorUse>& uses,
               const std::vector<Projection>& projections, std::size_t factor,
               const IndexList& axes);

/// The sharding of one tensor where axes split the factors so. Axes on factors that results lack
/// are `unreduced` in a result.
TensorSharding tensor_sharding(const MeshRef& mesh, const FactorRule& rule,
                               const std::vector<FactorUse>& uses, const TensorFactors& tensor,
                               bool is_result, const std::vector<IndexList>& factor_axes);

/// The same into one that was used before for a tensor of this rank, whose memory serves again.
void tensor_sharding(const MeshRef& mesh, const FactorRule& rule,
                     const std::vector<FactorUse>& uses, const TensorFactors& tensor,
                     bool is_result, const std::vector<IndexList>& factor_axes,
                     TensorSharding* out);

/// Whether each tensor of the rule can be cut as its factors are.
bool is_expressible(const LogicalMesh& mesh, const FactorRule& rule,
                    const std::vector<IndexList>& factor_axes);

}  // namespace tessera::spmd
