// SPDX-License-Identifier: Apache-2.0
// Operations without a kernel of their own, as expand-rare-ops writes them: what the evaluator
// gives, without it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "src/base/arrays/literal_util.h"
#include "src/passes/expand_rare_ops.h"
#include "src/passes/widen_small_types.h"
#include "tests/codegen/run_module.h"
#include "tests/support/against_evaluator.h"

namespace tessera::testing {
namespace {

using Arguments = std::vector<Literal>;

std::unique_ptr<ir::Module> expanded(const std::string& text) {
  auto module = ir::parse_hlo(text);
  EXPECT_GT(passes::expand_rare_ops(module.get()) + passes::widen_small_types(module.get()), 0U);
  return module;
}

Arguments run_without_evaluator(const ir::Module& module, const Arguments& arguments) {
  const codegen::BuiltPlan built = plan_of(module);
  EXPECT_TRUE(built.evaluator_ops.empty());
  return run_plan(module, built.plan, {arguments})[0];
}

void expect_the_evaluators(const std::string& text, const Arguments& arguments) {
  SCOPED_TRACE(text);
  EXPECT_EQ(run_without_evaluator(*expanded(text), arguments),
            leaves_of(evaluator::evaluate(*ir::parse_hlo(text), arguments)));
}

std::string binary(const std::string& op, const std::string& a, const std::string& b,
                   const std::string& out) {
  return "ENTRY main {\n  x = " + a + " parameter(0)\n  y = " + b +
         " parameter(1)\n  ROOT r = " + out + " " + op + "(x, y)\n}\n";
}

/// All bits are random; the first elements are 0, -1, the lowest and the highest number.
Literal any_bits(DType t, std::int64_t count, std::mt19937_64& random) {
  Literal out(Shape(t, {count}));
  const std::size_t size = byte_size(t);
  std::byte* const bytes = out.mutable_bytes();
  for (std::size_t n = 0; n < out.byte_count(); ++n) bytes[n] = std::byte(random());
  for (std::size_t k = 0; k < 4; ++k) {
    std::fill_n(bytes + k * size, size, k % 2 == 0 ? std::byte(0) : std::byte(255));
    if (k >= 2) bytes[(k + 1) * size - 1] ^= std::byte(128);
  }
  return out;
}

TEST(RareOps, HighHalvesOfProducts) {
  std::mt19937_64 random(20261128);
  for (const DType t : {DType::s8, DType::u8, DType::s16, DType::u16, DType::s32, DType::u32,
                        DType::s64, DType::u64}) {
    const std::string shape = std::string(name(t)) + "[999]";
    Literal x = any_bits(t, 999, random), y = any_bits(t, 999, random);
    expect_the_evaluators(binary("mulhi", shape, shape, shape), {x, y});
    expect_the_evaluators(binary("mulhi", shape, shape, shape), {x, x});
  }
}

TEST(RareOps, StochasticConversions) {
  std::mt19937_64 random(20261128);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const char* from : {"f16", "bf16", "f32", "f64"}) {
    for (const DType bits : {DType::u16, DType::u32, DType::u64}) {
      for (const char* to : {"s8", "u8", "s32", "s64", "s4"}) {
        std::vector<double> numbers = {0, -0.0, 0.5, -0.5, 1, kInfinity, -kInfinity, NAN, 1e4, -3};
        while (numbers.size() < 400) {
          numbers.push_back(double(std::int64_t(random())) * 0x1p-56);
        }
        expect_the_evaluators(
            binary("stochastic-convert", from + std::string("[400]"),
                   std::string(name(bits)) + "[400]", to + std::string("[400]")),
            {make_literal(*dtype_from_name(from), {400}, numbers), any_bits(bits, 400, random)});
      }
    }
  }
}

TEST(RareOps, ConvolutionsOfTruthValues) {
  Dice dice(20261128);
  for (const char* window :
       {"window={size=3x2 pad=1_1x0_1}, dim_labels=b01f_01io->b01f",
        "window={size=3x2 stride=2x1 rhs_dilate=1x2}, dim_labels=b01f_01io->b01f"}) {
    const std::string what = window;
    const std::string out =
        what.find("pad") != std::string::npos ? "pred[2,7,6,5]" : "pred[2,3,4,5]";
    const std::string text =
        "ENTRY main {\n  x = pred[2,7,6,3] parameter(0)\n  w = pred[3,2,3,5] parameter(1)\n"
        "  ROOT r = " +
        out + " convolution(x, w), " + what + "\n}\n";
    expect_the_evaluators(text, random_arguments(*ir::parse_hlo(text), dice));
  }
}

TEST(RareOps, AnglesOfComplexNumbers) {
  std::vector<std::complex<double>> a, b;
  for (int k = 0; k < 60; ++k) {
    a.emplace_back(std::cos(k), std::sin(3 * k));
    b.emplace_back(std::sin(7 * k), std::cos(5 * k) + 2);
  }
  for (const DType t : {DType::c64, DType::c128}) {
    const std::string shape = std::string(name(t)) + "[60]";
    const std::string text = binary("atan2", shape, shape, shape);
    const Arguments arguments = {make_literal(t, {60}, a), make_literal(t, {60}, b)};
    const Literal met = run_without_evaluator(*expanded(text), arguments)[0];
    const Literal want = evaluator::evaluate(*ir::parse_hlo(text), arguments);
    const auto x = to_vector<std::complex<double>>(met), y = to_vector<std::complex<double>>(want);
    for (std::size_t k = 0; k < x.size(); ++k) {
      EXPECT_LT(std::abs(x[k] - y[k]), t == DType::c64 ? 1e-6 : 1e-13) << k;
    }
  }
}

TEST(RareOps, LongIntegersAsPowersOfTwo) {
  std::mt19937_64 random(20261128);
  for (const DType t : {DType::s64, DType::u64}) {
    Literal x = any_bits(t, 999, random);
    auto* words = reinterpret_cast<std::uint64_t*>(x.mutable_bytes());
    for (int k = 0; k < 800; ++k) {  // what is next to numbers halfway between two powers
      const int bit = 2 + k % 62;
      words[k + 100] = (std::uint64_t(3) << (bit - 1)) + std::uint64_t(k / 62 % 3) - 1;
    }
    const std::string count = "[999]";
    expect_the_evaluators("ENTRY main {\n  x = " + std::string(name(t)) + count +
                              " parameter(0)\n  ROOT r = f8e8m0fnu" + count + " convert(x)\n}\n",
                          {x});
  }
}

/// Two draws of one program, of which there are two runs.
std::vector<std::vector<double>> draws(const std::string& type, const std::string& kind, double a,
                                       double b, std::int64_t count) {
  const std::string out = type + "[" + std::to_string(count) + "]";
  const std::string draw = out + " rng(a, b), distribution=rng_" + kind + "\n";
  const auto module = expanded("ENTRY main {\n  a = " + type + "[] parameter(0)\n  b = " + type +
                               "[] parameter(1)\n  x = " + draw + "  y = " + draw + "  ROOT t = (" +
                               out + ", " + out + ") tuple(x, y)\n}\n");
  const codegen::BuiltPlan built = plan_of(*module);
  EXPECT_TRUE(built.evaluator_ops.empty());
  const DType t = *dtype_from_name(type);
  const Arguments arguments = {make_literal(t, {}, std::vector<double>{a}),
                               make_literal(t, {}, std::vector<double>{b})};
  std::vector<std::vector<double>> all;
  for (int run = 0; run < 2; ++run) {
    const std::vector<Arguments> made = run_plan(*module, built.plan, {arguments});
    for (const Literal& x : made[0]) {
      all.push_back(to_vector<double>(x));
    }
  }
  return all;
}

TEST(RandomNumbers, AreOthersAtEachOperationAndRun) {
  for (const char* type : {"f16", "bf16", "f32", "f64", "s32", "u64"}) {
    SCOPED_TRACE(type);
    const auto all = draws(type, "uniform", 2, 1000, 1001);
    const std::set<std::vector<double>> different(all.begin(), all.end());
    EXPECT_EQ(different.size(), 4U);
    for (const std::vector<double>& x : all) {
      double sum = 0;
      for (const double v : x) {
        EXPECT_GE(v, 2);
        EXPECT_LT(v, 1000);
        sum += v / 1001;
      }
      EXPECT_NEAR(sum, 501, 60);
    }
  }
}

TEST(RandomNumbers, HaveTheMomentsOfNormalOnes) {
  for (const char* type : {"bf16", "f32", "f64"}) {
    SCOPED_TRACE(type);
    for (const std::vector<double>& x : draws(type, "normal", 10, 2, 20000)) {
      double mean = 0, square = 0, fourth = 0;
      for (const double v : x) mean += v / 20000;
      for (const double v : x) square += (v - mean) * (v - mean) / 20000;
      for (const double v : x) fourth += std::pow(v - mean, 4) / 20000;
      EXPECT_NEAR(mean, 10, 0.06);
      EXPECT_NEAR(square, 4, 0.2);
      EXPECT_NEAR(fourth / (square * square), 3, 0.25);
    }
  }
}

TEST(RandomNumbers, OfAnEmptyRangeAreItsBound) {
  for (const char* type : {"f32", "s32"}) {
    for (const std::vector<double>& x : draws(type, "uniform", 7, 7, 5)) {
      EXPECT_EQ(x, std::vector<double>(5, 7));
    }
  }
  EXPECT_TRUE(draws("f32", "normal", 7, 7, 0)[0].empty());
}

}  // namespace
}  // namespace tessera::testing
