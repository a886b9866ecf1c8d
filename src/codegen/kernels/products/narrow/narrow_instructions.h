// SPDX-License-Identifier: Apache-2.0
// Instructions that multiply 8-bit integers and bf16 and add up the products, several a lane.
#pragma once

#include <cstdint>

namespace tessera::codegen {

/// Which instructions there are for one type: none, those on vectors (AVX-512 VNNI for integers,
/// AVX-512 BF16), or those on tiles (AMX).
enum class NarrowInstructions : std::uint8_t { none, vectors, tiles };

/// Those for 8-bit integers, and for bf16, that this machine has; at most that of
/// limit_narrow_instructions, and none if instruction_set() is limited below AVX-512.
NarrowInstructions integer_instructions();
NarrowInstructions bf16_instructions();
/// For tests of all versions.
void limit_narrow_instructions(NarrowInstructions most);

}  // namespace tessera::codegen
