// SPDX-License-Identifier: Apache-2.0
// Conversion of f16 and bf16 from and to wider floats, rounding to nearest even.
#include "src/base/arrays/float_types.h"

namespace tessera {
namespace {

/// The bits of a double rounded (to nearest, ties to even) to an IEEE format with `exponent_bits`
/// and `mantissa_bits`.
std::uint16_t narrow(double v, int exponent_bits, int mantissa_bits) {
  const std::uint64_t u = std::bit_cast<std::uint64_t>(v);
  const std::uint64_t sign = (u >> 63) << (exponent_bits + mantissa_bits);
  const std::uint64_t infinity = ((std::uint64_t(1) << exponent_bits) - 1) << mantissa_bits;
  const int exponent = int((u >> 52) & 0x7ff);
  std::uint64_t fraction = u & 0xfffffffffffffull;
  if (exponent == 0x7ff) {
    if (fraction == 0) return std::uint16_t(sign | infinity);
    // A quiet NaN with the top bits of the payload.
    const std::uint64_t payload = fraction >> (52 - mantissa_bits);
    return std::uint16_t(sign | infinity | (std::uint64_t(1) << (mantissa_bits - 1)) | payload);
  }
  if (exponent == 0)
    return std::uint16_t(sign);  // a subnormal double is below half of any ulp here
  const int bias = (1 << (exponent_bits - 1)) - 1;
  int target = exponent - 1023 + bias;
  fraction |= std::uint64_t(1) << 52;
  int shift = 52 - mantissa_bits;
  if (target <= 0) {  // subnormal in the narrow format
    shift += 1 - target;
    target = 0;
    if (shift > 54) return std::uint16_t(sign);
  }
  const std::uint64_t kept = fraction >> shift;
  const std::uint64_t rest = fraction & ((std::uint64_t(1) << shift) - 1);
  const std::uint64_t half = std::uint64_t(1) << (shift - 1);
  std::uint64_t bits = kept;
  if (target > 0) {
    bits = (std::uint64_t(target) << mantissa_bits) |
           (kept & ((std::uint64_t(1) << mantissa_bits) - 1));
  }
  if (rest > half || (rest == half && (kept & 1)))
    ++bits;  // may carry into the exponent, as it should
  if (bits >= infinity) bits = infinity;
  return std::uint16_t(sign | bits);
}

}  // namespace

std::uint16_t f16_bits_from_float(float v) { return narrow(double(v), 5, 10); }
std::uint16_t f16_bits_from_double(double v) { return narrow(v, 5, 10); }
std::uint16_t bf16_bits_from_double(double v) { return narrow(v, 8, 7); }

float float_from_f16_bits(std::uint16_t h) {
  const std::uint32_t sign = std::uint32_t(h & 0x8000u) << 16;
  const std::uint32_t exponent = (h >> 10) & 0x1fu;
  std::uint32_t fraction = h & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  }
  if (fraction == 0) return std::bit_cast<float>(sign);
  const float magnitude = float(fraction) * 0x1p-24f;  // exact
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

}  // namespace tessera
