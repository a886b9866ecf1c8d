// SPDX-License-Identifier: Apache-2.0
// Special and numeric functions: transformations, edges where JAX has none, errors.
#include <gtest/gtest.h>

#include <tessera/tessera.h>

#include <cmath>
#include <limits>

#include "tests/frontend/frontend_testing.h"

namespace tessera::special_tests {
namespace {

using testing::expect_close;
using testing::expect_error;
using testing::floats;
using testing::kNear;

const std::vector<float> kPoints{0.3f, 0.7f, 1.6f, 2.4f, 3.9f, 5.5f, 7.1f, 9.2f};

std::vector<std::pair<const char*, std::function<Array(Array)>>> functions() {
  return {{"gammaln", [](Array x) { return gammaln(x); }},
          {"digamma", [](Array x) { return digamma(x); }},
          {"gammainc", [](Array x) { return gammainc(x, 2.5f); }},
          {"gammaincc", [](Array x) { return gammaincc(2.5f, x); }},
          {"betaln", [](Array x) { return betaln(x, 1.5f); }},
          {"betainc", [](Array x) { return betainc(2.0f, 1.5f, x / 10); }},
          {"i0e", [](Array x) { return i0e(x); }},
          {"erfcx", [](Array x) { return erfcx(x); }},
          {"log_ndtr", [](Array x) { return log_ndtr(x); }},
          {"expn", [](Array x) { return expn(2, x); }},
          {"exprel", [](Array x) { return exprel(x); }},
          {"sinc", [](Array x) { return sinc(x); }}};
}

TEST(Special, DerivativesAreThoseOfDifferences) {
  const Array x = array({0.35, 1.3, 2.6, 4.5});
  for (const auto& [name, f] : functions()) {
    SCOPED_TRACE(name);
    // The derivative of gammainc by its first operand has none of its own.
    const int order = std::string(name) == "gammainc" ? 1 : 2;
    EXPECT_NO_THROW(check_grads(f, std::tuple(x), {.order = order, .atol = 2e-4, .rtol = 2e-4}));
  }
  EXPECT_NO_THROW(check_grads([](Array v) { return exprel(v); },
                              std::tuple(array({-0.2, 0.0, 0.1, 1.0})), {.order = 2}));
}

TEST(Special, BatchesAndShardsLikeElementwiseOps) {
  const Array x = array(kPoints);
  const Mesh mesh = make_mesh({{"x", 8}});
  const Array split = device_put(x, NamedSharding(mesh, P("x")));
  for (const auto& [name, f] : functions()) {
    SCOPED_TRACE(name);
    const Array want = f(x);
    expect_close(vmap(f)(x), want, 1e-6f);
    const Array slopes = vmap(grad(f))(x);
    expect_close(grad([&f = f](Array v) { return sum(f(v)); })(x), slopes, 1e-6f);
    const Array parts = jit(f)(split);
    expect_close(parts, want, 1e-6f);
    EXPECT_EQ(parts.sharding(), split.sharding());
  }
}

TEST(Special, DerivativesOfSincAtZero) {
  const auto f = [](Array x) { return sinc(x); };
  const float pi2 = 9.8696044f;
  EXPECT_EQ(grad(f)(Array(0.0f)).item<float>(), 0);
  EXPECT_NEAR(grad(grad(f))(Array(0.0f)).item<float>(), -pi2 / 3, 1e-5);
  EXPECT_NEAR(grad(grad(grad(grad(f))))(Array(0.0f)).item<float>(), pi2 * pi2 / 5, 1e-4);
}

TEST(Special, EdgesThatJaxLacks) {
  // scipy's values.
  EXPECT_EQ(expi(0.0f).item<float>(), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(expn(2, 0.0f).item<float>(), 1);
  EXPECT_EQ(exprel(0.0f).item<float>(), 1);
  EXPECT_NEAR(bessel_jn(0.5f, 0).to_vector<float>()[0], 0.9384698f, 1e-6);
  EXPECT_FALSE(array_equiv(ones({6}), ones({2})).item<bool>());
  EXPECT_NEAR(exprel(1e-4f).item<float>(), 1.00005, 1e-7);
  EXPECT_NEAR(lgamma(Array(0.5f)).item<float>(), 0.5723649f, 1e-6);
}

TEST(Special, WeakTypesStay) {
  EXPECT_TRUE(gammaln(2.5f).weak_type());
  EXPECT_EQ((gammaln(2.5f) * array({1.0f}, f16)).dtype(), f16);
  EXPECT_FALSE(gammaln(array({1.0f})).weak_type());
  EXPECT_EQ(betaln(array({1.0f}, bf16), 2).dtype(), bf16);
}

TEST(Special, Errors) {
  const Array z = array(std::vector<std::complex<float>>{{1, 2}, {0, 1}});
  expect_error<DTypeError>([&] { gammaln(z); }, {"gammaln", "c64[2]", kNear});
  expect_error<DTypeError>([&] { polygamma(1.5f, 2.0f); }, {"polygamma", "integers", kNear});
  expect_error<ShapeError>([&] { zeta(ones({2}), ones({3})); }, {"zeta", "[2]", "[3]", kNear});
  expect_error<ValueError>([&] { multigammaln(2.0f, 0); }, {"multigammaln", "dimension 0", kNear});
  expect_error<ValueError>([&] { bessel_jn(2.0f, 60); }, {"bessel_jn", "60", "0 to 50", kNear});
  expect_error<NotImplementedError>(
      [&] { grad([](Array a) { return betainc(a, 2.0f, 0.5f); })(Array(1.5f)); },
      {"betainc has no derivative by operand 0", "stop_gradient", kNear});
  // As a constant it may be there.
  EXPECT_NEAR(grad([](Array x) { return betainc(1.0f, 1.0f, x); })(Array(0.5f)).item<float>(), 1,
              1e-6);
}

TEST(Numeric, Errors) {
  const Array z = array(std::vector<std::complex<float>>{{1, 2}, {0, 1}});
  const Array x = ones({3}), p = x > 0;
  expect_error<DTypeError>([&] { gcd(x, 2); }, {"gcd", "f32[3]", "integers", kNear});
  expect_error<DTypeError>([&] { ldexp(x, x); }, {"ldexp", "f32[3]", "integers", kNear});
  expect_error<DTypeError>([&] { fmax(z, 1); }, {"fmax", "complex", kNear});
  expect_error<DTypeError>([&] { frexp(z); }, {"frexp", "c64[2]", kNear});
  expect_error<DTypeError>([&] { bitwise_count(x); }, {"bitwise_count", "f32[3]", kNear});
  expect_error<ValueError>([&] { select({p}, {x, x}, x); }, {"1 conditions and 2 choices", kNear});
  expect_error<DTypeError>([&] { select({x}, {x}, x); }, {"select", "f32[3]", "pred", kNear});
  expect_error<ValueError>(
      [&] {
        piecewise(x, {p}, {1, 2, 3});
      },
      {"1 conditions and 3 pieces", "valid are 1", "2", kNear});
  expect_error<ValueError>([&] { unwrap(x, {}, 1); }, {"unwrap", "axis 1", kNear});
  expect_error<DTypeError>([&] { finfo(s32); }, {"finfo of s32", kNear});
  expect_error<DTypeError>([&] { iinfo(f32); }, {"iinfo of f32", kNear});
}

TEST(Numeric, LimitsOfDtypes) {
  EXPECT_EQ(finfo(f32).eps, std::numeric_limits<float>::epsilon());
  EXPECT_EQ(finfo(f32).max, double(std::numeric_limits<float>::max()));
  EXPECT_EQ(finfo(c128).smallest_subnormal, std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(finfo(f16).max, 65504);
  EXPECT_EQ(finfo(bf16).bits, 16);
  EXPECT_EQ(finfo(bf16).eps, 0.0078125);
  // As ml_dtypes has them.
  EXPECT_EQ(finfo(DType::f8e4m3fn).max, 448);
  EXPECT_EQ(finfo(DType::f8e4m3fn).eps, 0.125);
  EXPECT_EQ(finfo(DType::f8e4m3fnuz).max, 240);
  EXPECT_EQ(finfo(DType::f8e5m2).max, 57344);
  EXPECT_EQ(finfo(DType::f8e5m2).smallest_subnormal, std::ldexp(1.0, -16));
  EXPECT_EQ(finfo(DType::f8e3m4).max, 15.5);
  EXPECT_EQ(finfo(DType::f8e8m0fnu).max, std::ldexp(1.0, 127));
  EXPECT_EQ(finfo(DType::f6e2m3fn).max, 7.5);
  EXPECT_EQ(finfo(DType::f6e3m2fn).max, 28);
  EXPECT_EQ(finfo(DType::f6e3m2fn).bits, 6);
  EXPECT_EQ(finfo(DType::f4e2m1fn).max, 6);
  EXPECT_EQ(finfo(DType::f4e2m1fn).smallest_normal, 1);
  EXPECT_EQ(iinfo(s8).min, -128);
  EXPECT_EQ(iinfo(u64).max, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(iinfo(s64).min, std::numeric_limits<std::int64_t>::min());
}

TEST(Numeric, SafeCastsAreNumpys) {
  // numpy's table, with bf16 as ml_dtypes has it: rows are casts from, in the order of the columns.
  const std::vector<DType> types{pred, s8,  s16,  s32, s64, u8,  u16, u32,
                                 u64,  f16, bf16, f32, f64, c64, c128};
  const std::vector<std::string> table{"111111111111111", "011110000111111", "001110000001111",
                                       "000110000000101", "000010000000101", "001111111111111",
                                       "000110111001111", "000010011000101", "000000001000101",
                                       "000000000101111", "000000000011111", "000000000001111",
                                       "000000000000101", "000000000000011", "000000000000001"};
  for (std::size_t i = 0; i < types.size(); ++i) {
    for (std::size_t j = 0; j < types.size(); ++j) {
      EXPECT_EQ(can_cast(types[i], types[j]), table[i][j] == '1')
          << name(types[i]) << " to " << name(types[j]);
    }
  }
}

}  // namespace
}  // namespace tessera::special_tests
