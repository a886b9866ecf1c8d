// SPDX-License-Identifier: Apache-2.0
// Element types, their conversions, shapes and literals.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "src/base/arrays/literal_util.h"

namespace tessera {
namespace {

TEST(DType, NamesSizesAndFamilies) {
  for (int i = 0; i <= int(DType::token); ++i) {
    const DType t = DType(i);
    EXPECT_EQ(dtype_from_name(name(t)), t);
    if (t == DType::token || t == DType::pred) continue;
    EXPECT_EQ(is_integer(t) + is_floating(t) + is_complex(t), 1) << name(t);
  }
  EXPECT_EQ(dtype_from_name("float"), std::nullopt);
  EXPECT_EQ(byte_size(DType::s4), 1u);
  EXPECT_EQ(byte_size(DType::c128), 16u);
  EXPECT_EQ(byte_size(DType::token), 0u);
  EXPECT_EQ(real_type(DType::c64), DType::f32);
  EXPECT_EQ(real_type(DType::bf16), DType::bf16);
  EXPECT_FALSE(is_integer(DType::pred));
}

TEST(FloatTypes, EveryHalfSurvivesConversionToFloatAndBack) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float f = float_from_f16_bits(std::uint16_t(bits));
    if (std::isnan(f)) {
      EXPECT_EQ(bits & 0x7c00u, 0x7c00u);
      EXPECT_TRUE(std::isnan(float(Half(f))));
      continue;
    }
    ASSERT_EQ(f16_bits_from_float(f), bits) << f;
    ASSERT_EQ(f16_bits_from_double(f), bits) << f;
    const float b = float(BFloat16::from_bits(std::uint16_t(bits)));
    if (std::isnan(b)) continue;
    ASSERT_EQ(bf16_bits_from_float(b), bits);
    ASSERT_EQ(bf16_bits_from_double(b), bits);
  }
}

/// The nearest of two neighbours, ties to the even one, in exact arithmetic of doubles.
template <class F>
void expect_nearest(double v, std::uint16_t got, F&& value_of) {
  const double x = value_of(got);
  for (int step : {-1, 1}) {
    const std::uint16_t other = std::uint16_t(got + step);
    if ((other ^ got) & 0x8000u) continue;
    const double y = value_of(other);
    if (!std::isfinite(y) || !std::isfinite(x)) continue;
    const double dx = std::fabs(v - x), dy = std::fabs(v - y);
    ASSERT_LE(dx, dy) << v;
    if (dx == dy) {
      ASSERT_EQ(got & 1, 0) << v;
    }
  }
}

TEST(FloatTypes, DoublesRoundOnceToTheNearest) {
  std::mt19937_64 engine(3);
  auto half = [](std::uint16_t b) { return double(float_from_f16_bits(b)); };
  auto bf = [](std::uint16_t b) { return double(float(BFloat16::from_bits(b))); };
  for (int i = 0; i < 200000; ++i) {
    const double mantissa = 1.0 + double(engine() >> 12) * 0x1p-52;
    const double v = std::ldexp(i % 2 ? mantissa : -mantissa, int(engine() % 44) - 27);
    expect_nearest(v, f16_bits_from_double(v), half);
    expect_nearest(v, bf16_bits_from_double(v), bf);
    ASSERT_EQ(f16_bits_from_float(float(v)), f16_bits_from_double(double(float(v))));
    ASSERT_EQ(bf16_bits_from_float(float(v)), bf16_bits_from_double(double(float(v))));
  }
  // A tie that rounding through float would lose.
  EXPECT_EQ(f16_bits_from_double(1.0 + 0x1p-11 + 0x1p-40), 0x3c01);
  EXPECT_EQ(f16_bits_from_double(1.0 + 0x1p-11), 0x3c00);
  EXPECT_EQ(f16_bits_from_double(65519.999), 0x7bff);
  EXPECT_EQ(f16_bits_from_double(65520.0), 0x7c00);
  EXPECT_EQ(f16_bits_from_double(-1e300), 0xfc00);
  EXPECT_EQ(f16_bits_from_double(0x1p-25), 0x0000);
  EXPECT_EQ(f16_bits_from_double(0x1.8p-25), 0x0001);
  EXPECT_EQ(bf16_bits_from_double(1e300), 0x7f80);
  EXPECT_EQ(bf16_bits_from_double(std::numeric_limits<double>::quiet_NaN()) & 0x7fc0, 0x7fc0);
}

