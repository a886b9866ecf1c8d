// SPDX-License-Identifier: Apache-2.0
// How far each function's results are from the exact ones, for compiled kernels: the bounds that
// docs/accuracy.md states are those that are tested.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "src/codegen/kernels/code/kernel_compiler.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "tests/codegen/program_of_op.h"

namespace tessera::codegen {
namespace {

using ir::Opcode;
using Exact = long double;

/// A function, exactly or nearly so, and where its arguments are taken from besides all numbers.
struct Function {
  Opcode op;
  std::function<Exact(Exact, Exact)> exact;
  double from = -10, to = 10;
  bool binary = false;
};

const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
      {Opcode::acos, [](Exact x, Exact) { return std::acos(x); }, -1, 1},
      {Opcode::acosh, [](Exact x, Exact) { return std::acosh(x); }, 1, 10},
      {Opcode::asin, [](Exact x, Exact) { return std::asin(x); }, -1, 1},
      {Opcode::asinh, [](Exact x, Exact) { return std::asinh(x); }},
      {Opcode::atan2, [](Exact x, Exact y) { return std::atan2(x, y); }, -10, 10, true},
      {Opcode::atanh, [](Exact x, Exact) { return std::atanh(x); }, -1, 1},
      {Opcode::cbrt, [](Exact x, Exact) { return std::cbrt(x); }},
      {Opcode::cosine, [](Exact x, Exact) { return std::cos(x); }},
      {Opcode::cosh, [](Exact x, Exact) { return std::cosh(x); }},
      {Opcode::erf, [](Exact x, Exact) { return std::erf(x); }, -5, 5},
      {Opcode::exponential, [](Exact x, Exact) { return std::exp(x); }, -80, 80},
      {Opcode::exponential_minus_one, [](Exact x, Exact) { return std::expm1(x); }},
      {Opcode::log, [](Exact x, Exact) { return std::log(x); }, 0, 10},
      {Opcode::log_plus_one, [](Exact x, Exact) { return std::log1p(x); }, -1, 10},
      {Opcode::logistic, [](Exact x, Exact) { return 1 / (1 + std::exp(-x)); }, -20, 20},
      {Opcode::power, [](Exact x, Exact y) { return std::pow(x, y); }, 0, 10, true},
      {Opcode::rsqrt, [](Exact x, Exact) { return 1 / std::sqrt(x); }, 0, 10},
      {Opcode::sine, [](Exact x, Exact) { return std::sin(x); }},
      {Opcode::sinh, [](Exact x, Exact) { return std::sinh(x); }},
      {Opcode::sqrt, [](Exact x, Exact) { return std::sqrt(x); }, 0, 10},
      {Opcode::tan, [](Exact x, Exact) { return std::tan(x); }},
      {Opcode::tanh, [](Exact x, Exact) { return std::tanh(x); }, -5, 5},
  };
  return all;
}

/// The bounds of docs/accuracy.md, in units in the last place: by function, of f32 and of f64.
std::map<std::string, std::pair<double, double>> documented() {
  std::ifstream file(TESSERA_SOURCE_DIR "/docs/accuracy.md");
  std::map<std::string, std::pair<double, double>> out;
  for (std::string line; std::getline(file, line);) {
    std::string name;
    double f32 = 0, f64 = 0;
    char bar = 0;
    std::istringstream cells(line);
    if (cells >> bar >> name >> bar >> f32 >> bar >> f64 && bar == '|') out[name] = {f32, f64};
  }
  return out;
}

template <class T>
double spacing(T x) {
  x = std::abs(x);
  if (x >= std::numeric_limits<T>::max()) return double(x - std::nextafter(x, T(0)));
  return double(std::nextafter(x, std::numeric_limits<T>::infinity()) - x);
}

/// Between the limits; near zero; and of all sizes.
template <class T>
std::vector<T> arguments(const Function& f, std::mt19937_64& random) {
  constexpr std::size_t kCount = 60000;
  std::vector<T> out;
  std::uniform_real_distribution<double> usual(f.from, f.to), exponent(-30, 30);
  for (std::size_t i = 0; i < kCount; ++i) {
    const double x = usual(random);
    const double scale = std::pow(10.0, exponent(random));
    out.push_back(T(i % 3 == 0 ? x * 1e-3 : i % 3 == 1 ? x : x * scale));
  }
  return out;
}

