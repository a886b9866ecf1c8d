// SPDX-License-Identifier: Apache-2.0
// The dialects of a lowered program's text.
#include <tessera/control_flow.h>
#include <tessera/jit.h>
#include <tessera/ops.h>

#include <span>

#include "src/evaluator/evaluator.h"
#include "src/text/bytecode/bytecode.h"
#include "src/text/read/stablehlo.h"
#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

/// What the text computes of arrays of f32, by way of the reference interpreter.
std::vector<float> run(const std::string& text, const std::vector<Array>& arguments) {
  std::vector<Literal> literals;
  for (const Array& a : arguments) {
    const std::vector<float> values = floats(a);
    literals.emplace_back(Shape(f32, a.shape()), std::as_bytes(std::span(values)));
  }
  const auto module =
      text::is_bytecode(text) ? text::parse_bytecode(text) : text::parse_stablehlo(text);
  Literal out = evaluator::evaluate(*module, literals);
  if (out.is_tuple()) out = Literal(out.elements().at(0));
  const auto values = out.data<float>();
  return {values.begin(), values.end()};
}

TEST(StagesText, StableHlo) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  auto f = jit(
      [&](Array a, Array b) {
        return with_sharding_constraint(matmul(a, b), NamedSharding(mesh, P("y"))) + 1;
      },
      {.donate_argnums = {1}, .name = "product"});
  const Array a = put(counting({8, 4}), mesh, P("x")), b = put(counting({4, 8}), mesh, P());
  const auto lowered = f.lower(a, b);
  const std::string text = lowered.as_text("stablehlo");
  EXPECT_TRUE(has(text, "module @")) << text;
  EXPECT_TRUE(has(text, "sdy.mesh @")) << text;
  EXPECT_TRUE(has(text, "= <[\"x\"=2, \"y\"=4]>")) << text;
  EXPECT_TRUE(has(text, "func.func public @main(%arg0: tensor<8x4xf32> {sdy.sharding")) << text;
  EXPECT_TRUE(has(text, "stablehlo.dot_general %arg0, %arg1")) << text;
  EXPECT_TRUE(has(text, "sdy.sharding_constraint")) << text;
  EXPECT_EQ(text, lowered.as_text("stablehlo"));
  expect_close(run(text, {a, b}), floats(matmul(a, b) + 1));
}

TEST(StagesText, Bytecode) {
  auto f = jit([](Array x) {
    return fori_loop(
        0, 3, [](Array, Array v) { return v * 2 + 1; }, sin(x));
  });
  const Array x = counting({5}, 0.1f);
  const std::string bytes = f.lower(x).as_bytecode();
  EXPECT_EQ(bytes.substr(0, 4), "ML\xefR");
  EXPECT_NE(bytes.find("stages_text_test.cc"), std::string::npos);
  EXPECT_EQ(bytes, f.lower(x).as_bytecode());
  expect_close(run(bytes, {x}), floats(f(x)));
}

TEST(StagesText, HloIsTheDefault) {
  auto f = jit([](Array x) { return sin(x); });
  const auto lowered = f.lower(counting({3}));
  EXPECT_EQ(lowered.as_text(), lowered.as_text("hlo"));
  EXPECT_EQ(lowered.as_text("hlo").rfind("HloModule", 0), 0u);
}

TEST(StagesText, UnknownDialectsNameTheKnownOnes) {
  auto f = jit([](Array x) { return sin(x); });
  const auto lowered = f.lower(counting({3}));
  expect_error<ValueError>([&] { (void)lowered.as_text("mhlo"); },
                           {"as_text('mhlo')", "hlo, stablehlo", kNear});
  expect_error<ValueError>([&] { (void)lowered.as_text(""); }, {"as_text('')", kNear});
}

TEST(StagesText, LoopsAndBranchesAreReadBack) {
  auto f = jit([](Array x) {
    const Array summed = fori_loop(
        0, 3, [](Array, Array v) { return v * 2 + 1; }, x);
    return cond(
        sum(x) > 0, [](Array v) { return sin(v); }, [](Array v) { return v; }, summed);
  });
  const Array x = counting({5}, 0.1f);
  expect_close(run(f.lower(x).as_text("stablehlo"), {x}), floats(f(x)));
}

}  // namespace
}  // namespace tessera::testing
