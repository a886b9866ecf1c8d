// SPDX-License-Identifier: Apache-2.0
// remat and custom-derivative become what they run, with the same results.
#include <gtest/gtest.h>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/passes/control/expand_scans.h"
#include "src/passes/eliminate_common.h"
#include "src/passes/expand_derivative_ops.h"
#include "src/passes/simplify.h"
#include "tests/support/against_evaluator.h"
#include "tests/support/random_program.h"

namespace tessera::passes::derivative_ops {
namespace {

using ir::Instruction;
using ir::Opcode;

std::int64_t count(const ir::Module& module, Opcode op) {
  std::int64_t out = 0;
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) out += i->is(op) ? 1 : 0;
  }
  return out;
}

/// Expanded, with the same results; no such op is left.
std::unique_ptr<ir::Module> expanded(const std::string& text) {
  auto module = ir::parse_hlo(text);
  ir::verify(*module);
  testing::Dice dice(1);
  const std::int64_t ops =
      count(*module, Opcode::remat) + count(*module, Opcode::custom_derivative);
  EXPECT_EQ(std::int64_t(testing::keeps_results(
                module.get(), testing::random_arguments(*module, dice), expand_derivative_ops)),
            ops);
  EXPECT_EQ(count(*module, Opcode::remat) + count(*module, Opcode::custom_derivative), 0);
  return module;
}

std::string remat(const std::string& operands, const std::string& flags) {
  return "custom-call(" + operands + "), custom_call_target=\"tessera.Remat\", " + flags +
         "called_computations={body}";
}

std::string program(const std::string& rest) {
  return R"(HloModule m
body { x = f32[3] parameter(0)
  w = f32[3] parameter(1)
  y = f32[3] multiply(x, w)
  s = f32[3] add(y, x)
  ROOT t = (f32[3], f32[3]) tuple(y, s) }
ENTRY e { x = f32[3] parameter(0)
  w = f32[3] parameter(1)
)" + rest +
         " }";
}

/// The same twice: as it is computed first, and as it is computed again.
std::string twice(const std::string& flags) {
  return program("  a = (f32[3], f32[3]) " + remat("x, w", "") + "\n  b = (f32[3], f32[3]) " +
                 remat("x, w", flags) +
                 "\n  p = f32[3] get-tuple-element(a), index=0"
                 "\n  q = f32[3] get-tuple-element(b), index=0"
                 "\n  ROOT r = f32[3] add(p, q)");
}

TEST(ExpandDerivativeOps, WhatIsComputedAgainIsNotJoined) {
  const std::string again = "differentiated=true, ";
  for (const auto& [flags, barriers] : std::vector<std::pair<std::string, std::int64_t>>{
           {"", 0}, {again, 1}, {again + "prevent_cse=false, ", 0}, {"prevent_cse=true, ", 0}}) {
    const auto module = expanded(twice(flags));
    EXPECT_EQ(count(*module, Opcode::opt_barrier), barriers);
    eliminate_common(module.get());
    eliminate_dead(module.get());
    EXPECT_EQ(count(*module, Opcode::multiply), 1 + barriers) << ir::to_string(*module);
  }
}

TEST(ExpandDerivativeOps, OneOperandNeedsNoTuple) {
  const auto module = expanded(R"(HloModule m
body { x = f32[3] parameter(0)
  ROOT y = f32[3] sine(x) }
ENTRY e { x = f32[3] parameter(0)
  ROOT r = f32[3] custom-call(x), custom_call_target="tessera.Remat", differentiated=true,
    called_computations={body} })");
  EXPECT_EQ(ir::to_string(*module),
            R"(HloModule m, entry_computation_layout={(f32[3]{0})->f32[3]{0}}

ENTRY e {
  x = f32[3]{0} parameter(0)
  opt-barrier = f32[3]{0} opt-barrier(x)
  ROOT y = f32[3]{0} sine(opt-barrier)
}
)");
}

