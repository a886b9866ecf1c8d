// SPDX-License-Identifier: Apache-2.0
// Chains of steps that are run by blocks of rows: attention and the like, against the evaluator.
#include "src/base/threads/task_pool.h"
#include "src/codegen/kernels/code/kernel_compiler.h"
#include "src/codegen/kernels/products/packed_gemm.h"
#include "src/passes/products/fold_transposes.h"
#include "src/passes/reductions/split_reductions.h"
#include "tests/codegen/attention/attention_case.h"

namespace tessera::testing {
namespace {

std::size_t steps_of(const codegen::BuiltPlan& built) { return built.plan.entry.steps.size(); }

// Scores are not held: neither with masks of any kind, nor where nothing is finite.
TEST(TiledChains, AttentionIsRightAndHoldsNoScores) {
  const std::vector<DType> types = {DType::f32, DType::f32, DType::f64};
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Random r(seed);
    Attention a(r.pick(types), {1 + r.below(3), 320 + r.below(130), 512 + r.below(300)});
    ir::Builder& b = a.p.b;
    const std::int64_t batch = a.scores[0], queries = a.scores[1], keys = a.scores[2];
    const std::int64_t width = 1 + r.below(12), out_width = 1 + r.below(9);
    const bool special = r.chance(0.4);
    Instruction* q = a.p.argument(r.literal(a.t, {batch, queries, width}, special));
    Instruction* k = a.p.argument(r.literal(a.t, {batch, keys, width}, special));
    Instruction* v = a.p.argument(r.literal(a.t, {batch, keys, out_width}));
    Instruction* x = a.product(q, k, 2, 2);
    if (r.chance(0.7)) x = b.binary(Opcode::multiply, x, a.splat(0.3));
    if (r.chance(0.5)) {
      Literal mask = r.literal(DType::pred, {queries, keys});
      Instruction* m = b.broadcast(a.p.argument(std::move(mask)), a.scores, {1, 2});
      x = b.select(m, x, a.splat(r.chance(0.5) ? -1e9 : -INFINITY));
    }
    if (r.chance(0.5)) {
      Instruction* bias = a.p.argument(r.literal(a.t, {batch, keys}));
      x = b.binary(Opcode::add, x, b.broadcast(bias, a.scores, {0, 2}));
    }
    Instruction* root = a.product(a.softmax(x), v, 2, 1);
    a.p.check(root, seed, 100);
    std::int64_t given = Shape(a.t, {batch, queries, out_width}).byte_count();
    for (const Literal& l : a.p.arguments) given += std::int64_t(l.byte_count());
    // Besides arguments and result: a number for each row or two, and the mask as it stands.
    const std::int64_t rows = 4 * batch * queries * 8;
    EXPECT_LE(peak_of_module(a.p.module), given + rows) << ir::to_string(a.p.module);
  }
}

/// The gradients of attention on random arguments, masked or not, with dots in the order in which
/// they are compiled.
Instruction* masked_gradients(Attention* a, Random* r, std::int64_t width, double masked) {
  const std::int64_t batch = a->scores[0], queries = a->scores[1], keys = a->scores[2];
  Instruction* q = a->p.argument(r->literal(a->t, {batch, queries, width}));
  Instruction* k = a->p.argument(r->literal(a->t, {batch, keys, width}));
  Instruction* v = a->p.argument(r->literal(a->t, {batch, keys, width}));
  Instruction* x = a->product(q, k, 2, 2);
  if (r->chance(0.5)) {
    Instruction* mask = a->p.argument(r->literal(DType::pred, {queries, keys}));
    x = a->p.b.select(a->p.b.broadcast(mask, a->scores, {1, 2}), x, a->splat(masked));
  }
  a->p.entry->set_root(gradients(a, r, q, k, v, x));
  passes::swap_transposed_dots(&a->p.module);
  return a->p.entry->root();
}

// Gradients of keys and values are sums over the rows, which are added up as these are made: no
// scores are held, however few matrices there are.
TEST(TiledChains, GradientsOfAttentionHoldNoScores) {
  const std::vector<DType> types = {DType::f32, DType::f64, DType::bf16, DType::f16};
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    Random r(seed);
    const std::int64_t batch = 1 + r.below(3), width = 1 + r.below(6);
    Attention a(types[seed % types.size()],
                {batch, 128 * (8 / batch + 1) + r.below(40), 513 + r.below(60)});
    const std::int64_t queries = a.scores[1], keys = a.scores[2];
    Instruction* root = masked_gradients(&a, &r, width, -1e4);
    a.p.check(root, seed, byte_size(a.t) == 2 ? 20 : 200);
    // What is summed up by parts, numbers for each row, and arrays in another order.
    const std::int64_t sums = 8 * 16 * width * keys * 2, rows = 8 * batch * queries * (4 + width);
    EXPECT_LE(peak_of_module(a.p.module), given_to(a.p, *root) + sums + rows)
        << ir::to_string(a.p.module);
    EXPECT_LT(sums + rows, Shape(a.t, a.scores).byte_count());
  }
}

