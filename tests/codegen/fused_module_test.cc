// SPDX-License-Identifier: Apache-2.0
// Programs whose fusions are instructions: whichever values are computed in the loops of their
// users, the program computes what it did, and its text can be read again.
#include <gtest/gtest.h>

#include "src/codegen/fused_module.h"
#include "src/codegen/plan_builder.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/passes/simplify.h"
#include "tests/support/random_program.h"

namespace tessera::testing {
namespace {

using codegen::FusionOptions;

std::size_t fusion_count(const ir::Module& module) {
  std::size_t n = 0;
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) n += i->is(ir::Opcode::fusion);
  }
  return n;
}

FusionOptions random_options(Dice& dice) {
  FusionOptions o;
  o.views = dice.chance(0.7);
  o.recompute = dice.chance(0.7);
  o.recompute_expensive = dice.chance(0.5);
  o.recompute_long = dice.chance(0.5);
  o.recompute_widely = dice.chance(0.5);
  o.parts = dice.chance(0.7);
  o.operand_transposes = dice.chance(0.7);
  return o;
}

TEST(FusedModule, ComputesWhatTheProgramDid) {
  std::size_t fusions = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed + 1);
    RandomProgramOptions options;
    options.max_ops = 30;
    RandomProgram p = random_program(seed, options);
    ir::expand_custom_calls(p.module.get(), true);
    p.module->num_partitions = 1;
    passes::eliminate_dead(p.module.get());
    passes::ClassesTable table(1);
    const auto facts = passes::analyze_uniformity(*p.module, &table);
    const codegen::FusedModule fused = codegen::fuse_module(*p.module, facts, random_options(dice));
    ir::verify(*fused.module);
    fusions += fusion_count(*fused.module);
    EXPECT_EQ(evaluator::evaluate(*fused.module, p.arguments),
              evaluator::evaluate(*p.module, p.arguments))
        << ir::to_string(*fused.module);
    const std::string text = ir::to_string(*fused.module);
    EXPECT_EQ(ir::to_string(*ir::parse_hlo(text)), text);
    ASSERT_EQ(fused.facts.leaves.size(), fused.module->entry()->instructions().size());
    if (HasFailure()) break;
  }
  EXPECT_GT(fusions, 300u);
}

/// What is left in the entry of the plan that was chosen, and in each body.
TEST(FusedModule, TransposesThatDotsTakeAreInBodies) {
  const auto module = ir::parse_hlo(R"(
ENTRY e {
  a = f32[8,4,16] parameter(0)
  b = f32[8,4,16] parameter(1)
  s = f32[8,4,16] add(a, b)
  ROOT d = f32[4,8,8] dot(s, a), lhs_batch_dims={1}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
}
)");
  const codegen::PlannedProgram planned = codegen::plan_program(*module);
  const ir::Instruction& dot = *planned.fused->entry()->root();
  ASSERT_TRUE(dot.is(ir::Opcode::dot));
  EXPECT_EQ(dot.get<ir::DotAttrs>().lhs_batch, Dims{0});
  EXPECT_EQ(dot.get<ir::DotAttrs>().rhs_batch, Dims{1});
  const ir::Instruction& fusion = *dot.operand(0);
  ASSERT_TRUE(fusion.is(ir::Opcode::fusion));
  const ir::Instruction& transpose = *fusion.called(0)->root();
  EXPECT_TRUE(transpose.is(ir::Opcode::transpose));
  EXPECT_TRUE(transpose.operand(0)->is(ir::Opcode::add));
}

}  // namespace
}  // namespace tessera::testing
