// SPDX-License-Identifier: Apache-2.0
// The derivative rule of every op: jvp against finite differences, vjp against jvp.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "src/base/arrays/literal_util.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/analysis/verifier.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/transforms/transform.h"
#include "tests/transforms/batch_case.h"
#include "tests/transforms/derivative_cases.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

Literal drawn(const Shape& shape, std::mt19937& bits, double low, double high) {
  std::uniform_real_distribution<double> value(low, high);
  std::vector<double> numbers(std::size_t(shape.element_count()));
  for (double& v : numbers) v = value(bits);
  return make_literal(shape.dtype, shape.dims, numbers);
}

std::vector<Literal> run(const ir::Module& m, const std::vector<Literal>& arguments) {
  ir::verify(m);
  const Literal out = evaluator::evaluate(m, arguments);
  return out.is_tuple() ? out.elements() : std::vector<Literal>{out};
}

double dot(const std::vector<Literal>& a, const std::vector<Literal>& b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const auto x = to_vector<double>(a[k]), y = to_vector<double>(b[k]);
    for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  }
  return sum;
}

std::vector<Literal> moved(const std::vector<Literal>& x, const std::vector<Literal>& dx,
                           double by) {
  std::vector<Literal> out;
  for (std::size_t k = 0; k < x.size(); ++k) {
    auto v = to_vector<double>(x[k]);
    const auto d = to_vector<double>(dx[k]);
    for (std::size_t i = 0; i < v.size(); ++i) v[i] += by * d[i];
    out.push_back(make_literal(x[k].dtype(), x[k].dims(), v));
  }
  return out;
}

std::vector<Literal> joined(std::vector<Literal> a, const std::vector<Literal>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The floating-point ones.
std::vector<Literal> numbers(const std::vector<Literal>& all) {
  std::vector<Literal> out;
  for (const Literal& l : all) {
    if (is_floating(l.dtype())) out.push_back(l);
  }
  return out;
}

class Derivative : public ::testing::TestWithParam<DerivativeCase> {};

TEST_P(Derivative, IsThatOfFiniteDifferencesInBothModes) {
  const DerivativeCase& c = GetParam();
  const auto program = ir::parse_hlo(f64_program(c.entry));
  std::mt19937 bits(7);
  std::vector<Literal> x, dx;
  for (const ir::Instruction* p : program->entry()->parameters()) {
    x.push_back(drawn(p->shape, bits, c.low, c.high));
    dx.push_back(drawn(p->shape, bits, -1, 1));
  }
  const std::vector<Literal> y = run(*program, x);
  const std::size_t results = y.size();
  const auto forward = transforms::jvp(*program);
  const std::vector<Literal> both = run(*forward, joined(x, dx));
  const std::vector<Literal> dy(both.begin() + std::ptrdiff_t(results), both.end());
  ASSERT_EQ(dy.size(), numbers(y).size());
  constexpr double kStep = 1e-6;
  const std::vector<Literal> above = numbers(run(*program, moved(x, dx, kStep)));
  const std::vector<Literal> below = numbers(run(*program, moved(x, dx, -kStep)));
  for (std::size_t k = 0; k < dy.size(); ++k) {
    const auto got = to_vector<double>(dy[k]);
    const auto a = to_vector<double>(above[k]), b = to_vector<double>(below[k]);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double want = (a[i] - b[i]) / (2 * kStep);
      EXPECT_NEAR(got[i], want, 1e-6 * (1 + std::abs(want))) << "result " << k << " at " << i;
    }
  }
  if (c.forward_only) {
    EXPECT_THROW(transforms::vjp(*program), NotImplementedError);
    return;
  }
  std::vector<Literal> ct;
  for (const Literal& d : dy) ct.push_back(drawn(d.shape(), bits, -1, 1));
  const std::vector<Literal> pulled = run(*transforms::vjp(*program), joined(x, ct));
  for (std::size_t k = 0; k < results; ++k) {
    // Reductions by products may have another order.
    EXPECT_LT(difference(pulled[k], y[k]), 1e-12) << "result " << k;
  }
  const std::vector<Literal> gx(pulled.begin() + std::ptrdiff_t(results), pulled.end());
  ASSERT_EQ(gx.size(), x.size());
  const double forth = dot(ct, dy), back = dot(gx, dx);
  EXPECT_NEAR(forth, back, 1e-10 * (1 + std::abs(forth)));

  // Forward over reverse, against differences of the reverse mode.
  const auto second = transforms::jvp(*transforms::vjp(*program));
  const std::vector<Literal> direction = joined(dx, moved(ct, ct, 1));
  const std::vector<Literal> all = run(*second, joined(joined(x, ct), direction));
  const auto plus = run(*transforms::vjp(*program), moved(joined(x, ct), direction, kStep));
  const auto minus = run(*transforms::vjp(*program), moved(joined(x, ct), direction, -kStep));
  const std::vector<Literal> high = numbers(plus), low = numbers(minus);
  const std::vector<Literal> tangents(all.begin() + std::ptrdiff_t(plus.size()), all.end());
  ASSERT_EQ(tangents.size(), high.size());
  for (std::size_t k = 0; k < tangents.size(); ++k) {
    const auto got = to_vector<double>(tangents[k]);
    const auto a = to_vector<double>(high[k]), b = to_vector<double>(low[k]);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double want = (a[i] - b[i]) / (2 * kStep);
      EXPECT_NEAR(got[i], want, 1e-5 * (1 + std::abs(want))) << "second: " << k << " at " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Derivative, ::testing::ValuesIn(all_derivatives()),
                         [](const auto& info) { return std::string(info.param.name); });

/// What the table says of an op's derivative and transpose.
struct Row {
  Opcode op;
  std::string jvp, transpose;
};
std::vector<Row> table() {
  std::vector<Row> out;
#define TEXT_OF_EXPANDED(token) #token
#define TEXT_OF(token) TEXT_OF_EXPANDED(token)
#define OP(enumerator, text, operands, attributes, types, shape, factors, evaluate, traits, \
           linear, work, calls, dialect, jvp, transpose, ...)                               \
  out.push_back({Opcode::enumerator, TEXT_OF(jvp), TEXT_OF(transpose)});
#include "src/ir/opcode_list.inc"
#undef TEXT_OF
#undef TEXT_OF_EXPANDED
  return out;
}

