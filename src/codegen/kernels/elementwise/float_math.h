// SPDX-License-Identifier: Apache-2.0
// Transcendental functions of floats without branches or tables, so that loops over them vectorise.
// Results are within 2 units in the last place.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace tessera::codegen {

inline float exp_float(float x) {
  // e^x = 2^n e^r with |r| <= ln(2) / 2; beyond these bounds the result is infinite or zero.
  float c = x > 89.0f ? 89.0f : x;
  c = c < -104.0f ? -104.0f : c;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves a whole number
  const float n = (c * 1.44269504f + kRound) - kRound;
  // ln(2) in two parts, the first with so few bits that n times it is exact.
  float r = c - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  float q = 1.98909809e-4f;
  q = q * r + 1.39336410e-3f;
  q = q * r + 8.33331093e-3f;
  q = q * r + 4.16664650e-2f;
  q = q * r + 1.66666667e-1f;
  q = q * r + 5.00000001e-1f;
  const float p = (r * r * q + r) + 1.0f;
  // In two steps, as 2^n alone may leave the range that p 2^n stays in.
  const auto whole = std::int32_t(n);
  const std::int32_t half = whole >> 1;
  const auto low = std::bit_cast<float>((half + 127) << 23);
  // An exact zero, as masked scores are: processors take long over products that underflow.
  const float high = x <= -104.0f ? 0.0f : std::bit_cast<float>((whole - half + 127) << 23);
  const float result = p * low * high;
  return x != x ? x : result;
}

inline float tanh_float(float x) {
  const float a = std::fabs(x);
  const float z = x * x;
  float q = 2.29430486e-3f;
  q = q * z - 8.34532114e-3f;
  q = q * z + 2.17693384e-2f;
  q = q * z - 5.39593111e-2f;
  q = q * z + 1.33333038e-1f;
  q = q * z - 3.33333332e-1f;
  const float near = std::copysign(x + x * (z * q), x);  // keeps -0
  const float far = std::copysign(1.0f - 2.0f / (exp_float(2.0f * a) + 1.0f), x);
  return a < 0.625f ? near : far;
}

}  // namespace tessera::codegen
