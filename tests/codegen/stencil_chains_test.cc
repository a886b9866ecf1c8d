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

// What is made later has the memory of what was read before, though its rows are longer.
TEST(StencilChains, RowsOfOtherTypesHaveTheSameMemory) {
  Random r(50);
  Program p;
  Instruction* x = p.argument(r.literal(DType::f32, {1000, 1200}));
  for (const DType type : {DType::f32, DType::f64, DType::f64, DType::f32, DType::f32}) {
    x = p.b.convert(step_of(p, r, x), type);
  }
  p.check(x, 50, 1);
  EXPECT_EQ(plan_of(p.module).plan.entry.steps.size(), 1u);
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

/// `x` moved along a dim by a few rows or columns, with padding, rows of the other end or copies of
/// the edge where it has none.
Instruction* shifted(Program& p, Random& r, Instruction* x) {
  ir::Builder& b = p.b;
  const auto rank = std::size_t(x->shape.rank());
  const auto d = std::size_t(r.below(std::int64_t(rank)));
  const std::int64_t n = x->shape.dims[d], by = 1 + r.below(3);
  const auto cut = [&](std::int64_t begin, std::int64_t end) {
    Dims starts(rank, 0), limits = x->shape.dims;
    starts[d] = begin;
    limits[d] = end;
    return b.slice(x, starts, limits);
  };
  const bool up = r.chance(0.5);
  switch (r.below(3)) {
    case 0: {
      std::vector<ir::PadDim> dims(rank);
      dims[d] = up ? ir::PadDim{by, -by, 0} : ir::PadDim{-by, by, 0};
      return b.pad(x, b.scalar(x->shape.dtype, 3), dims);
    }
    case 1:
      return b.concatenate({cut(up ? n - by : by, n), cut(0, up ? n - by : by)}, std::int64_t(d));
    default:
      return up ? b.concatenate({cut(0, 1), cut(0, n - 1)}, std::int64_t(d))
                : b.concatenate({cut(1, n), cut(n - 1, n)}, std::int64_t(d));
  }
}

TEST(StencilChains, ShiftsAreReadWhereArraysStand) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    Random r(200 + seed);
    Program p;
    constexpr DType kTypes[] = {DType::f32, DType::f32, DType::f64, DType::s32, DType::bf16};
    const DType type = kTypes[r.below(5)];
    const Dims dims = r.chance(0.3) ? Dims{17 + r.below(9), 20 + r.below(30), 64 + r.below(70)}
                                    : Dims{90 + r.below(90), 64 + r.below(300)};
    Instruction* x = p.argument(r.literal(type, dims));
    Instruction* sum = x;
    for (std::int64_t k = 0, reads = 1 + r.below(4); k < reads; ++k) {
      sum = p.b.binary(r.chance(0.5) ? Opcode::add : Opcode::maximum, sum, shifted(p, r, x));
    }
    if (r.chance(0.5)) sum = p.b.binary(Opcode::subtract, shifted(p, r, sum), sum);
    p.check(sum, seed, 0);
  }
}

// Nothing says how long rows are but that shifts are by so many of them.
TEST(StencilChains, ShiftsOfWholeRows) {
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    Random r(300 + seed);
    Program p;
    Instruction* x = p.argument(r.literal(DType::f32, {1000 + r.below(90), 1300}));
    for (int k = 0; k < 3; ++k) {
      const Dims dims{x->shape.dim(0) - 2, 1300};
      Instruction* sum = p.b.slice(x, {0, 0}, dims);
      sum = p.b.binary(Opcode::add, sum, p.b.slice(x, {2, 0}, {dims[0] + 2, 1300}));
      x = p.b.binary(Opcode::maximum, sum, p.b.slice(x, {1, 0}, {dims[0] + 1, 1300}));
    }
    p.check(x, seed, 0);
    EXPECT_EQ(plan_of(p.module).plan.entry.steps.size(), 1u) << "seed " << seed;
  }
}

// Rows that are read as one stretch of elements count like others.
TEST(StencilChains, WholeRowsAndColumnsOfWhatIsMade) {
  Random r(400);
  Program p;
  Instruction* x = p.argument(r.literal(DType::f32, {1100, 1200}));
  Instruction* y = step_of(p, r, x);
  const std::int64_t rows = y->shape.dim(0) - 2, columns = y->shape.dim(1);
  Instruction* sum = p.b.slice(y, {0, 0}, {rows, columns});
  sum = p.b.binary(Opcode::add, sum, p.b.slice(y, {2, 0}, {rows + 2, columns}));
  Instruction* middle = p.b.slice(y, {1, 0}, {rows + 1, columns});
  p.check(p.b.binary(Opcode::add, sum,
                     p.b.pad(middle, p.b.scalar(DType::f32, 0), {{0, 0, 0}, {1, -1, 0}})),
          400, 0);
}

}  // namespace
}  // namespace tessera::testing