TEST(Shape, TextAndCounts) {
  const Shape s(DType::f32, {8, 16});
  EXPECT_EQ(s.to_string(), "f32[8,16]");
  EXPECT_EQ(s.to_string_with_layout(), "f32[8,16]{1,0}");
  EXPECT_EQ(s.element_count(), 128);
  EXPECT_EQ(s.byte_count(), 512);
  const Shape t = Shape::tuple({Shape(DType::s32, {}), Shape::tuple({s}), Shape::token()});
  EXPECT_EQ(t.to_string(), "(s32[], (f32[8,16]), token[])");
  EXPECT_EQ(t.to_string_with_layout(), "(s32[], (f32[8,16]{1,0}), token[])");
  EXPECT_EQ(t.byte_count(), 516);
  EXPECT_EQ(flatten(t).size(), 3u);
  EXPECT_TRUE(flatten(t)[1] == s);
  Shape column = s;
  column.layout = {0, 1};
  EXPECT_EQ(column.to_string_with_layout(), "f32[8,16]{0,1}");
  EXPECT_TRUE(column == s);
  EXPECT_FALSE(s == Shape(DType::f32, {8, 17}));
  EXPECT_TRUE(Shape(DType::f32, {}).is_scalar());
  EXPECT_FALSE(t.is_array());
}

TEST(Shape, OverflowAndNegativeDimsAreRefused) {
  const std::int64_t big = std::int64_t(1) << 40;
  EXPECT_THROW(element_count(Dims{big, big}), ValueError);
  EXPECT_EQ(element_count(Dims{big, 0, big}), 0);
  EXPECT_THROW(element_count(Dims{2, -1}), ValueError);
  EXPECT_THROW(Shape(DType::f64, {big, big / 2}).byte_count(), ValueError);
  EXPECT_THROW(Shape(DType::f64, {std::int64_t(1) << 62}).byte_count(), ValueError);
  EXPECT_EQ(row_major_strides(Dims{2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(ceil_div(7, 2), 4);
}

TEST(Literal, ZerosAlignedAndShared) {
  const Literal a(Shape(DType::s16, {3, 5}));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.bytes()) % 64, 0u);
  for (std::int16_t v : a.data<std::int16_t>()) EXPECT_EQ(v, 0);
  Literal b = a;
  EXPECT_EQ(b.bytes(), a.bytes());
  b.mutable_data<std::int16_t>()[2] = 7;
  EXPECT_NE(b.bytes(), a.bytes());
  EXPECT_EQ(a.data<std::int16_t>()[2], 0);
  EXPECT_FALSE(a == b);
  EXPECT_TRUE(b.reshaped({15}) == b.reshaped({15}));
  EXPECT_EQ(b.reshaped({15}).bytes(), b.bytes());
  EXPECT_THROW(b.reshaped({14}), ShapeError);
  EXPECT_THROW(a.data<double>(), InternalError);
  EXPECT_NE(Literal(Shape(DType::f32, {0})).bytes(), nullptr);
}

TEST(Literal, BytesAndTuples) {
  const float values[] = {1, 2};
  const Literal a(Shape(DType::f32, {2}), std::as_bytes(std::span(values)));
  EXPECT_EQ(to_vector<float>(a), (std::vector<float>{1, 2}));
  EXPECT_THROW(Literal(Shape(DType::f32, {3}), std::as_bytes(std::span(values))), ValueError);
  const Literal t = Literal::tuple({a, Literal::scalar(DType::pred, true)});
  EXPECT_EQ(t.shape().to_string(), "(f32[2], pred[])");
  EXPECT_TRUE(t == Literal::tuple({a, Literal::scalar(DType::pred, true)}));
  EXPECT_FALSE(t == Literal::tuple({a, Literal::scalar(DType::pred, false)}));
  EXPECT_EQ(Literal(t.shape()).elements().size(), 2u);
}

TEST(Literal, Conversions) {
  EXPECT_EQ(to_vector<int>(make_literal<double>(DType::s4, {3}, {9, -8, 7.9})),
            (std::vector<int>{-7, -8, 7}));
  EXPECT_EQ(to_vector<int>(make_literal<int>(DType::u2, {2}, {5, -1})), (std::vector<int>{1, 3}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(to_vector<int>(make_literal<double>(DType::s32, {4}, {3e10, -3e10, nan, -2.9})),
            (std::vector<int>{2147483647, -2147483647 - 1, 0, -2}));
  EXPECT_EQ(to_vector<std::uint64_t>(make_literal<float>(DType::u64, {2}, {-1, 0x1p64f})),
            (std::vector<std::uint64_t>{0, ~0ull}));
  EXPECT_EQ(to_vector<bool>(make_literal<double>(DType::pred, {3}, {0, 0.5, nan})),
            (std::vector<bool>{false, true, true}));
  EXPECT_EQ(to_vector<double>(make_literal<double>(DType::bf16, {1}, {1.01})),
            (std::vector<double>{1.0078125}));
  const auto c =
      to_vector<std::complex<double>>(Literal::scalar(DType::c64, std::complex<double>(1.5, -2)));
  EXPECT_EQ(c[0], (std::complex<double>(1.5, -2)));
  EXPECT_EQ(to_scalar<float>(Literal::scalar(DType::f16, 2)), 2.0f);
  EXPECT_EQ(make_literal<bool>({true, false}).shape().to_string(), "pred[2]");
  EXPECT_EQ(make_literal<Half>({Half(1.0f)}).dtype(), DType::f16);
  EXPECT_THROW(make_literal<int>(DType::s32, {3}, {1, 2}), ValueError);
}

}  // namespace
}  // namespace tessera
