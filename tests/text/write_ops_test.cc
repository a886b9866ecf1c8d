// SPDX-License-Identifier: Apache-2.0
// Each op's text, letter by letter, and that it is read back as a program of the same meaning.
// tests/peers/stablehlo_ops.py asks XLA whether the two texts of a case mean the same.
#include <cmath>
#include <complex>
#include <functional>
#include <set>

#include "src/base/arrays/literal_util.h"
#include "src/evaluator/evaluator.h"
#include "tests/support/against_evaluator.h"
#include "tests/support/random_program.h"
#include "tests/text/write_cases.h"

namespace tessera::text {
namespace {

using testing::module_of;
using testing::write_cases;
using testing::WriteCase;

TEST(WriteOps, TextIsAsAccepted) {
  const std::vector<WriteCase> cases = write_cases();
  ASSERT_GE(cases.size(), 200u);
  for (const WriteCase& c : cases) {
    EXPECT_EQ(to_stablehlo(*module_of(c.hlo)), c.stablehlo) << c.name;
  }
}

// What only mhlo can say, which JAX reads and parse_stablehlo doesn't.
const std::set<std::string> kNotRead{"state", "stochastic"};

// Reading what was written and writing it again gives what is then stable.
TEST(WriteOps, TextIsStable) {
  for (const WriteCase& c : write_cases()) {
    // The constant that says rng's shape is written for each rng, and stays when it is read.
    if (kNotRead.count(c.name) > 0 || c.name == "rng") continue;
    SCOPED_TRACE(c.name);
    try {
      const std::string once = to_stablehlo(*parse_stablehlo(c.stablehlo));
      EXPECT_EQ(to_stablehlo(*parse_stablehlo(once)), once);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

Literal random_value(tessera::testing::Dice& dice, const Shape& shape) {
  if (shape.is_tuple) {
    std::vector<Literal> parts;
    for (const Shape& e : shape.elements) parts.push_back(random_value(dice, e));
    return Literal::tuple(std::move(parts));
  }
  return tessera::testing::random_literal(dice, shape.dtype, shape.dims, false);
}

// What no single device can compute, or the evaluator knows nothing of.
const std::set<std::string> kNotEvaluated{
    "collectives", "custom", "custom.json", "custom.text", "host", "rng",
};

// Functions that are read as formulas.
const std::set<std::string> kFormulas{"acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh"};

/// Bit for bit, or about as much.
void expect_same(const Literal& got, const Literal& want, bool about) {
  if (!about) {
    EXPECT_EQ(got, want);
    return;
  }
  ASSERT_EQ(got.shape(), want.shape());
  const auto a = to_vector<std::complex<double>>(got), b = to_vector<std::complex<double>>(want);
  for (std::size_t k = 0; k < a.size(); ++k) {
    EXPECT_EQ(std::isnan(a[k].real()), std::isnan(b[k].real())) << k;
    if (!std::isfinite(std::abs(b[k]))) continue;
    EXPECT_LE(std::abs(a[k] - b[k]), 2e-6 * (1 + std::abs(b[k]))) << k;
  }
}

TEST(WriteOps, ReadBackItIsEquivalent) {
  std::size_t evaluated = 0;
  for (const WriteCase& c : write_cases()) {
    if (kNotRead.count(c.name) > 0) continue;
    SCOPED_TRACE(c.name);
    try {
      const auto module = module_of(c.hlo);
      const auto back = parse_stablehlo(to_stablehlo(*module));
      if (kNotEvaluated.count(c.name) > 0) continue;
      tessera::testing::Dice dice(7);
      std::vector<Literal> arguments;
      for (const ir::Instruction* p : module->entry()->parameters()) {
        arguments.push_back(random_value(dice, p->shape));
      }
      using tessera::testing::leaves_of;
      const auto want = leaves_of(evaluator::evaluate(*module, arguments));
      const auto got = leaves_of(evaluator::evaluate(*back, leaves_of(arguments)));
      ASSERT_EQ(got.size(), want.size());
      const bool about = kFormulas.count(c.name.substr(0, c.name.find('.'))) > 0;
      for (std::size_t k = 0; k < got.size(); ++k) expect_same(got[k], want[k], about);
      ++evaluated;
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
  EXPECT_GE(evaluated, 190u);
}

TEST(WriteOps, RandomProgramsReadBackAreEquivalent) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto program = tessera::testing::random_program(seed);
    const std::string text = to_stablehlo(*program.module);
    EXPECT_EQ(to_stablehlo(*program.module), text);
    try {
      const auto back = parse_stablehlo(text);
      using tessera::testing::leaves_of;
      const auto want = leaves_of(evaluator::evaluate(*program.module, program.arguments));
      const auto got = leaves_of(evaluator::evaluate(*back, leaves_of(program.arguments)));
      EXPECT_EQ(got, want) << text;
    } catch (const Error& e) {
      ADD_FAILURE() << e.what() << "\n" << text;
    }
  }
}

}  // namespace
}  // namespace tessera::text
