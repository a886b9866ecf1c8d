// SPDX-License-Identifier: Apache-2.0
// Powers by small constants become products and roots with the same results, but for last bits.
#include "src/passes/strength_reduce_powers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "tests/support/against_evaluator.h"

namespace tessera::passes {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// What the pass makes of powers of these numbers.
std::vector<float> powers(const std::vector<float>& of, const std::string& exponent) {
  const std::string type = "f32[" + std::to_string(of.size()) + "]";
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(
      "HloModule m\nENTRY e { x = " + type + " parameter(0)\n c = f32[] constant(" + exponent +
      ")\n y = " + type + " broadcast(c), dimensions={}\n ROOT r = " + type + " power(x, y) }");
  EXPECT_EQ(strength_reduce_powers(module.get()), 1u) << exponent;
  for (const auto& i : module->entry()->instructions()) {
    EXPECT_TRUE(i.get() != module->entry()->root() || !i->is(ir::Opcode::power));
  }
  Literal x(Shape(DType::f32, {std::int64_t(of.size())}));
  std::copy(of.begin(), of.end(), x.mutable_data<float>().begin());
  const Literal out = evaluator::evaluate(*module, std::vector{x});
  const auto values = out.data<float>();
  return {values.begin(), values.end()};
}

TEST(StrengthReducePowers, GiveWhatPowersGive) {
  std::vector<float> x = {0.0f, -0.0f,  1,     -1,     kInfinity, -kInfinity,
                          NAN,  1e-20f, 1e20f, -3e12f, 6e-39f};
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int k = 0; k < 1000; ++k) x.push_back(normal(random) * std::ldexp(1.0f, k % 40 - 20));
  for (const char* exponent : {"1", "2", "3", "4", "-1", "-2", "0.5", "-0.5"}) {
    const std::vector<float> got = powers(x, exponent);
    for (std::size_t k = 0; k < x.size(); ++k) {
      const auto want = float(std::pow(double(x[k]), std::stod(exponent)));
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got[k])) << x[k] << " to the power " << exponent;
      } else if (std::isinf(want) || want == 0) {
        EXPECT_EQ(got[k], want) << x[k] << " to the power " << exponent;
        EXPECT_EQ(std::signbit(got[k]), std::signbit(want)) << x[k] << " to the power " << exponent;
      } else {
        EXPECT_NEAR(got[k] / want, 1, std::isnormal(want) ? 2.5e-7 : 1e-4)
            << x[k] << " to the power " << exponent;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::passes