// What the gradients read of scores that they don't follow at once is made again, not held.
TEST(TiledChains, WhatIsReadFarBehindIsMadeAgain) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Random r(seed);
    const std::int64_t batch = 1 + r.below(3), width = 18 + r.below(4);
    // Differences of large numbers.
    Attention a(DType::f64, {batch, 128 * (8 / batch + 1) + r.below(40), 513 + r.below(60)});
    const std::int64_t queries = a.scores[1], keys = a.scores[2];
    Instruction* q = a.p.argument(r.literal(a.t, {batch, queries, width}));
    Instruction* k = a.p.argument(r.literal(a.t, {batch, keys, width}));
    Instruction* v = a.p.argument(r.literal(a.t, {batch, keys, width}));
    Instruction* x = a.p.b.binary(Opcode::multiply, a.product(q, k, 2, 2), a.splat(0.1));
    a.p.entry->set_root(gradients(&a, &r, q, k, v, x, true));
    passes::swap_transposed_dots(&a.p.module);
    Instruction* root = a.p.entry->root();
    a.p.check(root, seed, 2000);
    // Loops that are interpreted take too long to be run again.
    if (!codegen::has_kernel_compiler()) continue;
    const std::int64_t bytes = std::int64_t(byte_size(a.t));
    const std::int64_t sums = bytes * 16 * width * keys * 2;
    const std::int64_t rows = bytes * batch * queries * (4 + 2 * width);
    EXPECT_LE(peak_of_module(a.p.module), given_to(a.p, *root) + sums + rows)
        << ir::to_string(a.p.module);
    EXPECT_LT(sums + rows, Shape(a.t, a.scores).byte_count());
  }
}

// Sums over rows are the same bits whoever makes them: a part of the rows is a unit of the step.
TEST(TiledChains, SumsDependOnShapesAlone) {
  Random r(6);
  Attention a(DType::f32, {1, 1100, 600});
  Instruction* q = a.p.argument(r.literal(a.t, {1, 1100, 8}));
  Instruction* k = a.p.argument(r.literal(a.t, {1, 600, 8}));
  Instruction* v = a.p.argument(r.literal(a.t, {1, 600, 8}));
  a.p.entry->set_root(gradients(&a, &r, q, k, v, a.product(q, k, 2, 2)));
  passes::swap_transposed_dots(&a.p.module);
  const codegen::BuiltPlan built = codegen::build_plan(a.p.module);
  std::int64_t parts = 0;
  for (const runtime::Step& step : built.plan.entry.steps) {
    const auto& task = std::get<runtime::KernelTask>(step.what);
    const bool is_chain = task.label != nullptr && task.label->name == std::string("chain/rows");
    parts = std::max(parts, is_chain ? task.units : 0);
  }
  EXPECT_EQ(parts, 1100 / 128);
}

// Gradients of a network with narrow ends: its wide rows are never held.
TEST(TiledChains, GradientsOfWeightsAreAddedUp) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Random r(seed);
    Program p;
    ir::Builder& b = p.b;
    const DType t = seed % 2 == 0 ? DType::f32 : DType::f64;
    const std::int64_t rows = 1500 + r.below(500), wide = 300 + r.below(100);
    const std::int64_t in = 1 + r.below(6), out = 1 + r.below(6);
    const auto product = [&](Instruction* l, Instruction* other, std::int64_t of_l,
                             std::int64_t of_other) {
      ir::DotAttrs attrs;
      attrs.lhs_contracting = {of_l};
      attrs.rhs_contracting = {of_other};
      return b.dot(l, other, attrs);
    };
    Instruction* x = p.argument(r.literal(t, {rows, in}));
    Instruction* w1 = p.argument(r.literal(t, {in, wide}));
    Instruction* w2 = p.argument(r.literal(t, {wide, out}));
    Instruction* y = p.argument(r.literal(t, {rows, out}));
    Instruction* h = b.unary(Opcode::tanh, product(x, w1, 1, 0));
    Instruction* of_y = b.binary(Opcode::subtract, product(h, w2, 1, 0), y);
    Instruction* of_h =
        b.binary(Opcode::multiply, product(of_y, w2, 1, 1), b.binary(Opcode::multiply, h, h));
    Instruction* root = b.tuple({product(h, of_y, 0, 0), product(x, of_h, 0, 0)});
    p.check(root, seed, 1000);
    EXPECT_LE(peak_of_module(p.module),
              given_to(p, *root) + 8 * 16 * wide * (in + out) + 16 * rows * out)
        << ir::to_string(p.module);
  }
}