TEST(ExpandDerivativeOps, OrderAndShardingsStay) {
  const auto module = expanded(program(
      "  z = f32[3] cosine(w)\n  a = (f32[3], f32[3]) custom-call(x, w), "
      "custom_call_target=\"tessera.Remat\", called_computations={body}, "
      "sharding={{devices=[3]<=[3]}, {replicated}}, control-predecessors={z}\n"
      "  p = f32[3] get-tuple-element(a), index=1\n  ROOT r = (f32[3], f32[3]) tuple(p, z)"));
  const Instruction* barrier = nullptr;
  const Instruction* stated = nullptr;
  for (const auto& i : module->entry()->instructions()) {
    if (i->is(Opcode::opt_barrier)) barrier = i.get();
    if (i->is(Opcode::tuple) && i->has_sharding()) stated = i.get();
  }
  ASSERT_NE(barrier, nullptr);
  ASSERT_EQ(barrier->control_predecessors().size(), 1u);
  EXPECT_EQ(barrier->control_predecessors()[0]->name, "z");
  ASSERT_NE(stated, nullptr);
  ASSERT_EQ(stated->sharding.size(), 2u);
  EXPECT_EQ(stated->sharding[0].shards(0), 3);
}

TEST(ExpandDerivativeOps, TheRuleOfADerivativeGoes) {
  const auto module = expanded(R"(HloModule m
primal { x = f32[3] parameter(0)
  ROOT y = f32[3] sine(x) }
forward { x = f32[3] parameter(0)
  y = f32[3] sine(x)
  ROOT t = (f32[3], f32[3]) tuple(y, x) }
backward { x = f32[3] parameter(0)
  ct = f32[3] parameter(1)
  d = f32[3] multiply(x, ct)
  ROOT t = (f32[3]) tuple(d) }
ENTRY e { x = f32[3] parameter(0)
  a = f32[3] custom-call(x), custom_call_target="tessera.CustomDerivative", rule=vjp,
    num_residuals=1, called_computations={primal, forward, backward}
  b = f32[3] custom-call(a), custom_call_target="tessera.CustomDerivative", rule=vjp,
    num_residuals=1, called_computations={primal, forward, backward}
  ROOT r = f32[3] negate(b) })");
  EXPECT_EQ(module->computations().size(), 1u);
  EXPECT_EQ(count(*module, Opcode::sine), 2);
  EXPECT_EQ(count(*module, Opcode::multiply), 0);
}

TEST(ExpandDerivativeOps, WithinScansAndAround) {
  const auto module = expanded(R"(HloModule m
inner { c = f32[3] parameter(0)
  k = f32[3] parameter(1)
  d = f32[3] multiply(c, k)
  ROOT t = (f32[3]) tuple(d) }
step { x = f32[3] parameter(0)
  c = f32[3] parameter(1)
  a = (f32[3]) custom-call(c, x), custom_call_target="tessera.Remat", differentiated=true,
    called_computations={inner}
  d = f32[3] get-tuple-element(a), index=0
  ROOT t = (f32[3], f32[3]) tuple(c, d) }
outer { xs = f32[4,3] parameter(0)
  c = f32[3] parameter(1)
  ROOT s = (f32[4,3], f32[3]) scan(xs, c), dimensions={0}, num_carries=1, to_apply=step }
ENTRY e { xs = f32[4,3] parameter(0)
  c = f32[3] parameter(1)
  ROOT r = (f32[4,3], f32[3]) custom-call(xs, c), custom_call_target="tessera.CustomDerivative",
    called_computations={outer} })");
  EXPECT_EQ(count(*module, Opcode::scan), 1);
  EXPECT_EQ(count(*module, Opcode::opt_barrier), 1);
  EXPECT_EQ(expand_scans(module.get()), 1u);
  EXPECT_EQ(count(*module, Opcode::while_), 1);
  ir::verify(*module);
}

}  // namespace
}  // namespace tessera::passes::derivative_ops
