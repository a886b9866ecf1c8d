// SPDX-License-Identifier: Apache-2.0
// Literals: each bit pattern survives text, in the shortest form.
#include <bit>
#include <cmath>
#include <limits>

#include "src/base/arrays/literal_util.h"
#include "src/base/arrays/small_floats.h"
#include "src/ir/hlo/literal_parser.h"
#include "src/ir/hlo/literal_text.h"
#include "tests/ir/text_cases.h"
#include "tests/support/random_program.h"

namespace tessera::ir::testing {
namespace {

using tessera::testing::Dice;

std::string print(const Literal& literal) {
  std::string out;
  append_literal(out, literal);
  return out;
}

Literal read(const std::string& text, const Shape& shape) {
  HloLexer in(text, "literal");
  bool elided = false;
  Literal out = parse_literal(in, shape, &elided);
  EXPECT_FALSE(elided);
  EXPECT_TRUE(in.at_end()) << text;
  return out;
}

template <class T>
std::string print_scalar(T v) {
  return print(Literal::scalar(dtype_of<T>(), v));
}

TEST(LiteralText, Floats) {
  EXPECT_EQ(print_scalar(0.5f), "0.5");
  EXPECT_EQ(print_scalar(1e30f), "1e+30");
  EXPECT_EQ(print_scalar(0.1f), "0.1");
  EXPECT_EQ(print_scalar(0.1), "0.1");
  EXPECT_EQ(print_scalar(1.0f / 3), "0.33333334");
  EXPECT_EQ(print_scalar(-0.0f), "-0");
  EXPECT_EQ(print_scalar(3.0f), "3");
  EXPECT_EQ(print_scalar(std::numeric_limits<float>::infinity()), "inf");
  EXPECT_EQ(print_scalar(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(print_scalar(BFloat16(0.1f)), "0.1");
  EXPECT_EQ(print_scalar(Half(1.0f / 3)), "0.3333");
}

TEST(LiteralText, NaNs) {
  EXPECT_EQ(print_scalar(std::bit_cast<float>(0x7fc00000u)), "nan");
  EXPECT_EQ(print_scalar(std::bit_cast<float>(0xffc00000u)), "-nan");
  EXPECT_EQ(print_scalar(std::bit_cast<float>(0x7fffc123u)), "nan(0x7fc123)");
  EXPECT_EQ(print_scalar(std::bit_cast<float>(0xff800001u)), "-nan(0x1)");
  Literal l = read("{nan, -nan, nan(0x7fc123), nan(0x1)}", Shape(DType::f32, {4}));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(l.data<float>()[0]), 0x7fc00000u);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(l.data<float>()[1]), 0xffc00000u);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(l.data<float>()[2]), 0x7fffc123u);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(l.data<float>()[3]), 0x7f800001u);
}

TEST(LiteralText, Nesting) {
  EXPECT_EQ(print(make_literal<int>(DType::s32, {3}, {1, 2, 3})), "{1, 2, 3}");
  EXPECT_EQ(print(make_literal<int>(DType::s32, {2, 2}, {1, 2, 3, 4})), "{ { 1, 2 }, { 3, 4 } }");
  EXPECT_EQ(print(make_literal<int>(DType::s32, {0}, {})), "{}");
  EXPECT_EQ(print(make_literal<int>(DType::s32, {2, 0}, {})), "{ {}, {} }");
  EXPECT_EQ(print(make_literal<int>(DType::s32, {0, 2}, {})), "{}");
  EXPECT_EQ(print(make_literal<int>(DType::s32, {std::int64_t(1) << 40, 0}, {})), "{}");
  EXPECT_EQ(print(make_literal<int>(DType::pred, {2}, {1, 0})), "{1, 0}");
  EXPECT_EQ(print(Literal::scalar(DType::pred, true)), "true");
  Literal pair = Literal::tuple({Literal::scalar(DType::f32, 1),
                                 Literal::tuple({make_literal<int>(DType::s8, {2}, {-1, 2})})});
  EXPECT_EQ(print(pair), "(1, ({-1, 2}))");
  EXPECT_EQ(read("(1, ({-1,2}))", pair.shape()), pair);
}

TEST(LiteralText, Complex) {
  Literal l = make_literal<std::complex<float>>(DType::c64, {2}, {{1, -2}, {0.5f, INFINITY}});
  EXPECT_EQ(print(l), "{(1, -2), (0.5, inf)}");
  EXPECT_EQ(read("{(1,-2),(0.5, inf)}", l.shape()), l);
}

