// SPDX-License-Identifier: Apache-2.0
// Kernels are described while a program is planned, and made once for all equal steps when the plan
// is settled.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "src/base/arrays/literal_util.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/plan/plan_builder.h"
#include "src/evaluator/evaluator.h"
#include "tests/codegen/run_module.h"

namespace tessera::testing {
namespace {

/// x := sort of rows of (tanh(x w + b) summed with a slice and its reverse), over and over.
std::string layers(int n) {
  std::string text = R"(
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT
}
ENTRY main {
  w = f32[16,16] parameter(1)
  b = f32[16] parameter(2)
  x0 = f32[8,16] parameter(0)
)";
  for (int k = 0; k < n; ++k) {
    const auto name = [&](const char* stem, int number) { return stem + std::to_string(number); };
    const std::string x = name("x", k);
    text += "  " + name("d", k) + " = f32[8,16] dot(" + x +
            ", w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
    text += "  " + name("c", k) + " = f32[8,16] broadcast(b), dimensions={1}\n";
    text += "  " + name("s", k) + " = f32[8,16] add(" + name("d", k) + ", " + name("c", k) + ")\n";
    text += "  " + name("t", k) + " = f32[8,16] tanh(" + name("s", k) + ")\n";
    text += "  " + name("r", k) + " = f32[8,16] reverse(" + name("t", k) + "), dimensions={0}\n";
    text += "  " + name("u", k) + " = f32[8,16] add(" + name("t", k) + ", " + name("r", k) + ")\n";
    text += "  " + name("x", k + 1) + " = f32[8,16] sort(" + name("u", k) +
            "), dimensions={1}, to_apply=less\n";
  }
  return text + "  ROOT out = f32[8,16] negate(x" + std::to_string(n) + ")\n}\n";
}

std::size_t kernel_steps(const runtime::Plan& plan) {
  std::size_t n = 0;
  for (const runtime::Step& s : plan.entry.steps) {
    n += std::holds_alternative<runtime::KernelTask>(s.what);
  }
  return n;
}

TEST(KernelTable, EqualLayersShareTheirKernels) {
  const auto one = ir::parse_hlo(layers(1)), many = ir::parse_hlo(layers(20));
  codegen::PlannedProgram small = codegen::plan_program(*one);
  codegen::PlannedProgram planned = codegen::plan_program(*many);
  // Several ways were compared, and nothing was made for any.
  EXPECT_EQ(planned.kernels.made(), 0);
  EXPECT_TRUE(planned.built.plan.kernels.empty());
  EXPECT_GE(planned.kernels.described(), 4);

  small.kernels.materialize(&small.built.plan);
  planned.kernels.materialize(&planned.built.plan);
  const runtime::Plan& plan = planned.built.plan;
  EXPECT_EQ(planned.kernels.made(), std::int64_t(plan.kernels.size()));
  // Twenty layers have the kernels of one, in the loops of all of their steps.
  EXPECT_EQ(plan.kernels.size(), small.built.plan.kernels.size());
  EXPECT_GT(kernel_steps(plan), 15 * plan.kernels.size());
  std::set<const void*> attributes;
  for (const runtime::Kernel& k : plan.kernels) attributes.insert(k.attributes.get());
  EXPECT_EQ(attributes.size(), plan.kernels.size());
}

TEST(KernelTable, SharedKernelsComputeTheSame) {
  const auto module = ir::parse_hlo(layers(3));
  std::vector<Literal> args;
  for (const ir::Instruction* p : module->entry()->parameters()) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < p->shape.element_count(); ++i) {
      values.push_back(float((i * 37 + 11) % 23) / 23 - 0.5f);
    }
    args.push_back(make_literal<float>(DType::f32, p->shape.dims, values));
  }
  const Literal want = evaluator::evaluate(*module, args);
  const std::vector<Literal> have = run_module(*module, args);
  const auto a = to_vector<float>(want), b = to_vector<float>(have[0]);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5);
}

TEST(KernelTable, OtherShapesAndTypesAreOtherKernels) {
  const auto kernels = [](const std::string& op) {
    const auto module = ir::parse_hlo("ENTRY main {\n" + op + "}\n");
    const codegen::BuiltPlan built = codegen::build_plan(*module);
    return std::pair(kernel_steps(built.plan), built.plan.kernels.size());
  };
  using Counts = std::pair<std::size_t, std::size_t>;
  const std::string head = "  a = f32[6,4] parameter(0)\n  b = f32[6,4] parameter(1)\n";
  EXPECT_EQ(kernels(head + "  s = f32[4,6] transpose(a), dimensions={1,0}\n"
                           "  t = f32[4,6] transpose(b), dimensions={1,0}\n"
                           "  ROOT r = (f32[4,6], f32[4,6]) tuple(s, t)\n"),
            Counts(2, 1));
  EXPECT_EQ(kernels("  a = f32[6,4] parameter(0)\n  b = f32[4,6] parameter(1)\n"
                    "  s = f32[4,6] transpose(a), dimensions={1,0}\n"
                    "  t = f32[6,4] transpose(b), dimensions={1,0}\n"
                    "  ROOT r = (f32[4,6], f32[6,4]) tuple(s, t)\n"),
            Counts(2, 2));
  EXPECT_EQ(kernels(head + "  s = f32[6,4] negate(a)\n  t = f32[6,4] abs(b)\n"
                           "  ROOT r = (f32[6,4], f32[6,4]) tuple(s, t)\n"),
            Counts(2, 2));
}

TEST(KernelTable, FieldsOfKeysEndByThemselves) {
  using codegen::kernel_key;
  const std::set<std::string> keys = {kernel_key("f", 1, 23),
                                      kernel_key("f", 12, 3),
                                      kernel_key("f", Dims{1}, Dims{}),
                                      kernel_key("f", Dims{}, Dims{1}),
                                      kernel_key("f", -1),
                                      kernel_key("f", 1),
                                      kernel_key("f", std::string("ab"), std::string("c")),
                                      kernel_key("f", std::string("a"), std::string("bc"))};
  EXPECT_EQ(keys.size(), 8u);
}

}  // namespace
}  // namespace tessera::testing
