// SPDX-License-Identifier: Apache-2.0
// Structural equality: which instructions and computations compute the same.
#pragma once

#include <cstdint>

#include "src/ir/module.h"

namespace tessera::ir {

/// Gives the same whenever its operands are the same, and nothing would miss a second one.
bool is_pure(const Instruction& instruction);
/// Equal attributes, channels aside: those only name a collective.
bool same_attributes(const Attributes& a, const Attributes& b);
/// Whether the same comes of the same operands: opcode, shape, attributes (channels aside) and
/// shardings are equal, and so is what they call.
bool same_operation(const Instruction& a, const Instruction& b);
/// Instruction by instruction the same operation on the same operands; names and metadata aside.
bool same_computation(const Computation& a, const Computation& b);
/// Equal for what same_operation finds equal. Looks at no more of a constant than its beginning.
std::uint64_t operation_hash(const Instruction& instruction);
/// Mixes another number into a hash.
std::uint64_t mix_hash(std::uint64_t hash, std::uint64_t more);

}  // namespace tessera::ir
