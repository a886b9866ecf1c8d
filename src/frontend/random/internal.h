// SPDX-License-Identifier: Apache-2.0
// What the random functions share. All of it works inside a trace.
#pragma once

#include <string>
#include <utility>

#include <tessera/random.h>

#include "src/frontend/ops/located.h"

namespace tessera::frontend {

/// A key's two words as scalars.
using KeyWords = std::pair<Located, Located>;
/// u32[2], else DTypeError or ShapeError.
void check_key(const std::string& op, const Operand& key);
KeyWords key_words(const Operand& key);
/// The hash of counters; one computation for each shape, called.
std::pair<Located, Located> threefry(const KeyWords& key, const Located& x0, const Located& x1);
/// The hash of each element's row-major number.
std::pair<Located, Located> hashed_positions(const KeyWords& key, const Dims& dims);
/// Keys of `split(key, 2)`.
std::pair<KeyWords, KeyWords> split_in_two(const KeyWords& key);
/// Unsigned integers of 8, 16, 32 or 64 bits.
Located random_bits(const KeyWords& key, const Dims& dims, int width);
/// In [0, 1).
Located unit_uniform(const KeyWords& key, const Dims& dims, DType dtype);
/// In [low, high): scalars or arrays of the dtype that broadcast to dims.
Located uniform_between(const KeyWords& key, const Dims& dims, const Located& low,
                        const Located& high);
/// a * b + c rounded once.
Located fused_multiply_add(const Located& a, const Located& b, const Located& c);
/// Sizes that aren't negative.
void check_random_shape(const std::string& op, const Dims& dims, Location location);
/// f16, bf16, f32 or f64, else DTypeError.
void check_random_float(const std::string& op, DType dtype, Location location);
Located normal_numbers(const KeyWords& key, const Dims& dims, DType dtype);
Located gumbel_numbers(const KeyWords& key, const Dims& dims, DType dtype);
Located integers_between(const KeyWords& key, const Dims& dims, const Array& low, const Array& high,
                         DType dtype);

}  // namespace tessera::frontend