TEST(LiteralText, ExtremesOfIntegers) {
  EXPECT_EQ(print_scalar(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(print_scalar(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(print(Literal::scalar(DType::s4, -8)), "-8");
  for (DType t :
       {DType::s1, DType::s2, DType::s4, DType::s8, DType::u1, DType::u2, DType::u4, DType::u8}) {
    for (int v = -128; v < 256; ++v) {
      Literal one = Literal::scalar(t, v);
      EXPECT_EQ(read(print(one), one.shape()), one);
    }
  }
}

TEST(LiteralText, SmallNumbersRound) {
  EXPECT_EQ(read("1e-60", Shape(DType::f32, {})).data<float>()[0], 0.0f);
  EXPECT_TRUE(std::signbit(read("-1e-400", Shape(DType::f64, {})).data<double>()[0]));
  EXPECT_EQ(read("1e-45", Shape(DType::f32, {})).data<float>()[0],
            std::numeric_limits<float>::denorm_min());
  // Rounded once, from the decimal: 2^-24 + a bit is above half of the smallest half.
  EXPECT_EQ(read("2.9802323e-08", Shape(DType::f16, {})).data<Half>()[0].bits, 1);
}

// All bit patterns of the 16 bit types, and many of the others.
TEST(LiteralText, EachBitPatternComesBack) {
  for (DType t : {DType::f16, DType::bf16}) {
    Literal all(Shape(t, {1 << 16}));
    auto* bits = reinterpret_cast<std::uint16_t*>(all.mutable_bytes());
    for (int i = 0; i < 1 << 16; ++i) bits[i] = std::uint16_t(i);
    // Both infinities' neighbours are NaNs; every payload must stand.
    Literal back = read(print(all), all.shape());
    EXPECT_EQ(back, all) << name(t);
  }
  std::uint64_t seed = 20240607;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Dice dice(seed);
  for (DType t : {DType::f32, DType::f64, DType::c64, DType::c128, DType::s16, DType::s32,
                  DType::s64, DType::u16, DType::u32, DType::u64}) {
    Literal many(Shape(t, {20, 50}));
    std::byte* p = many.mutable_bytes();
    for (std::size_t i = 0; i < many.byte_count(); ++i) p[i] = std::byte(dice.next() >> 56);
    EXPECT_EQ(read(print(many), many.shape()), many) << name(t);
  }
}

TEST(LiteralText, ShortestFormOfHalfs) {
  // No shorter text of the same value exists: dropping a digit changes the number.
  for (int bits : {0x2e66, 0x3555, 0x7bff, 0x0001, 0x0400, 0x3c01}) {
    Literal one(Shape(DType::f16, {}));
    one.mutable_data<Half>()[0] = Half::from_bits(std::uint16_t(bits));
    std::string text = print(one);
    EXPECT_EQ(read(text, one.shape()), one);
    std::size_t digits = 0;
    for (char c : text.substr(0, text.find('e'))) digits += c >= '0' && c <= '9';
    EXPECT_LE(digits, 6u) << text;
  }
}

TEST(SmallFloats, LiteralsReadAndPrint) {
  for (auto [type, text] : {std::pair{"f8e4m3fn", "{1, -0, 448, nan, -nan, 0.001953125, -1.125}"},
                            {"f8e5m2", "{inf, -inf, 57344, nan, nan(0x1), 1.5258789e-05, -0}"},
                            {"f8e4m3fnuz", "{0, nan, 240, -0.4375, 0.5, 1, 2}"},
                            {"f8e3m4", "{15.5, -inf, 0.015625, nan, 1.0625, 3, 4}"},
                            {"f8e8m0fnu", "{1, 2, 0.5, nan, 1.1754944e-38, 1.7014118e+38, 4}"},
                            {"f4e2m1fn", "{0.5, -6, 1.5, -0, 2, 3, 4}"},
                            {"f6e2m3fn", "{0.125, -7.5, 1.875, -0, 2.25, 3.75, 4.5}"},
                            {"f6e3m2fn", "{0.0625, -28, 1.75, -0, 0.4375, 20, 24}"}}) {
    const std::string line = std::string(type) + "[7]{0} constant(" + text + ")";
    const auto module = parse_body("ROOT c = " + line);
    EXPECT_EQ(last_line(*module), "c = " + line);
  }
  expect_error<ParseError>(with_body("ROOT c = f8e4m3fn[] constant(inf)"), "does not fit f8e4m3fn");
  expect_error<ParseError>(with_body("ROOT c = f8e5m2[] constant(1e9)"), "does not fit f8e5m2");
  expect_error<ParseError>(with_body("ROOT c = f4e2m1fn[] constant(100)"), "does not fit");
  expect_error<ParseError>(with_body("ROOT c = f4e2m1fn[] constant(nan)"), "no NaN");
  for (const auto& [type, fits, beyond] : {std::tuple{DType::f4e2m1fn, "6.99", "7.01"},
                                           {DType::f6e2m3fn, "7.74", "-7.76"},
                                           {DType::f6e3m2fn, "29.9", "30.1"}}) {
    const std::string name(tessera::name(type));
    EXPECT_EQ(read(fits, Shape(type, {})).bytes()[0],
              std::byte((1 << (small_float_width(type) - 1)) - 1));
    for (const std::string text : {beyond, "inf", "-inf", "1e300"}) {
      expect_error<ParseError>(with_body("ROOT c = " + name + "[] constant(" + text + ")"),
                               "does not fit");
    }
    expect_error<ParseError>(with_body("ROOT c = " + name + "[] constant(-nan)"), "no NaN");
  }
}

// The greatest power of two is 2^127; numbers that round beyond it have no bits of their own.
TEST(SmallFloats, PowersOfTwoHaveNoInfinity) {
  const Literal greatest = read("2.5e+38", Shape(DType::f8e8m0fnu, {}));
  EXPECT_EQ(greatest.bytes()[0], std::byte{0xfe});
  for (const char* beyond : {"2.6e+38", "4e+38", "inf", "-inf"}) {
    expect_error<ParseError>(
        with_body(std::string("ROOT c = f8e8m0fnu[] constant(") + beyond + ")"),
        "does not fit f8e8m0fnu");
  }
}

}  // namespace
}  // namespace tessera::ir::testing