// Many matrices: each goes through all products at once, and no scores of several are held.
TEST(TiledChains, AttentionAndItsGradientsHoldOneMatrixOfScoresAtATime) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Random r(seed);
    const std::int64_t batch = 16 * worker_count(), width = 1 + r.below(12);
    Attention a(DType::f32, {batch, 100 + r.below(60), 120 + r.below(60)});
    const std::int64_t queries = a.scores[1];
    Instruction* root = masked_gradients(&a, &r, width, -1e9);
    a.p.check(root, seed, 100);
    EXPECT_LE(peak_of_module(a.p.module), given_to(a.p, *root) + 8 * batch * queries)
        << ir::to_string(a.p.module);
  }
}

// What else needs the probabilities gets them, and the product then reads them from memory.
TEST(TiledChains, WhatIsSavedIsWritten) {
  for (const bool saved : {false, true}) {
    Random r(3);
    Attention a(DType::f32, {2, 300, 500});
    Instruction* q = a.p.argument(r.literal(a.t, {2, 300, 8}));
    Instruction* k = a.p.argument(r.literal(a.t, {2, 500, 8}));
    Instruction* v = a.p.argument(r.literal(a.t, {2, 500, 8}));
    Instruction* probabilities = a.softmax(a.product(q, k, 2, 2));
    Instruction* out = a.product(probabilities, v, 2, 1);
    Instruction* root = saved ? a.p.b.tuple({out, probabilities}) : out;
    a.p.check(root, 3, 100);
    const std::int64_t held = Shape(DType::f32, a.scores).byte_count();
    const std::int64_t peak = peak_of_module(a.p.module);
    EXPECT_EQ(peak >= held, saved);
    EXPECT_LT(peak, 2 * held);
  }
}

// A product over the rows needs all of them: it stands behind the chain.
TEST(TiledChains, SumsOverRowsComeAfterwards) {
  Random r(4);
  Attention a(DType::f32, {2, 300, 500});
  Instruction* q = a.p.argument(r.literal(a.t, {2, 300, 8}));
  Instruction* k = a.p.argument(r.literal(a.t, {2, 500, 8}));
  Instruction* v = a.p.argument(r.literal(a.t, {2, 500, 8}));
  Instruction* w = a.p.argument(r.literal(a.t, {2, 300, 7}));
  Instruction* probabilities = a.softmax(a.product(q, k, 2, 2));
  Instruction* by_keys = a.product(probabilities, w, 1, 1);
  Instruction* out = a.product(probabilities, v, 2, 1);
  a.p.check(a.p.b.tuple({by_keys, out}), 4, 100);
}

// Several reductions of one array, along any of its dims, read it together.
TEST(TiledChains, ReductionsOfOneArrayAreOneStep) {
  Random r(5);
  for (const bool columns : {false, true}) {
    Program p;
    ir::Builder& b = p.b;
    Instruction* x = p.argument(r.literal(DType::f32, {1024, 1024}));
    const auto reduce = [&](Instruction* of, double init, Opcode op, Dims dims) {
      return b.reduce(of, b.scalar(DType::f32, init), std::move(dims),
                      ir::scalar_computation(&p.module, op, DType::f32));
    };
    std::vector<Instruction*> results = {
        reduce(x, 0, Opcode::add, {1}), reduce(x, -INFINITY, Opcode::maximum, {1}),
        reduce(b.unary(Opcode::negate, x), 1, Opcode::minimum, {1})};
    if (columns) {
      results.push_back(reduce(x, INFINITY, Opcode::minimum, {0}));
      results.push_back(reduce(x, 0, Opcode::add, {0, 1}));
      results.push_back(reduce(b.binary(Opcode::multiply, x, x), 0, Opcode::add, {0}));
    }
    Instruction* root = b.tuple(results);
    p.entry->set_root(root);
    passes::split_reductions(&p.module);
    p.check(p.entry->root(), 5, 1000);
    // One goes over the array; each of the others is cut in pieces, which are put together.
    EXPECT_EQ(steps_of(plan_of(p.module)), columns ? 4u : 1u) << ir::to_string(p.module);
  }
}

