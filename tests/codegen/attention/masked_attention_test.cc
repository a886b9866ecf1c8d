// SPDX-License-Identifier: Apache-2.0
// Masks that hide columns from whole blocks of rows: what isn't computed makes no difference.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "src/codegen/kernels/chains/column_ranges.h"
#include "src/passes/products/fold_transposes.h"
#include "tests/codegen/attention/attention_case.h"

namespace tessera::testing {
namespace {

using codegen::ColumnRange;
using Shows = std::function<bool(std::int64_t row, std::int64_t column)>;

struct MaskedCase {
  Attention a;
  Instruction *q, *k, *v, *x;

  /// `inverted`: the mask is true where it hides.
  MaskedCase(Random* r, DType t, const Dims& scores, const Shows& shows, double hidden,
             bool inverted)
      : a(t, scores) {
    ir::Builder& b = a.p.b;
    const std::int64_t batch = scores[0], queries = scores[1], keys = scores[2];
    const std::int64_t width = 2 + r->below(9);
    q = a.p.argument(r->literal(t, {batch, queries, width}));
    k = a.p.argument(r->literal(t, {batch, keys, width}));
    v = a.p.argument(r->literal(t, {batch, keys, width}));
    Literal mask(Shape(DType::pred, {queries, keys}));
    std::byte* to = mask.mutable_bytes();
    for (std::int64_t i = 0; i < queries; ++i) {
      for (std::int64_t j = 0; j < keys; ++j) *to++ = std::byte(shows(i, j) != inverted);
    }
    Instruction* m = b.broadcast(a.p.argument(std::move(mask)), scores, {1, 2});
    x = b.binary(Opcode::multiply, a.product(q, k, 2, 2), a.splat(0.3));
    x = inverted ? b.select(m, a.splat(hidden), x) : b.select(m, x, a.splat(hidden));
  }
};

/// Bands, prefixes, and rows from which everything is hidden.
Shows random_mask(Random* r, std::int64_t queries, std::int64_t keys) {
  const std::int64_t shift = r->below(60) - 30, window = 20 + r->below(200);
  const std::int64_t shown = 1 + r->below(keys), bare = r->below(queries);
  switch (r->below(5)) {
    case 0:
      return [=](std::int64_t i, std::int64_t j) { return j <= i + shift; };
    case 1:
      return [=](std::int64_t i, std::int64_t j) { return j <= i + shift && j > i - window; };
    case 2:
      return [=](std::int64_t, std::int64_t j) { return j < shown; };
    case 3:
      return [=](std::int64_t i, std::int64_t j) { return j >= i + shift; };
    default:
      return [=](std::int64_t i, std::int64_t j) { return i != bare && j <= i; };
  }
}

constexpr double kHidden[] = {-1e9, -3e38, -1e4};

TEST(MaskedAttention, IsRight) {
  const std::vector<DType> types = {DType::f32, DType::f64, DType::f32};
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Random r(seed);
    const Dims scores = {1 + r.below(3), 380 + r.below(100), 700 + r.below(200)};
    MaskedCase c(&r, types[seed % 3], scores, random_mask(&r, scores[1], scores[2]),
                 kHidden[r.below(3)], r.chance(0.3));
    c.a.p.check(c.a.product(c.a.softmax(c.x), c.v, 2, 1), seed, 100);
    EXPECT_TRUE(goes_by_blocks(c.a.p.module, scores[0] * scores[1])) << ir::to_string(c.a.p.module);
  }
}

/// Of few rows, too: blocks are parts of matrices, and so all but the last have hidden columns.
TEST(MaskedAttention, BlocksAreQuartersOfShortMatrices) {
  Random r(5);
  const Dims scores = {16, 256, 256};
  MaskedCase c(
      &r, DType::f32, scores, [](std::int64_t i, std::int64_t j) { return j <= i; }, -1e9, false);
  c.a.p.check(c.a.product(c.a.softmax(c.x), c.v, 2, 1), 5, 100);
  const codegen::BuiltPlan built = plan_of(c.a.p.module);
  const auto& steps = built.plan.entry.steps;
  EXPECT_TRUE(std::any_of(steps.begin(), steps.end(), [](const runtime::Step& step) {
    const auto* task = std::get_if<runtime::KernelTask>(&step.what);
    return task != nullptr && task->inputs.size() > 3 && task->units == 16 * 4;
  })) << ir::to_string(c.a.p.module);
}

TEST(MaskedAttention, ItsGradientsAreRight) {
  const std::vector<DType> types = {DType::f32, DType::f64, DType::bf16, DType::f16};
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Random r(seed);
    const Dims scores = {2, 640 + r.below(40), 513 + r.below(60)};
    const DType t = types[seed % 4];
    MaskedCase c(&r, t, scores, random_mask(&r, scores[1], scores[2]), kHidden[r.below(3)],
                 r.chance(0.3));
    c.a.p.entry->set_root(gradients(&c.a, &r, c.q, c.k, c.v, c.x));
    passes::swap_transposed_dots(&c.a.p.module);
    c.a.p.check(c.a.p.entry->root(), seed, byte_size(t) == 2 ? 20 : 400);
  }
}

