// SPDX-License-Identifier: Apache-2.0
// Dots that are elementwise work in disguise.
#pragma once

#include "src/ir/module.h"

namespace tessera::ir {

/// Outer products and products of two vectors (of a batch of pairs, too), which are elementwise
/// work and a sum.
enum class DotKind { outer, vectors, general };

/// Of a dot as it stands. General where sums are held in a wider type than the result's, or where
/// there is nothing to sum.
DotKind kind_of_dot(const Instruction& dot);

}  // namespace tessera::ir
