// SPDX-License-Identifier: Apache-2.0
// Floats of one byte or less: their values, and rounding to them (to nearest, ties to even).
// Numbers beyond the largest finite one become infinity, or NaN if the type has no infinity, or the
// largest finite number if it has neither.
#pragma once

#include <cstdint>

#include <tessera/dtype.h>

namespace tessera {

class Literal;

/// Whether the type is one of f4e2m1fn, f6e2m3fn, ..., f8e8m0fnu.
inline bool is_small_float(DType t) { return is_floating(t) && byte_size(t) == 1; }

/// What the greatest codes of a format are.
enum class SmallFloatSpecial : std::uint8_t {
  ieee,      ///< the greatest exponent is infinity and NaN
  one_nan,   ///< "fn": NaN is all ones, no infinity
  neg_zero,  ///< "fnuz": the bits of -0 are NaN, no infinity
  none,      ///< "fn" with four or six bits: neither NaN nor infinity
};
struct SmallFloatForm {
  int exponent_bits = 0, mantissa_bits = 0, bias = 0;
  SmallFloatSpecial special = SmallFloatSpecial::ieee;
};
/// Of the types with a sign: all but f8e8m0fnu.
constexpr SmallFloatForm small_float_form(DType t) {
  switch (t) {
    case DType::f4e2m1fn:
      return {2, 1, 1, SmallFloatSpecial::none};
    case DType::f6e2m3fn:
      return {2, 3, 1, SmallFloatSpecial::none};
    case DType::f6e3m2fn:
      return {3, 2, 3, SmallFloatSpecial::none};
    case DType::f8e3m4:
      return {3, 4, 3, SmallFloatSpecial::ieee};
    case DType::f8e4m3:
      return {4, 3, 7, SmallFloatSpecial::ieee};
    case DType::f8e4m3b11fnuz:
      return {4, 3, 11, SmallFloatSpecial::neg_zero};
    case DType::f8e4m3fn:
      return {4, 3, 7, SmallFloatSpecial::one_nan};
    case DType::f8e4m3fnuz:
      return {4, 3, 8, SmallFloatSpecial::neg_zero};
    case DType::f8e5m2:
      return {5, 2, 15, SmallFloatSpecial::ieee};
    case DType::f8e5m2fnuz:
      return {5, 2, 16, SmallFloatSpecial::neg_zero};
    default:
      return {};
  }
}

/// Number of mantissa bits stored by the type.
int small_float_mantissa_bits(DType);
/// Number of bits of the type: 4, 6 or 8.
int small_float_width(DType);
double small_float_value(DType, std::uint8_t bits);
std::uint8_t small_float_bits(DType, double value);
Literal small_float_scalar(DType, double value);

}  // namespace tessera
