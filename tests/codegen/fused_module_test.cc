// SPDX-License-Identifier: Apache-2.0
// Programs whose fusions are instructions: whichever values are computed in the loops of their
// users, the program computes what it did, and its text can be read again.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "src/codegen/fusion/fused_module.h"
#include "src/codegen/plan/liveness.h"
#include "src/codegen/plan/plan_builder.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/passes/simplify.h"
#include "tests/codegen/run_module.h"
#include "tests/support/against_evaluator.h"
#include "tests/support/fixtures.h"
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

/// A random program, fused in some way.
struct FusedCase {
  std::unique_ptr<ir::Module> program, fused;
  std::vector<Literal> arguments;
};

FusedCase fused_case(std::uint64_t seed) {
  FusedCase out;
  Dice dice(seed + 1);
  RandomProgramOptions options;
  options.max_ops = 30;
  RandomProgram p = random_program(seed, options);
  ir::expand_custom_calls(p.module.get(), true);
  p.module->num_partitions = 1;
  passes::eliminate_dead(p.module.get());
  passes::ClassesTable table(1);
  const auto facts = passes::analyze_uniformity(*p.module, &table);
  codegen::FusionPlanner planner(*p.module, facts);
  out.fused = codegen::fuse_module(*p.module, facts, planner.plan(random_options(dice)));
  out.program = std::move(p.module);
  out.arguments = std::move(p.arguments);
  return out;
}

TEST(FusedModule, ComputesWhatTheProgramDid) {
  std::size_t fusions = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const FusedCase c = fused_case(seed);
    const std::string text = ir::to_string(*c.fused);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    ir::verify(*c.fused);
    fusions += fusion_count(*c.fused);
    EXPECT_EQ(evaluator::evaluate(*c.fused, c.arguments),
              evaluator::evaluate(*c.program, c.arguments));
    EXPECT_EQ(ir::to_string(*ir::parse_hlo(text)), text);
    if (HasFailure()) break;
  }
  EXPECT_GT(fusions, 300u);
}

std::vector<Literal> run_fused(const ir::Module& fused, const ir::Module& program,
                               const std::vector<Literal>& arguments) {
  codegen::BuiltPlan built = codegen::materialize(codegen::plan_fused_program(fused));
  codegen::plan_memory(&built.plan);
  runtime::finalize(&built.plan);
  return run_plan(program, built.plan, {leaves_of(arguments)})[0];
}

TEST(FusedModule, TextSaysWhatEachLoopComputes) {
  for (std::uint64_t seed = 1000; seed < 1300; ++seed) {
    const FusedCase c = fused_case(seed);
    const std::string text = ir::to_string(*c.fused);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    const auto want = leaves_of(evaluator::evaluate(*c.program, c.arguments));
    EXPECT_EQ(run_fused(*ir::parse_hlo(text), *c.program, c.arguments), want);
    if (HasFailure()) break;
  }
}

std::int64_t peak_of(runtime::Plan plan) { return codegen::settle_memory(&plan); }

/// By key, how often each kernel is run. What kernels read of their operands may be known better of
/// a fused program.
std::map<std::string, int> kernels_of(const codegen::PlannedProgram& planned) {
  std::map<std::string, int> out;
  for (const auto& [kernel, runs] : planned.built.kernels) {
    out[planned.kernels.at(kernel).key] += runs;
  }
  return out;
}

std::string settled(const ir::Module& fused) {
  return runtime::to_string(codegen::materialize(codegen::plan_fused_program(fused)).plan);
}

TEST(FusedModule, SaysWhatIsDecided) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const FusedCase c = fused_case(seed);
    const codegen::UnfusedModule unfused = codegen::unfuse_module(*c.fused);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + ir::to_string(*c.fused) +
                 ir::to_string(*unfused.module));
    EXPECT_EQ(fusion_count(*unfused.module), 0u);
    EXPECT_EQ(evaluator::evaluate(*unfused.module, c.arguments),
              evaluator::evaluate(*c.program, c.arguments));
    passes::ClassesTable table(1);
    const auto facts = passes::analyze_uniformity(*unfused.module, &table);
    const auto again = codegen::fuse_module(*unfused.module, facts, unfused.plan(facts));
    EXPECT_EQ(fusion_count(*again), fusion_count(*c.fused));
    EXPECT_EQ(settled(*again), settled(*c.fused));
    if (HasFailure()) break;
  }
}

TEST(FusedModule, IsThatOfThePlan) {
  for (std::uint64_t seed = 2000; seed < 2200; ++seed) {
    const FusedCase c = fused_case(seed);
    const codegen::PlannedProgram planned = codegen::plan_program(*c.program);
    const auto fused = planned.fused();
    const std::string text = ir::to_string(*fused);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    const codegen::PlannedProgram again =
        codegen::plan_fused_program(*fused, planned.rematerializes);
    EXPECT_EQ(kernels_of(again), kernels_of(planned));
    EXPECT_EQ(peak_of(again.built.plan), peak_of(planned.built.plan));
    // The text alone gives it again.
    EXPECT_EQ(settled(*ir::parse_hlo(text)), settled(*fused));
    if (HasFailure()) break;
  }
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
  const auto fused = codegen::plan_program(*module).fused();
  const ir::Instruction& dot = *fused->entry()->root();
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
