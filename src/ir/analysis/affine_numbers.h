// SPDX-License-Identifier: Apache-2.0
// Integers that a program counts, as indices often are: sums of multiples of their coordinates.
// Also called: affine maps, scalar evolution.
#pragma once

#include <cstdint>
#include <optional>

#include "src/ir/instruction.h"

namespace tessera::ir {

/// base + the sum over dims d of coordinate[d] * strides[d]. Along dims of one element: stride 0.
struct AffineNumbers {
  std::int64_t base = 0;
  Dims strides;
  std::int64_t least = 0, greatest = 0;  ///< of all of them

  /// Whether they are one number.
  bool is_one() const { return least == greatest; }
};

/// Of an array of integers, if all that makes them is known from the program's text, and nothing
/// wraps. Numbers that are clamped, or wrapped round where they are negative, are what they are if
/// none of them is outside.
std::optional<AffineNumbers> affine_numbers(const Instruction& x);

/// Number `k` of each index vector. The vectors lie along dim `vector_dim` of the indices, whose
/// other dims the result has; if that is their rank, vectors are single numbers.
std::optional<AffineNumbers> affine_component(const Instruction& indices, std::int64_t vector_dim,
                                              std::int64_t k);

}  // namespace tessera::ir