// Both go through as many stretches as the numbers of their rows have in common, which are of other
// rows.
TEST(TiledChains, TheFirstRowsOfALongerArray) {
  Random r(1);
  Program p;
  ir::Builder& b = p.b;
  constexpr std::int64_t rows = 512, width = 1023;
  Instruction* x = p.argument(r.literal(DType::f32, {rows + 1, width}));
  Instruction* y = b.unary(Opcode::tanh, b.unary(Opcode::exponential, x));
  Instruction* first = b.slice(y, {0, 0}, {rows, width});
  p.check(b.tuple({b.unary(Opcode::logistic, y), b.unary(Opcode::sine, first),
                   b.unary(Opcode::cosine, first)}),
          1, 100);
}

// Chains take in what feeds them, which others may have read before.
TEST(TiledChains, LargeArraysReadInAnyOrder) {
  constexpr std::int64_t rows = 257, width = 1030;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    Random r(seed);
    Program p;
    ir::Builder& b = p.b;
    std::vector<Instruction*> arrays;
    for (int k = 0; k < 2; ++k) {
      arrays.push_back(p.argument(r.literal(DType::f32, {rows, width})));
    }
    std::vector<Instruction*> results;
    const auto recent = [&] {
      const auto n = std::int64_t(arrays.size());
      return arrays[std::size_t(n - 1 - r.below(std::min<std::int64_t>(n, 4)))];
    };
    for (int k = 0; k < 14; ++k) {
      Instruction* x = recent();
      switch (r.below(5)) {
        case 0: {  // whole columns
          Instruction* sum = b.reduce(x, b.scalar(DType::f32, 0), {0},
                                      ir::scalar_computation(&p.module, Opcode::add, DType::f32));
          sum = b.binary(Opcode::multiply, sum, b.splat(b.scalar(DType::f32, 1.0 / rows), {width}));
          x = b.binary(Opcode::add, b.broadcast(sum, {rows, width}, {1}), recent());
          break;
        }
        case 1: {  // of other rows
          x = b.concatenate({b.slice(x, {1, 0}, {rows, width}), b.slice(x, {0, 0}, {1, width})}, 0);
          x = b.binary(Opcode::multiply, x, recent());
          break;
        }
        case 2: {
          x = b.binary(Opcode::maximum, x, recent());
          break;
        }
        default:
          x = b.unary(r.chance(0.5) ? Opcode::tanh : Opcode::sine, x);
      }
      arrays.push_back(x);
      if (r.chance(0.3)) results.push_back(x);
    }
    results.push_back(arrays.back());
    p.check(b.tuple(results), seed, 2000);
  }
}

// What is computed from a deep product is computed block by block, and the next product of it too.
TEST(TiledChains, WhatFollowsAProductIsDoneWithIt) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    Random r(seed);
    Program p;
    ir::Builder& b = p.b;
    const DType t = r.chance(0.7) ? DType::f32 : DType::f64;
    const std::int64_t rows = 300 + r.below(60), wide = 900 + r.below(60), deep = 290 + r.below(20);
    const bool a_turned = r.chance(0.5), b_turned = r.chance(0.5), twice = r.chance(0.5);
    Instruction* x = p.argument(r.literal(t, a_turned ? Dims{deep, rows} : Dims{rows, deep}));
    Instruction* w = p.argument(r.literal(t, b_turned ? Dims{wide, deep} : Dims{deep, wide}));
    Instruction* bias = p.argument(r.literal(t, {wide}));
    ir::DotAttrs attrs;
    attrs.lhs_contracting = {a_turned ? 0 : 1};
    attrs.rhs_contracting = {b_turned ? 1 : 0};
    Instruction* y =
        b.binary(Opcode::add, b.dot(x, w, attrs), b.broadcast(bias, {rows, wide}, {1}));
    y = b.unary(Opcode::tanh,
                b.binary(Opcode::multiply, y, b.splat(b.scalar(t, 0.01), y->shape.dims)));
    if (r.chance(0.5)) {
      Instruction* residual = p.argument(r.literal(t, {rows, wide}));
      y = b.binary(Opcode::add, y, residual);
    }
    if (twice) {
      Instruction* v = p.argument(r.literal(t, {wide, 200}));
      attrs.lhs_contracting = {1};
      attrs.rhs_contracting = {0};
      y = b.unary(Opcode::negate, b.dot(y, v, attrs));
    }
    p.check(y, seed, 1000);
    if (codegen::packed_gemm_pays(rows, wide, deep)) {
      EXPECT_EQ(steps_of(plan_of(p.module)), 1u) << ir::to_string(p.module);
    }
  }
}

