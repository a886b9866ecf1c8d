// SPDX-License-Identifier: Apache-2.0
// Floats of one byte or less: their values, and rounding to them (to nearest, ties to even).
// Numbers beyond the largest finite one become infinity, or NaN if the type has no infinity, or the
// largest finite number if it has neither.
#pragma once

#include <cstdint>

#include <tessera/dtype.h>

namespace tessera {

/// Whether the type is one of f4e2m1fn, f8e3m4, ..., f8e8m0fnu.
inline bool is_small_float(DType t) { return is_floating(t) && byte_size(t) == 1; }

/// Number of mantissa bits stored by the type.
int small_float_mantissa_bits(DType);
/// Number of bits of the type: 4 or 8.
int small_float_width(DType);
double small_float_value(DType, std::uint8_t bits);
std::uint8_t small_float_bits(DType, double value);

}  // namespace tessera
