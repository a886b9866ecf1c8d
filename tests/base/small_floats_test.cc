// SPDX-License-Identifier: Apache-2.0
// Floats of a byte or less against tables of their numbers, written down from their definition.
#include "src/base/arrays/small_floats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tessera {
namespace {

/// A format without infinity and NaN: the numbers of the codes from 0 on, of which the negative
/// ones follow with the sign bit set.
struct Table {
  DType type;
  int width;
  std::vector<double> numbers;
};

// clang-format off: one exponent, one line.
const std::vector<Table> kTables = {
    {DType::f4e2m1fn, 4, {0, 0.5, 1, 1.5, 2, 3, 4, 6}},
    {DType::f6e2m3fn, 6, {0,     0.125, 0.25,  0.375, 0.5,   0.625, 0.75, 0.875, 1,    1.125, 1.25,
                          1.375, 1.5,   1.625, 1.75,  1.875, 2,     2.25, 2.5,   2.75, 3,     3.25,
                          3.5,   3.75,  4,     4.5,   5,     5.5,   6,    6.5,   7,    7.5}},
    {DType::f6e3m2fn, 6, {0,   0.0625, 0.125, 0.1875, 0.25, 0.3125, 0.375, 0.4375,
                          0.5, 0.625,  0.75,  0.875,  1,    1.25,   1.5,   1.75,
                          2,   2.5,    3,     3.5,    4,    5,      6,     7,
                          8,   10,     12,    14,     16,   20,     24,    28}},
};
// clang-format on

int sign_of(const Table& t) { return 1 << (t.width - 1); }

/// The nearest number's code, of two the even one; beyond the greatest, that one.
int nearest(const Table& t, double v) {
  // Far beyond them doubles don't tell distances apart.
  const double size = std::fmin(std::fabs(v), t.numbers.back());
  int best = 0;
  for (int code = 1; code < int(t.numbers.size()); ++code) {
    const double d = std::fabs(size - t.numbers[std::size_t(code)]),
                 least = std::fabs(size - t.numbers[std::size_t(best)]);
    if (d < least || (d == least && code % 2 == 0)) best = code;
  }
  return best + (std::signbit(v) ? sign_of(t) : 0);
}

TEST(SmallFloats, CodesMeanTheNumbersOfTheTable) {
  for (const Table& t : kTables) {
    SCOPED_TRACE(name(t.type));
    ASSERT_EQ(int(t.numbers.size()), sign_of(t));
    EXPECT_EQ(small_float_width(t.type), t.width);
    EXPECT_TRUE(is_small_float(t.type));
    EXPECT_EQ(byte_size(t.type), 1u);
    for (int code = 0; code < 1 << t.width; ++code) {
      const bool negative = code >= sign_of(t);
      const double want = t.numbers[std::size_t(code % sign_of(t))] * (negative ? -1 : 1);
      const double is = small_float_value(t.type, std::uint8_t(code));
      EXPECT_EQ(is, want) << code;
      EXPECT_EQ(std::signbit(is), negative) << code;
      EXPECT_EQ(int(small_float_bits(t.type, want)), code);
    }
  }
  EXPECT_EQ(small_float_width(DType::f8e5m2), 8);
  EXPECT_EQ(small_float_width(DType::f8e8m0fnu), 8);
}

TEST(SmallFloats, NumbersAreRoundedToTheNearestOfTheTable) {
  for (const Table& t : kTables) {
    SCOPED_TRACE(name(t.type));
    const auto check = [&](float v) {
      for (const float x : {v, -v}) {
        ASSERT_EQ(int(small_float_bits(t.type, double(x))), nearest(t, double(x))) << x;
      }
    };
    // All halfway points are among these, and then their neighbours.
    for (int n = 0; n <= 40 * 64; ++n) {
      const float v = float(n) / 64;
      check(v);
      check(std::nextafter(v, 100.0f));
      check(std::nextafter(v, -100.0f));
    }
    for (std::uint32_t n = 0; n < 20000; ++n) {
      check(std::ldexp(1 + float(n * 2654435761u >> 9) / float(1 << 23), int(n % 16) - 8));
    }
    for (const float v : {1e-45f, 1e-30f, 100.0f, 3e38f}) check(v);
    const int greatest = sign_of(t) - 1;
    const double infinity = std::numeric_limits<double>::infinity();
    EXPECT_EQ(int(small_float_bits(t.type, infinity)), greatest);
    EXPECT_EQ(int(small_float_bits(t.type, -infinity)), greatest | sign_of(t));
    EXPECT_EQ(int(small_float_bits(t.type, 1e300)), greatest);
    // There is no NaN: as in ml_dtypes it becomes -0.
    EXPECT_EQ(int(small_float_bits(t.type, std::nan(""))), sign_of(t));
  }
}

}  // namespace
}  // namespace tessera