// Random elementwise chains with sums of rows in between.
TEST(TiledChains, RowsOfAnyKind) {
  const std::vector<Opcode> unary = {Opcode::exponential, Opcode::tanh, Opcode::negate,
                                     Opcode::abs};
  const std::vector<Opcode> binary = {Opcode::add, Opcode::subtract, Opcode::multiply,
                                      Opcode::maximum};
  std::size_t joined = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random r(seed);
    Attention a(r.chance(0.5) ? DType::f32 : DType::f64,
                {1 + r.below(4), 64 * (1 + r.below(4)), 400 + r.below(500)});
    ir::Builder& b = a.p.b;
    Instruction* x = a.p.argument(r.literal(a.t, a.scores));
    std::vector<Instruction*> full = {x};
    for (std::int64_t n = 4 + r.below(8); n > 0; --n) {
      Instruction* y = r.pick(full);
      switch (r.below(4)) {
        case 0:
          full.push_back(b.unary(r.pick(unary), y));
          break;
        case 1: {
          Instruction* scaled = b.binary(Opcode::multiply, y, a.splat(1.0 / 512));
          Instruction* sum = b.reduce(scaled, b.scalar(a.t, 0), {2},
                                      ir::scalar_computation(&a.p.module, Opcode::add, a.t));
          full.push_back(b.binary(r.pick(binary), r.pick(full), a.over(sum)));
          break;
        }
        case 2: {
          // A column for all rows: not a share of anything.
          Instruction* sum = b.reduce(y, b.scalar(a.t, -INFINITY), {0, 1},
                                      ir::scalar_computation(&a.p.module, Opcode::maximum, a.t));
          full.push_back(b.binary(r.pick(binary), r.pick(full), b.broadcast(sum, a.scores, {2})));
          break;
        }
        default:
          full.push_back(b.binary(r.pick(binary), y, r.pick(full)));
      }
      full.back() = b.unary(Opcode::tanh, full.back());
    }
    a.p.check(full.back(), seed, 1000);
    const codegen::BuiltPlan built = plan_of(a.p.module);
    std::size_t kernels = 0;
    for (const auto& [kernel, runs] : built.kernels) kernels += std::size_t(runs);
    joined += kernels - steps_of(built);
  }
  EXPECT_GT(joined, 10u);
}

// The two loops have one key: one reads all that the reduction reads, the other the first rows of
// it, which aren't those of its own blocks.
TEST(TiledChains, LoopsThatReadTheFirstRowsAreNoPartOfThem) {
  const auto module = ir::parse_hlo(R"(
add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
ENTRY main {
  a = f32[2048,256] parameter(0)
  x1 = f32[2048,256] exponential(a)
  x2 = f32[2048,256] tanh(a)
  x = f32[2048,256] multiply(x1, x2)
  first = f32[1024,256] slice(x), slice={[0:1024],[0:256]}
  y1 = f32[1024,256] exponential(first)
  y2 = f32[1024,256] tanh(first)
  y = f32[1024,256] multiply(y1, y2)
  zero = f32[] constant(0)
  r = f32[2048] reduce(x, zero), dimensions={1}, to_apply=add
  ROOT t = (f32[2048], f32[1024,256]) tuple(r, y)
}
)");
  Random r(1);
  const std::vector<Literal> arguments = {r.literal(DType::f32, {2048, 256})};
  expect_results(*module, arguments, evaluator::evaluate(*module, arguments), 100);
  EXPECT_EQ(steps_of(plan_of(*module)), 3U);
}

}  // namespace
}  // namespace tessera::testing
