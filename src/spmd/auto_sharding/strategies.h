// SPDX-License-Identifier: Apache-2.0
// Ways to share out the work of one op, and which of them are the same to some of its tensors.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "src/spmd/auto_sharding/model_state.h"
#include "src/spmd/rules/factor_use.h"

namespace tessera::spmd::auto_sharding {

/// By factor: the axes that split it.
using FactorAxes = std::vector<IndexList>;

struct Strategies {
  std::vector<FactorUse> uses;
  std::vector<FactorAxes> list;
};

/// Those that agree with `now` on where the groups are that stay.
Strategies enumerate(const ModelState& state, const propagation::Op& op, const FactorAxes& now);
/// The way to share out an op that moves nothing, if all its tensors are split alike.
std::optional<FactorAxes> agreement(const ModelState& state, const propagation::Op& op);

struct TensorUse {
  const TensorFactors* factors;
  bool is_result;
};

/// Strategies by how they split some tensors.
struct Columns {
  std::vector<int> of;               ///< by strategy
  std::vector<std::size_t> example;  ///< by column: a strategy
};

/// Of one column are strategies that put the same axes on all factors that these tensors have to do
/// with.
Columns columns_of(const FactorRule& rule, const Strategies& strategies,
                   const std::vector<TensorUse>& tensors);

/// The groups of mesh axes that one model places: all, if they are few, else two at a time.
std::vector<std::vector<std::size_t>> blocks(std::size_t groups);

}  // namespace tessera::spmd::auto_sharding
