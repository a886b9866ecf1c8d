// SPDX-License-Identifier: Apache-2.0
// Storage types for the floats that C++20 lacks. Arithmetic happens in float; conversions round to
// nearest, ties to even.
#pragma once

#include <bit>
#include <cstdint>

namespace tessera {

std::uint16_t f16_bits_from_float(float v);
float float_from_f16_bits(std::uint16_t bits);
/// Converts directly from double: rounds once, not twice as via float.
std::uint16_t f16_bits_from_double(double v);

struct Half {
  std::uint16_t bits = 0;
  Half() = default;
  explicit Half(float v) : bits(f16_bits_from_float(v)) {}
  explicit Half(double v) : bits(f16_bits_from_double(v)) {}
  explicit operator float() const { return float_from_f16_bits(bits); }
  explicit operator double() const { return float_from_f16_bits(bits); }
  static Half from_bits(std::uint16_t b) {
    Half h;
    h.bits = b;
    return h;
  }
};

inline std::uint16_t bf16_bits_from_float(float v) {
  std::uint32_t u = std::bit_cast<std::uint32_t>(v);
  if ((u & 0x7fffffffu) > 0x7f800000u) return std::uint16_t((u >> 16) | 0x40u);  // quiet NaN
  u += 0x7fffu + ((u >> 16) & 1u);
  return std::uint16_t(u >> 16);
}
std::uint16_t bf16_bits_from_double(double v);

struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float v) : bits(bf16_bits_from_float(v)) {}
  explicit BFloat16(double v) : bits(bf16_bits_from_double(v)) {}
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t(bits) << 16); }
  explicit operator double() const { return float(*this); }
  static BFloat16 from_bits(std::uint16_t b) {
    BFloat16 h;
    h.bits = b;
    return h;
  }
};

}  // namespace tessera
