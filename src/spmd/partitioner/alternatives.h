// SPDX-License-Identifier: Apache-2.0
// Collects shardings with which less might move than with those that propagation chose.
#pragma once

#include <cstddef>
#include <vector>

#include "src/ir/module.h"
#include "src/spmd/factor_rule.h"
#include "src/spmd/partitioner/layout/layout_search.h"
#include "src/spmd/partitioner/partition.h"
#include "src/spmd/partitioner/source_computation.h"

namespace tessera::spmd {

class AlternativeCollector {
 public:
  /// `out`: null: nothing is collected.
  AlternativeCollector(const SourceComputation& source, std::vector<LayoutAlternative>* out)
      : source_(source), out_(out) {}

  bool enabled() const { return out_ != nullptr; }
  /// Another sharding of an array, worth trying for the bytes that move as it is.
  void suggest(const ir::Instruction& array, const TensorSharding& s, double bytes);
  /// Where leaf `leaf` of `value`, of that shape, is resharded.
  void suggest_ends(const ir::Instruction& value, std::size_t leaf, const Shape& shape,
                    const TensorSharding& from, const TensorSharding& to, double bytes);
  /// Where an op moves its operands.
  void suggest_results(const ir::Instruction& op, const FactorRule& rule,
                       const std::vector<TensorSharding>& operands, const ComputeLayout& layout);

 private:
  const SourceComputation& source_;
  std::vector<LayoutAlternative>* out_;
};

}  // namespace tessera::spmd
