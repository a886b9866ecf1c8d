// SPDX-License-Identifier: Apache-2.0
// Unreduced and reduced axes of the results of ops.
#pragma once

#include "src/frontend/explicit/rules.h"

namespace tessera::frontend {

/// A partial sum may go through ops that are linear in it, alone or with others over the same axes;
/// ShardingTypeError for other ops. Reduced axes go through all ops: what they say is of gradients.
void set_partial_sums(const TypedOp& op, ShardingType* result);

}  // namespace tessera::frontend
