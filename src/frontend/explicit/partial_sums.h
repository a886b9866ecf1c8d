// SPDX-License-Identifier: Apache-2.0
// Unreduced and reduced axes of the results of ops.
#pragma once

#include "src/frontend/explicit/rules.h"

namespace tessera::frontend {

/// A partial sum may go through ops that are linear in it, alone or with others over the same axes,
/// a partial maximum or minimum through ops that move elements and through that of its own kind;
/// ShardingTypeError for other ops. Reduced axes go through all ops: what they say is of gradients.
void set_partial_sums(const TypedOp& op, ShardingType* result);

/// ShardingTypeError if an operand is a partial maximum or minimum, and the op isn't one for those.
void check_extrema(const TypedOp& op);

}  // namespace tessera::frontend
