// SPDX-License-Identifier: Apache-2.0
// The float formats of 4, 6 and 8 bits: their values and rounding to them.
#include "src/base/arrays/small_floats.h"

#include <cmath>
#include <limits>
#include <span>

#include "src/base/arrays/literal.h"

namespace tessera {
namespace {

using Special = SmallFloatSpecial;
using Form = SmallFloatForm;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// f8e8m0fnu: powers of two from 2^-127 on; 0xff is NaN. There is no sign and no zero.
double power_of_two(std::uint8_t bits) { return bits == 0xff ? kNaN : std::ldexp(1.0, bits - 127); }

std::uint8_t nearest_power_of_two(double v) {
  // Zero, negative numbers and infinity can't be represented.
  if (std::isnan(v) || std::signbit(v) || v == 0 || std::isinf(v)) return 0xff;
  int exponent = 0;
  const double fraction = std::frexp(v, &exponent) * 2;  // in [1, 2)
  int bits = exponent - 1 + 127;
  // There are no mantissa bits, so ties have no even neighbour: they round up.
  if (bits >= 0 && fraction >= 1.5) ++bits;
  if (bits < 0) return 0;
  return bits >= 0xff ? 0xff : std::uint8_t(bits);
}

}  // namespace

int small_float_mantissa_bits(DType t) {
  return t == DType::f8e8m0fnu ? 0 : small_float_form(t).mantissa_bits;
}

int small_float_width(DType t) {
  if (t == DType::f8e8m0fnu) return 8;
  const Form f = small_float_form(t);
  return 1 + f.exponent_bits + f.mantissa_bits;
}

double small_float_value(DType t, std::uint8_t bits) {
  if (t == DType::f8e8m0fnu) return power_of_two(bits);
  const Form f = small_float_form(t);
  const int magnitude_bits = f.exponent_bits + f.mantissa_bits;
  const int all_ones = (1 << magnitude_bits) - 1;
  const bool negative = ((bits >> magnitude_bits) & 1) != 0;
  const int magnitude = bits & all_ones;
  const int exponent = magnitude >> f.mantissa_bits;
  const int fraction = magnitude & ((1 << f.mantissa_bits) - 1);
  const double sign = negative ? -1.0 : 1.0;
  if (f.special == Special::neg_zero && negative && magnitude == 0) return kNaN;
  if (f.special == Special::one_nan && magnitude == all_ones) return std::copysign(kNaN, sign);
  if (f.special == Special::ieee && exponent == (1 << f.exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::copysign(kNaN, sign);
  }
  if (exponent == 0) return sign * std::ldexp(double(fraction), 1 - f.bias - f.mantissa_bits);
  return sign *
         std::ldexp(double((1 << f.mantissa_bits) + fraction), exponent - f.bias - f.mantissa_bits);
}

std::uint8_t small_float_bits(DType t, double value) {
  if (t == DType::f8e8m0fnu) return nearest_power_of_two(value);
  const Form f = small_float_form(t);
  const int magnitude_bits = f.exponent_bits + f.mantissa_bits;
  const int all_ones = (1 << magnitude_bits) - 1;
  const int sign = std::signbit(value) ? 1 << magnitude_bits : 0;
  const int infinity = ((1 << f.exponent_bits) - 1) << f.mantissa_bits;
  const auto nan = [&] {
    switch (f.special) {
      case Special::ieee:
        return sign | infinity | (1 << (f.mantissa_bits - 1));
      case Special::one_nan:
        return sign | all_ones;
      case Special::neg_zero:
        return 1 << magnitude_bits;
      default:
        return 1 << magnitude_bits;  // -0: the format has no NaN
    }
  };
  const auto overflow = [&] {
    if (f.special == Special::ieee) return sign | infinity;
    return f.special == Special::none ? sign | all_ones : nan();
  };
  if (std::isnan(value)) return std::uint8_t(nan());
  if (std::isinf(value)) return std::uint8_t(overflow());
  const double size = std::fabs(value);
  int exponent = 0;
  std::frexp(size, &exponent);
  exponent -= 1;  // size = 1.x * 2^exponent
  if (size == 0 || exponent < 1 - f.bias) exponent = 1 - f.bias;
  // In units in the last place; both scalings are exact.
  const double units = std::ldexp(size, f.mantissa_bits - exponent);
  if (units >= 1 << (f.mantissa_bits + 2)) return std::uint8_t(overflow());
  double whole = std::floor(units);
  const double rest = units - whole;
  if (rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) != 0)) whole += 1;
  // A number that rounds up to the next power of two carries into the exponent by itself.
  const int mantissa_one = 1 << f.mantissa_bits;
  const int number = int(whole);
  const int magnitude =
      number < mantissa_one ? number : (exponent + f.bias - 1) * mantissa_one + number;
  const int largest = f.special == Special::ieee      ? infinity - 1
                      : f.special == Special::one_nan ? all_ones - 1
                                                      : all_ones;
  if (magnitude > largest) return std::uint8_t(overflow());
  if (f.special == Special::neg_zero && magnitude == 0) return 0;
  return std::uint8_t(sign | magnitude);
}

Literal small_float_scalar(DType t, double value) {
  const std::uint8_t bits = small_float_bits(t, value);
  return Literal(Shape(t, {}), std::as_bytes(std::span(&bits, 1)));
}

}  // namespace tessera
