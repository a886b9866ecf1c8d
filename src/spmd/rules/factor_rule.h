// SPDX-License-Identifier: Apache-2.0
// Which dims of an op's operands and results correspond (Shardy's OpShardingRule).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/ir/hooks.h"
#include "src/ir/module.h"

namespace tessera::spmd {

enum class FactorKind : std::uint8_t {
  pass_through,      ///< the op is independent along it
  reduction,         ///< in operands only; results are partial sums if it is split
  need_replication,  ///< the op needs all of it
  permutation,       ///< results need neighbours along it (halo)
};

struct Factor {
  std::int64_t size = 1;
  FactorKind kind = FactorKind::pass_through;
  bool blocked = false;  ///< axes never flow through it
  bool uneven = false;   ///< axes needn't split it evenly
};

/// tensor[dim] = factors, major to minor; sizes multiply to the dim's size.
using TensorFactors = std::vector<IndexList>;

struct FactorRule {
  std::vector<Factor> factors;
  std::vector<TensorFactors> operands;  ///< one per operand (leaf of it, for tuples)
  std::vector<TensorFactors> results;   ///< one per result leaf
  /// `([i, k],[k, j])->([i, j]) {i=8, j=16, k=4} reduction={k}`
  std::string to_string() const;
};

/// The rule of one instruction; empty for data-flow ops (while, conditional, call, tuple, ...),
/// sources (constant, parameter, iota has one: result-only factors) and ops nobody knows.
std::optional<FactorRule> rule_for(const ir::Instruction& instruction);
FactorRule from_spec(const ir::FactorRuleSpec& spec);

}  // namespace tessera::spmd