TEST(DerivativeTable, SaysOfEachLinearOpWhatItsTransposeIs) {
  for (const Row& r : table()) {
    const bool linear = ir::info(r.op).linear.kind != ir::Linearity::Kind::none;
    if (r.jvp == "jvp_none") continue;  // can't be reached
    if (linear) {
      EXPECT_TRUE(r.transpose != "transpose_none" || r.op == Opcode::collective_broadcast)
          << ir::name(r.op);
    }
    if (r.jvp == "jvp_linear") {
      EXPECT_TRUE(linear) << ir::name(r.op);
    }
  }
}

TEST(DerivativeTable, IsTriedInEachRowThatComputes) {
  // Elsewhere: what belongs to devices, to text and to partitioning, and what only front ends make.
  std::set<std::string> elsewhere{
      "all-gather",          "all-reduce",     "all-to-all",  "collective-broadcast",
      "collective-permute",  "reduce-scatter", "custom-call", "custom-derivative",
      "custom-partitioning", "domain",         "fusion",      "manual-computation",
      "propagation-barrier", "pvary",          "remat",       "sharding-constraint",
      "reduce-precision"};
  std::set<Opcode> tried;
  for (const DerivativeCase& c : all_derivatives()) {
    const auto program = ir::parse_hlo(f64_program(c.entry));
    for (const auto& computation : program->computations()) {
      for (const auto& i : computation->instructions()) tried.insert(i->opcode);
    }
  }
  for (const Row& r : table()) {
    if (r.jvp == "jvp_none" || r.jvp == "jvp_zero") continue;
    if (elsewhere.count(std::string(ir::name(r.op))) > 0) continue;
    EXPECT_TRUE(tried.count(r.op) > 0) << ir::name(r.op) << " has a derivative that no test tries";
  }
}

TEST(Derivatives, LeavePositionsAsTheyAre) {
  // Only the position is used: the reduction is neither differentiated nor taken apart.
  const auto module = ir::parse_hlo(
      f64_program("x = f64[4,6] parameter(0)\n low = f64[] constant(-inf)\n n = s32[] constant(0)\n"
                  "i = s32[4,6] iota(), iota_dimension=1\n"
                  "t = (f64[4], s32[4]) reduce(x, i, low, n), dimensions={1}, to_apply=argmax\n"
                  "k = s32[4] get-tuple-element(t), index=1\n f = f64[4] convert(k)\n"
                  "ROOT r = f64[4] multiply(f, f)"));
  for (const auto& derivative : {transforms::jvp(*module), transforms::vjp(*module)}) {
    int reductions = 0, slices = 0;
    for (const auto& i : derivative->entry()->instructions()) {
      reductions += i->is(Opcode::reduce) ? 1 : 0;
      slices += i->is(Opcode::slice) ? 1 : 0;
    }
    EXPECT_EQ(reductions, 1) << ir::to_string(*derivative);
    EXPECT_EQ(slices, 0) << ir::to_string(*derivative);
  }
}

TEST(Derivatives, NameWhatHasNone) {
  const auto program = ir::parse_hlo(R"(HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  ROOT c = f32[4] custom-call(x), custom_call_target="mine", metadata={source_file="model.cc" source_line=7}
}
)");
  try {
    transforms::vjp(*program);
    FAIL() << "a custom call has no derivative";
  } catch (const NotImplementedError& e) {
    EXPECT_NE(std::string(e.what()).find("model.cc:7"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("custom call of mine"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tessera::testing