// Zero times infinity is NaN, whether a mask hides it or not; what a row has hidden in full is
// weighed equally.
TEST(MaskedAttention, HiddenNumbersThatAreNotFiniteCount) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double special : {infinity, -infinity, std::nan(""), 3e38}) {
    for (const bool in_keys : {false, true}) {
      Random r(7);
      const Dims scores = {2, 384, 768};
      MaskedCase c(
          &r, DType::f32, scores, [](auto i, auto j) { return j <= i; }, -1e9, false);
      Literal& numbers = c.a.p.arguments[in_keys ? 1 : 2];
      const auto row = std::size_t(numbers.element_count() / 2 - 1);
      numbers.mutable_data<float>()[row] = float(special);
      c.a.p.check(c.a.product(c.a.softmax(c.x), c.v, 2, 1), 7, 100);
    }
  }
}

// Scores that something else reads are wanted where they are hidden, too.
TEST(MaskedAttention, ScoresThatAreResults) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Random r(seed);
    const Dims scores = {2, 400, 800};
    MaskedCase c(
        &r, DType::f32, scores, [](auto i, auto j) { return j <= i; }, -1e9, false);
    Instruction* out = c.a.product(c.a.softmax(c.x), c.v, 2, 1);
    Instruction* more = seed % 2 == 0 ? c.x->operand(1) : c.x;
    Instruction* raw = more->is(Opcode::multiply) ? more->operand(0) : more;
    c.a.p.check(c.a.p.b.tuple({out, raw}), seed, 100);
  }
}

TEST(MaskedAttention, MasksOfIotas) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Random r(seed);
    const Dims scores = {1 + r.below(2), 390 + r.below(50), 770 + r.below(50)};
    Attention a(DType::f32, scores);
    ir::Builder& b = a.p.b;
    Instruction* q = a.p.argument(r.literal(a.t, {scores[0], scores[1], 6}));
    Instruction* k = a.p.argument(r.literal(a.t, {scores[0], scores[2], 6}));
    Instruction* v = a.p.argument(r.literal(a.t, {scores[0], scores[2], 5}));
    const Shape index(DType::s32, scores);
    Instruction* row = b.iota(index, 1);
    Instruction* column = b.iota(index, 2);
    Instruction* shift = b.splat(b.scalar(DType::s32, double(r.below(90) - 40)), scores);
    Instruction* mask = b.compare(ir::Direction::ge, b.binary(Opcode::add, row, shift), column);
    if (r.chance(0.5)) {
      Instruction* window = b.splat(b.scalar(DType::s32, double(30 + r.below(90))), scores);
      mask =
          b.binary(Opcode::and_, mask,
                   b.compare(ir::Direction::lt, b.binary(Opcode::subtract, row, column), window));
    }
    Instruction* x = b.select(mask, a.product(q, k, 2, 2), a.splat(-1e9));
    a.p.check(a.product(a.softmax(x), v, 2, 1), seed, 100);
    EXPECT_TRUE(goes_by_blocks(a.p.module, scores[0] * scores[1])) << ir::to_string(a.p.module);
  }
}

