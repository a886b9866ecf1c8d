// SPDX-License-Identifier: Apache-2.0
// Values of tuple shape as lists of arrays.
#pragma once

#include <span>
#include <vector>

#include "src/transforms/utils/tangent.h"

namespace tessera::transforms {

/// The arrays of a value, tuples in tuples in pre-order; an array is its own. Tokens count as
/// arrays.
std::vector<ir::Instruction*> leaves_of(ir::Builder& b, ir::Instruction* value);
/// The value of that shape that has these leaves.
ir::Instruction* from_leaves(ir::Builder& b, const Shape& shape,
                             std::span<ir::Instruction* const> leaves);
/// One tangent per leaf of the shape, null for those known to be zero.
std::vector<ir::Instruction*> leaves_of(const Tangent& tangent, const Shape& shape);
Tangent tangent_from_leaves(const Shape& shape, std::span<ir::Instruction* const> leaves);
/// The same for lists of values, one after the other.
std::vector<ir::Instruction*> leaves_of(ir::Builder& b, std::span<ir::Instruction* const> values);

/// Those that are not null.
std::vector<ir::Instruction*> present(std::span<ir::Instruction* const> instructions);
/// Which are not null.
std::vector<bool> presence(std::span<ir::Instruction* const> instructions);

}  // namespace tessera::transforms
