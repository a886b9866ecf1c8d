// SPDX-License-Identifier: Apache-2.0
// Ways to share out the work of one op, and which of them are the same to some of its tensors.
#pragma once

#include <cstddef>
#include <vector>

#include "src/spmd/rules/factor_use.h"

namespace tessera::spmd::auto_sharding {

/// By factor: the axes that split it.
using FactorAxes = std::vector<IndexList>;

struct Strategies {
  std::vector<FactorUse> uses;
  std::vector<FactorAxes> list;
};

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