/// Numbers by index, added to zeros.
Instruction* added_by_index(Attention* a, Instruction* updates, Instruction* indices,
                            std::int64_t entries) {
  ir::ScatterAttrs attrs;
  attrs.update_window_dims = {0};
  attrs.inserted_window_dims = attrs.scatter_dims_to_operand_dims = {1};
  attrs.index_vector_dim = 2;
  ir::Builder& b = a->p.b;
  Instruction* zeros = b.splat(b.scalar(a->t, 0), {a->scores[0], entries});
  return b.emit(Opcode::scatter, {zeros, indices, updates}, attrs,
                {ir::scalar_computation(&a->p.module, Opcode::add, a->t)});
}

// Neither scores nor what becomes of them are held for a table's gradient; indices outside of it
// count for nothing.
TEST(MaskedAttention, GradientsOfTables) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Random r(seed);
    const Dims scores = {2 + r.below(2), 128 * 5 + r.below(20), 513 + r.below(60)};
    Attention a(DType::f32, scores);
    Instruction* q = a.p.argument(r.literal(a.t, {scores[0], scores[1], 5}));
    Instruction* k = a.p.argument(r.literal(a.t, {scores[0], scores[2], 5}));
    const std::int64_t entries = 1 + r.below(40);
    Literal at(Shape(DType::s32, {scores[1], scores[2], 1}));
    for (std::int32_t& index : at.mutable_data<std::int32_t>()) {
      index = std::int32_t(r.below(entries + 4)) - 2;
    }
    Instruction* indices = a.p.argument(std::move(at));
    Instruction* p = a.softmax(a.product(q, k, 2, 2));
    // Of products alone there are no sums over rows: then the tables are made from all at once.
    Instruction* x = r.chance(0.7) ? p : a.p.b.unary(Opcode::tanh, a.product(q, k, 2, 2));
    a.p.check(added_by_index(&a, x, indices, entries), seed, 1000);
    if (x == p) {
      const std::int64_t given = given_to(a.p, *a.p.entry->root());
      EXPECT_LT(peak_of_module(a.p.module), given + Shape(a.t, scores).byte_count() / 2) << seed;
    }
  }
}

TEST(HiddenColumns, TheLeastRange) {
  constexpr std::int64_t kRows = 3, kColumns = 70;
  for (const bool hides : {false, true}) {
    std::vector<std::byte> mask(std::size_t(kRows * kColumns), std::byte(hides));
    const auto show = [&](std::int64_t row, std::int64_t column) {
      mask[std::size_t(row * kColumns + column)] = std::byte(!hides);
    };
    const auto range = [&] { return codegen::shown_columns(mask.data(), kRows, kColumns, hides); };
    // Nothing is shown: of some columns it is computed anyway.
    EXPECT_LT(range().first, range().last);
    show(1, 35);
    EXPECT_EQ(range().first, 32);
    EXPECT_EQ(range().last, 48);
    show(2, 15);
    EXPECT_EQ(range().first, 0);
    EXPECT_EQ(range().last, 48);
    show(0, 69);
    EXPECT_EQ(range().first, 0);
    EXPECT_EQ(range().last, 70);
  }
}

TEST(HiddenColumns, ModerateNumbers) {
  std::vector<float> numbers(10000, 1e18f);
  const auto moderate = [&] {
    return codegen::moderate(DType::f32, reinterpret_cast<const std::byte*>(numbers.data()),
                             std::int64_t(numbers.size()));
  };
  EXPECT_TRUE(moderate());
  for (const float large : {1e19f, -3e38f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    numbers[9999] = large;
    EXPECT_FALSE(moderate()) << large;
  }
}

}  // namespace
}  // namespace tessera::testing
