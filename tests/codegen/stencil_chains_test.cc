// SPDX-License-Identifier: Apache-2.0
// Steps of stencils that run as one kernel, a block of rows at a time, against the evaluator.
#include "tests/codegen/random_case.h"

namespace tessera::testing {
namespace {

/// Rows and columns around an element, of an array that is smaller by what they reach.
Instruction* step_of(Program& p, Random& r, Instruction* x) {
  ir::Builder& b = p.b;
  const std::int64_t reach = 1 + r.below(2);
  const Dims dims{x->shape.dim(0) - 2 * reach, x->shape.dim(1) - 2 * reach};
  Instruction* sum = nullptr;
  for (std::int64_t k = 0, reads = 2 + r.below(3); k < reads; ++k) {
    const std::int64_t row = r.below(2 * reach + 1), column = r.below(2 * reach + 1);
    Instruction* part = b.slice(x, {row, column}, {row + dims[0], column + dims[1]});
    if (r.chance(0.3))
      part = b.binary(Opcode::multiply, part, b.splat(b.scalar(x->shape.dtype, 2), dims));
    sum = sum ? b.binary(r.chance(0.5) ? Opcode::add : Opcode::maximum, sum, part) : part;
  }
  return b.binary(Opcode::subtract, sum, b.splat(b.scalar(x->shape.dtype, 1), dims));
}

TEST(StencilChains, StepsAreOneKernelAndGiveTheSame) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    Random r(seed);
    Program p;
    const Dims dims{900 + r.below(200), 1400 + r.below(100)};
    Instruction* x = p.argument(r.literal(DType::f32, dims));
    const std::int64_t steps = 2 + r.below(3);
    for (std::int64_t k = 0; k < steps; ++k) x = step_of(p, r, x);
    p.check(x, seed, 0);
    EXPECT_EQ(plan_of(p.module).plan.entry.steps.size(), 1u) << "seed " << seed;
  }
}

// What a step leaves behind for others is written once, by whose rows they are.
TEST(StencilChains, ResultsThatLaterStepsRead) {
  for (std::uint64_t seed = 0; seed < 1; ++seed) {
    Random r(100 + seed);
    Program p;
    Instruction* x = p.argument(r.literal(DType::f32, {1100, 1200}));
    Instruction* y = step_of(p, r, x);
    Instruction* z = step_of(p, r, y);
    Instruction* last = p.b.slice(y, {0, 0}, z->shape.dims);
    p.check(p.b.tuple({p.b.binary(Opcode::add, z, last), y}), seed, 0);
  }
}

}  // namespace
}  // namespace tessera::testing
