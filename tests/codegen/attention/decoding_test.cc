// SPDX-License-Identifier: Apache-2.0
// A few rows by large matrices of a batch, as one step of decoding multiplies queries by caches of
// keys and values: these are read where they stand.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "src/base/arrays/literal_util.h"
#include "src/codegen/kernels/products/narrow/narrow_instructions.h"
#include "tests/codegen/attention/attention_case.h"

namespace tessera::testing {
namespace {

/// The largest array that a step makes.
std::int64_t largest_made(const codegen::BuiltPlan& built) {
  std::int64_t out = 0;
  for (const runtime::Step& step : built.plan.entry.steps) {
    const auto* task = std::get_if<runtime::KernelTask>(&step.what);
    if (task == nullptr) continue;
    for (const runtime::SlotId s : task->outputs) {
      out = std::max(out, built.plan.slots[std::size_t(s)].bytes);
    }
  }
  return out;
}

TEST(Decoding, MatricesThatStandInTurns) {
  const std::vector<DType> types = {DType::f32, DType::f64, DType::bf16,
                                    DType::f16, DType::c64, DType::s32};
  for (std::uint64_t seed = 0; seed < 36; ++seed) {
    Random r(seed);
    const DType t = types[seed % types.size()];
    Program p;
    // [batch, length, heads, width] by [batch, heads, rows, width or length].
    const std::int64_t batch = 1 + r.below(3), length = 600 + r.below(100), heads = 2 + r.below(4);
    const std::int64_t width = 16 + r.below(40), rows = 1 + r.below(12);
    Instruction* cache = p.argument(r.literal(t, {batch, length, heads, width}));
    const bool keys = r.chance(0.5), first = r.chance(0.4);
    Instruction* few = p.argument(r.literal(t, {batch, heads, rows, keys ? width : length}));
    ir::DotAttrs attrs;
    attrs.lhs_batch = {0, 1};
    attrs.lhs_contracting = {3};
    attrs.rhs_batch = {0, 2};
    attrs.rhs_contracting = {keys ? 3 : 1};
    if (first) {
      std::swap(attrs.lhs_batch, attrs.rhs_batch);
      std::swap(attrs.lhs_contracting, attrs.rhs_contracting);
    }
    Instruction* root = first ? p.b.dot(cache, few, attrs) : p.b.dot(few, cache, attrs);
    p.check(root, seed, byte_size(t) == 2 ? 20 : 100);
    // Integers are multiplied along rows of the right side.
    if (is_floating(t)) {
      EXPECT_EQ(largest_made(plan_of(p.module)), root->shape.byte_count())
          << ir::to_string(p.module);
    }
  }
}

// One step of attention with grouped queries, of so many of the positions.
TEST(Decoding, AttentionReadsTheCacheOnce) {
  const std::vector<DType> types = {DType::f32, DType::f64, DType::bf16, DType::f16};
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    Random r(seed);
    const DType t = types[seed % types.size()];
    Program p;
    ir::Builder& b = p.b;
    const std::int64_t batch = 4, length = 2048 + r.below(200), heads = 8;
    const std::int64_t width = 16 + r.below(20), rows = 2 + r.below(4);
    const bool special = r.chance(0.3);
    const bool in_turns = r.chance(0.5);
    const Dims cache =
        in_turns ? Dims{batch, length, heads, width} : Dims{batch, heads, length, width};
    Instruction* q = p.argument(r.literal(t, {batch, heads, rows, width}));
    Instruction* k = p.argument(r.literal(t, cache, special));
    Instruction* v = p.argument(r.literal(t, cache, special));
    Instruction* position = p.argument(Literal::scalar(DType::s32, std::int32_t(r.below(length))));
    ir::DotAttrs attrs;
    attrs.lhs_batch = {0, 1};
    attrs.lhs_contracting = {3};
    attrs.rhs_batch = {0, in_turns ? 2 : 1};
    attrs.rhs_contracting = {3};
    Instruction* s = b.dot(q, k, attrs);
    const Dims scores = s->shape.dims;
    Instruction* at = b.iota(Shape(DType::s32, scores), 3);
    Instruction* shown = b.compare(ir::Direction::le, at, b.broadcast(position, scores, {}));
    Instruction* x = b.select(shown, s, b.splat(b.scalar(t, -1e9), scores));
    const auto over = [&](Instruction* row) { return b.broadcast(row, scores, {0, 1, 2}); };
    Instruction* most = b.reduce(x, b.scalar(t, -INFINITY), {3},
                                 ir::scalar_computation(&p.module, Opcode::maximum, t));
    Instruction* e = b.unary(Opcode::exponential, b.binary(Opcode::subtract, x, over(most)));
    Instruction* sum =
        b.reduce(e, b.scalar(t, 0), {3}, ir::scalar_computation(&p.module, Opcode::add, t));
    attrs.rhs_contracting = {in_turns ? 1 : 2};
    Instruction* root = b.dot(b.binary(Opcode::divide, e, over(sum)), v, attrs);
    p.check(root, seed, byte_size(t) == 2 ? 20 : 400);
    const codegen::BuiltPlan built = plan_of(p.module);
    EXPECT_LT(largest_made(built), k->shape.byte_count()) << ir::to_string(p.module);
    // bf16 without instructions for it goes by way of f32, whole.
    if (t == DType::bf16 && codegen::bf16_instructions() == codegen::NarrowInstructions::none) {
      continue;
    }
    // Workers share it out by matrices.
    const auto& steps = built.plan.entry.steps;
    EXPECT_TRUE(std::any_of(steps.begin(), steps.end(), [&](const runtime::Step& step) {
      const auto* task = std::get_if<runtime::KernelTask>(&step.what);
      return task != nullptr && task->inputs.size() > 3 && task->units >= 8 &&
             (batch * heads) % task->units == 0;
    })) << ir::to_string(p.module);
  }
}

}  // namespace
}  // namespace tessera::testing
