// SPDX-License-Identifier: Apache-2.0
// Helpers that the random functions share. They must be called inside a trace.
#pragma once

#include <string>
#include <utility>

#include <tessera/random.h>

#include "src/frontend/ops/located.h"

namespace tessera::frontend {

/// A key's two words as scalars.
using KeyWords = std::pair<Located, Located>;
/// DTypeError or ShapeError unless the key is u32[2].
void check_key(const std::string& op, const Operand& key);
KeyWords key_words(const Operand& key);
/// The hash of counters, as a call of a computation that is made once per shape.
std::pair<Located, Located> threefry(const KeyWords& key, const Located& x0, const Located& x1);
/// The hash of each element's row-major index.
std::pair<Located, Located> hashed_positions(const KeyWords& key, const Dims& dims);
/// The two keys of `split(key, 2)`.
std::pair<KeyWords, KeyWords> split_in_two(const KeyWords& key);
/// Random unsigned integers of 8, 16, 32 or 64 bits.
Located random_bits(const KeyWords& key, const Dims& dims, int width);
/// Uniform numbers in [0, 1).
Located unit_uniform(const KeyWords& key, const Dims& dims, DType dtype);
/// Uniform numbers in [low, high); the bounds are scalars or arrays of the dtype that broadcast to
/// dims.
Located uniform_between(const KeyWords& key, const Dims& dims, const Located& low,
                        const Located& high);
/// a * b + c, rounded once.
Located fused_multiply_add(const Located& a, const Located& b, const Located& c);
/// ShapeError for negative sizes.
void check_random_shape(const std::string& op, const Dims& dims, Location location);
/// DTypeError unless the dtype is f16, bf16, f32 or f64.
void check_random_float(const std::string& op, DType dtype, Location location);
Located normal_numbers(const KeyWords& key, const Dims& dims, DType dtype);
Located gumbel_numbers(const KeyWords& key, const Dims& dims, DType dtype);
Located integers_between(const KeyWords& key, const Dims& dims, const Array& low, const Array& high,
                         DType dtype);

}  // namespace tessera::frontend
