// SPDX-License-Identifier: Apache-2.0
// Types, constants and strings in MLIR's form: exact for each bit pattern.
#include <cstring>
#include <random>

#include "src/base/arrays/literal_util.h"
#include "src/ir/rewrite/builder.h"
#include "src/text/write/text.h"
#include "tests/text/write_cases.h"

namespace tessera::text {
namespace {

std::string dense(const Literal& x) {
  std::string out;
  append_dense(out, x);
  return out;
}

template <class T>
Literal literal(DType t, Dims dims, const std::vector<T>& bits) {
  Literal x(Shape(t, std::move(dims)));
  std::memcpy(x.mutable_bytes(), bits.data(), x.byte_count());
  return x;
}

TEST(WriteConstants, FloatsAreExact) {
  EXPECT_EQ(dense(literal<float>(f32, {}, {2.0f})), "dense<2.000000e+00>");
  EXPECT_EQ(dense(literal<float>(f32, {2}, {0.1f, -0.0f})), "dense<[1.000000e-01, -0.000000e+00]>");
  EXPECT_EQ(dense(literal<float>(f32, {}, {1.0f / 3})), "dense<3.33333343e-01>");
  EXPECT_EQ(dense(literal<double>(f64, {}, {1.0 / 3})), "dense<3.3333333333333331e-01>");
  EXPECT_EQ(dense(literal<std::uint32_t>(f32, {3}, {0x7fc00001, 0xff800000, 0x7f800000})),
            "dense<[0x7FC00001, 0xFF800000, 0x7F800000]>");
  EXPECT_EQ(dense(literal<std::uint64_t>(f64, {}, {0xfff8000000000000})),
            "dense<0xFFF8000000000000>");
  EXPECT_EQ(dense(literal<std::uint16_t>(bf16, {2}, {0x3dcd, 0x7fc1})),
            "dense<[1.000977e-01, 0x7FC1]>");
  EXPECT_EQ(dense(literal<std::uint16_t>(f16, {}, {0x7bff})), "dense<6.550400e+04>");
  EXPECT_EQ(dense(literal<std::uint8_t>(DType::f8e4m3fn, {2}, {0x7f, 0x80})),
            "dense<[0x7F, 0x80]>");
  EXPECT_EQ(dense(literal<std::uint32_t>(c64, {}, {0x80000000, 0x7fc00000})),
            "dense<(-0.000000e+00,0x7FC00000)>");
}

TEST(WriteConstants, IntegersAreDecimal) {
  EXPECT_EQ(dense(literal<std::int64_t>(s64, {2}, {INT64_MIN, INT64_MAX})),
            "dense<[-9223372036854775808, 9223372036854775807]>");
  EXPECT_EQ(dense(literal<std::uint64_t>(u64, {}, {UINT64_MAX})), "dense<18446744073709551615>");
  EXPECT_EQ(dense(literal<std::int8_t>(DType::s4, {3}, {-8, 7, 0})), "dense<[-8, 7, 0]>");
  EXPECT_EQ(dense(literal<std::uint8_t>(pred, {2}, {1, 0})), "dense<[true, false]>");
}

TEST(WriteConstants, FormsByShape) {
  EXPECT_EQ(dense(Literal(Shape(f32, {0, 3}))), "dense<>");
  EXPECT_EQ(dense(literal<std::int32_t>(s32, {2, 2}, {1, 2, 3, 4})), "dense<[[1, 2], [3, 4]]>");
  EXPECT_EQ(dense(literal<std::int32_t>(s32, {2, 2}, {5, 5, 5, 5})), "dense<5>");
  // 0 and -0 are two values.
  EXPECT_EQ(dense(literal<float>(f32, {2}, {0.0f, -0.0f})), "dense<[0.000000e+00, -0.000000e+00]>");
  std::vector<std::int16_t> many(101);
  many[1] = 0x1234;
  const std::string text = dense(literal(s16, {101}, many));
  EXPECT_EQ(text.substr(0, 16), "dense<\"0x0000341");
  EXPECT_EQ(text.size(), std::string("dense<\"0x\">").size() + 4 * 101);
  // MLIR stores bits otherwise than bytes: never as digits.
  std::vector<std::uint8_t> bits(101);
  bits[0] = 1;
  EXPECT_EQ(dense(literal(pred, {101}, bits)).substr(0, 18), "dense<[true, false");
}

template <class T>
void expect_bits_survive(DType t, std::uint64_t mask) {
  std::mt19937_64 random(5);
  // A list, and digits.
  for (std::int64_t n : {90, 130}) {
    std::vector<T> bits;
    for (std::int64_t i = 0; i < n; ++i) bits.push_back(T(random() & mask));
    ir::Module module("t");
    ir::Computation* entry = module.add_computation("main");
    ir::Builder b(entry);
    const Literal value = literal(t, {n}, bits);
    entry->set_root(b.constant(value));
    module.set_entry(entry);
    const auto back = parse_stablehlo(to_stablehlo(module));
    EXPECT_TRUE(back->entry()->root()->get<ir::ConstantAttrs>().value == value)
        << name(t) << "\n"
        << to_stablehlo(module);
  }
}

TEST(WriteConstants, EachBitPatternIsReadBack) {
  expect_bits_survive<std::uint8_t>(pred, 1);
  expect_bits_survive<std::uint8_t>(DType::u4, 15);
  expect_bits_survive<std::uint8_t>(u8, 0xff);
  expect_bits_survive<std::uint16_t>(s16, 0xffff);
  expect_bits_survive<std::uint32_t>(u32, 0xffffffff);
  expect_bits_survive<std::uint64_t>(s64, ~0ull);
  expect_bits_survive<std::uint64_t>(u64, ~0ull);
  expect_bits_survive<std::uint16_t>(f16, 0xffff);
  expect_bits_survive<std::uint16_t>(bf16, 0xffff);
  expect_bits_survive<std::uint32_t>(f32, 0xffffffff);
  expect_bits_survive<std::uint64_t>(f64, ~0ull);
  for (DType t : {DType::f8e3m4, DType::f8e4m3, DType::f8e4m3b11fnuz, DType::f8e4m3fn,
                  DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz, DType::f8e8m0fnu}) {
    expect_bits_survive<std::uint8_t>(t, 0xff);
  }
  expect_bits_survive<std::uint8_t>(DType::f4e2m1fn, 15);
  expect_bits_survive<std::uint8_t>(DType::f6e2m3fn, 63);
  expect_bits_survive<std::uint8_t>(DType::f6e3m2fn, 63);
  // Special values in a list: subnormal, infinite, not a number with a payload.
  ir::Module module("t");
  ir::Computation* entry = module.add_computation("main");
  ir::Builder b(entry);
  const Literal value = literal<std::uint32_t>(
      c64, {3}, {1, 0x80000001, 0x7f800000, 0xff800000, 0x7f800001, 0xffc12345});
  entry->set_root(b.constant(value));
  module.set_entry(entry);
  EXPECT_TRUE(
      parse_stablehlo(to_stablehlo(module))->entry()->root()->get<ir::ConstantAttrs>().value ==
      value);
}

TEST(WriteConstants, StringsAndSymbols) {
  std::string out;
  append_string(out, "a \"b\" \\ \n\x7f");
  EXPECT_EQ(out, R"("a \22b\22 \\ \0A\7F")");
  out.clear();
  append_symbol(out, "a.b_1$");
  append_symbol(out, "1a");
  append_symbol(out, "a-b");
  EXPECT_EQ(out, "@a.b_1$@\"1a\"@\"a-b\"");
  EXPECT_EQ(unquoted(R"("a\"b\\\n\011\x")"), "a\"b\\\n\tx");
  EXPECT_EQ(unquoted("{a}"), "{a}");
}

}  // namespace
}  // namespace tessera::text