/// The largest error, in units in the last place of the exact result.
template <class T>
double largest_error(const Function& f, DType type, std::string* where) {
  std::mt19937_64 random(7);
  const std::vector<T> x = arguments<T>(f, random), y = arguments<T>(f, random);
  const BlockOp op{.kind = f.binary ? BlockOp::Kind::binary : BlockOp::Kind::unary,
                   .opcode = f.op,
                   .type = type};
  const std::vector<DType> operands(f.binary ? 2 : 1, type);
  const FusedLoop loop(std::make_shared<const LoopExpr>(program_of_op(op, operands, 0, sizeof(T))),
                       true);
  EXPECT_TRUE(loop.is_compiled()) << ir::name(f.op);
  std::vector<T> result(x.size());
  const std::byte* in[] = {reinterpret_cast<const std::byte*>(x.data()),
                           reinterpret_cast<const std::byte*>(y.data())};
  std::byte* out[] = {reinterpret_cast<std::byte*>(result.data())};
  loop.run(in, out, 0, std::int64_t(x.size()));
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Exact exact = f.exact(Exact(x[i]), Exact(y[i]));
    const T rounded = T(exact), got = result[i];
    double error = 0;
    if (std::isnan(exact)) {
      error = std::isnan(got) ? 0 : 1e30;
    } else if (std::abs(exact) > Exact(std::numeric_limits<T>::max())) {
      // Rounding decides whether the largest number or infinity is nearer.
      error = std::abs(got) >= std::numeric_limits<T>::max() && (got > 0) == (exact > 0) ? 0 : 1e30;
    } else if (std::abs(exact) < Exact(std::numeric_limits<T>::min())) {
      // What has no full precision may be zero.
      error = std::abs(got) <= 2 * std::numeric_limits<T>::min() ? 0 : 1e30;
    } else {
      error = double(std::abs(Exact(got) - exact) / Exact(spacing(rounded)));
      if (!(error <= 1e30)) error = 1e30;
    }
    if (error <= worst) continue;
    worst = error;
    std::ostringstream text;
    text.precision(20);
    text << x[i];
    if (f.binary) text << ", " << y[i];
    text << ": " << got << ", exactly " << double(exact);
    *where = text.str();
  }
  return worst;
}

TEST(FunctionAccuracyTest, IsAsDocumented) {
  if (kernel_compiler() == nullptr) GTEST_SKIP() << "without a compiler of kernels";
  static_assert(std::numeric_limits<Exact>::digits > std::numeric_limits<double>::digits + 8);
  const auto bounds = documented();
  for (const Function& f : functions()) {
    const std::string name(ir::name(f.op));
    SCOPED_TRACE(name);
    const auto it = bounds.find(name);
    if (it == bounds.end()) ADD_FAILURE() << "docs/accuracy.md has no line for it";
    const auto [f32, f64] = it == bounds.end() ? std::pair{0.0, 0.0} : it->second;
    std::string where;
    const double single = largest_error<float>(f, DType::f32, &where);
    EXPECT_LE(single, f32) << "f32: " << where;
    const double twice = largest_error<double>(f, DType::f64, &where);
    EXPECT_LE(twice, f64) << "f64: " << where;
  }
}

/// Of any sign, to powers that are whole, odd, broken, or none at all.
template <class T>
void expect_powers(DType type) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const T bases[] = {-kInfinity, T(-2.5), -2, -1, T(-1e-5),  T(-0.0),
                     0,          T(0.5),  1,  3,  kInfinity, std::numeric_limits<T>::quiet_NaN()};
  const T exponents[] = {-kInfinity,  -3,         -2,        T(-0.5),
                         -1,          T(-0.0),    0,         T(0.25),
                         1,           2,          T(2.5),    7,
                         T(16777217), T(1 << 30), kInfinity, std::numeric_limits<T>::quiet_NaN()};
  std::vector<T> x, y;
  for (const T base : bases) {
    for (const T exponent : exponents) x.push_back(base), y.push_back(exponent);
  }
  const BlockOp op{.kind = BlockOp::Kind::binary, .opcode = Opcode::power, .type = type};
  const FusedLoop loop(
      std::make_shared<const LoopExpr>(program_of_op(op, {type, type}, 0, sizeof(T))), true);
  ASSERT_TRUE(loop.is_compiled());
  std::vector<T> result(x.size());
  const std::byte* in[] = {reinterpret_cast<const std::byte*>(x.data()),
                           reinterpret_cast<const std::byte*>(y.data())};
  std::byte* out[] = {reinterpret_cast<std::byte*>(result.data())};
  loop.run(in, out, 0, std::int64_t(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const T want = std::pow(x[i], y[i]), got = result[i];
    EXPECT_EQ(std::isnan(got), std::isnan(want)) << x[i] << ", " << y[i];
    if (std::isnan(want)) continue;
    EXPECT_EQ(std::signbit(got), std::signbit(want)) << x[i] << ", " << y[i];
    const bool near = got == want || std::abs(got - want) <= T(1e-6) * std::abs(want);
    EXPECT_TRUE(near) << x[i] << ", " << y[i] << ": " << got << ", exactly " << want;
  }
}

TEST(FunctionAccuracyTest, PowersHaveTheSignsAndLimitsOfTheirBases) {
  if (kernel_compiler() == nullptr) GTEST_SKIP() << "without a compiler of kernels";
  expect_powers<float>(DType::f32);
  expect_powers<double>(DType::f64);
}

}  // namespace
}  // namespace tessera::codegen
