// SPDX-License-Identifier: Apache-2.0
// Conversion of a sharding rule to factors.
#pragma once

#include <functional>
#include <vector>

#include <tessera/sharding/sharding_rule.h>

#include "src/ir/hooks.h"

namespace tessera::frontend {

/// The rule for these shapes. ValueError: counts of operands and results, ranks, sizes of ellipsis
/// dims, products of compound dims that don't fit.
ir::FactorRuleSpec to_factors(const ShardingRule& rule, const std::vector<Dims>& operands,
                              const std::vector<Dims>& results);

}  // namespace tessera::frontend
