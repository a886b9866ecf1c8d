// SPDX-License-Identifier: Apache-2.0
// Masks that are added to scores, as -1e9 or -inf: what they hide isn't computed, and makes no
// difference.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "src/codegen/kernels/chains/column_ranges.h"
#include "src/codegen/kernels/elementwise/half_conversions.h"
#include "src/passes/products/fold_transposes.h"
#include "tests/codegen/attention/attention_case.h"

namespace tessera::testing {
namespace {

using codegen::ColumnRange;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// softmax(scale * q k^T + mask): prefixes, bands and bare rows of numbers around zero, others
/// around `hidden`.
struct AddedCase {
  Attention a;
  Instruction *q, *k, *v, *mask, *x;

  AddedCase(Random* r, DType t, const Dims& scores, double hidden) : a(t, scores) {
    ir::Builder& b = a.p.b;
    const std::int64_t batch = scores[0], queries = scores[1], keys = scores[2];
    const std::int64_t width = 2 + r->below(9), shift = r->below(80) - 30;
    const std::int64_t window = r->chance(0.5) ? keys : 30 + r->below(200);
    const std::int64_t bare = r->chance(0.3) ? r->below(queries) : -1;
    q = a.p.argument(r->literal(t, {batch, queries, width}));
    k = a.p.argument(r->literal(t, {batch, keys, width}));
    v = a.p.argument(r->literal(t, {batch, keys, width}));
    Literal addend(Shape(DType::f32, {queries, keys}));
    float* to = addend.mutable_data<float>().data();
    const bool noisy = r->chance(0.5);
    for (std::int64_t i = 0; i < queries; ++i) {
      for (std::int64_t j = 0; j < keys; ++j) {
        const bool shown = i != bare && j <= i + shift && j > i + shift - window;
        const double noise = noisy ? 0.1 * double(r->below(20)) : 0;
        *to++ = float((shown ? 0 : hidden) + noise);
      }
    }
    Instruction* given = a.p.argument(std::move(addend));
    if (t != DType::f32) given = b.convert(given, t);
    mask = b.broadcast(given, scores, {1, 2});
    x = b.binary(Opcode::multiply, a.product(q, k, 2, 2), a.splat(0.3));
    x = r->chance(0.5) ? b.binary(Opcode::add, x, mask) : b.binary(Opcode::add, mask, x);
  }
};

TEST(AddedMasks, AreRight) {
  const std::vector<DType> types = {DType::f32, DType::f32, DType::bf16, DType::f64, DType::f16};
  const std::vector<double> hidden = {-1e9, -kInfinity, -3e38, -1e4, -130, -20};
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    Random r(seed);
    const Dims scores = {1 + r.below(3), 380 + r.below(100), 700 + r.below(200)};
    const DType t = types[seed % types.size()];
    // Half precision has no numbers beyond 65504 but infinities.
    AddedCase c(&r, t, scores, hidden[seed % hidden.size()]);
    c.a.p.check(c.a.product(c.a.softmax(c.x), c.v, 2, 1), seed, byte_size(t) == 2 ? 20 : 100);
    if (t == DType::f32) {
      EXPECT_TRUE(goes_by_blocks(c.a.p.module, scores[0] * scores[1]))
          << ir::to_string(c.a.p.module);
    }
  }
}

TEST(AddedMasks, GradientsAreRight) {
  const std::vector<DType> types = {DType::f32, DType::bf16, DType::f32};
  const std::vector<double> hidden = {-1e9, -kInfinity, -300, -3e38};
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    Random r(seed);
    const Dims scores = {2, 640 + r.below(40), 513 + r.below(60)};
    const DType t = types[seed % types.size()];
    AddedCase c(&r, t, scores, hidden[seed % hidden.size()]);
    c.a.p.entry->set_root(gradients(&c.a, &r, c.q, c.k, c.v, c.x));
    passes::swap_transposed_dots(&c.a.p.module);
    c.a.p.check(c.a.p.entry->root(), seed, byte_size(t) == 2 ? 20 : 400);
  }
}

// Of factors like these products may be larger than what hides them, or no numbers.
TEST(AddedMasks, LargeFactorsCount) {
  for (const double special : {kInfinity, -kInfinity, std::nan(""), 1e15, -1e15, 3e38}) {
    for (int where = 0; where < 4; ++where) {
      for (const double hidden : {-1e9, -kInfinity}) {
        Random r(11);
        const Dims scores = {2, 384, 768};
        AddedCase c(&r, DType::f32, scores, hidden);
        Literal& numbers = c.a.p.arguments[std::size_t(where)];
        const auto at = std::size_t(numbers.element_count() / 2 - 1);
        numbers.mutable_data<float>()[at] = float(special);
        c.a.p.check(c.a.product(c.a.softmax(c.x), c.v, 2, 1), std::uint64_t(where), 100);
      }
    }
  }
}

// What isn't computed can't be read by anything else: by results, sums, or softmax's logarithm.
TEST(AddedMasks, OtherReadersOfScores) {
  for (int other = 0; other < 5; ++other) {
    Random r{std::uint64_t(other)};
    const Dims scores = {2, 400, 800};
    AddedCase c(&r, DType::f32, scores, -1e4);
    ir::Builder& b = c.a.p.b;
    Instruction* out = c.a.product(c.a.softmax(c.x), c.v, 2, 1);
    Instruction* add = nullptr;
    const auto over_rows = [&](Instruction* of, Opcode by, double first) {
      return b.reduce(of, b.scalar(DType::f32, first), {2},
                      ir::scalar_computation(&c.a.p.module, by, DType::f32));
    };
    switch (other) {
      case 0:
        add = c.x;
        break;
      case 1:
        add = over_rows(c.x, Opcode::add, 0);
        break;
      case 2:
        add = over_rows(c.x, Opcode::minimum, kInfinity);
        break;
      case 3:
        add = over_rows(
            b.binary(Opcode::subtract, c.x, c.a.over(over_rows(c.x, Opcode::maximum, -kInfinity))),
            Opcode::add, 0);
        break;
      default:
        // Not less the largest of the row.
        add = over_rows(b.unary(Opcode::exponential, b.binary(Opcode::add, c.x, c.a.splat(1e4))),
                        Opcode::maximum, -kInfinity);
        break;
    }
    c.a.p.check(b.tuple({out, add}), std::uint64_t(other), 100);
  }
}

TEST(HiddenColumns, WhatIsFarBelow) {
  Random r(3);
  for (int trial = 0; trial < 300; ++trial) {
    const std::int64_t columns = 1 + r.below(150);
    std::vector<float> row(static_cast<std::size_t>(columns));
    const std::int64_t first = r.below(columns), last = first + 1 + r.below(columns - first);
    for (std::int64_t k = 0; k < columns; ++k) {
      row[std::size_t(k)] = k >= first && k < last ? float(r.below(5)) : -1e6F;
    }
    float largest = std::numeric_limits<float>::infinity();
    ColumnRange shown;
    codegen::show_near(row.data(), columns, 100, &shown, &largest);
    EXPECT_EQ(shown.first, first);
    EXPECT_EQ(shown.last, last);
    // A second row adds to that.
    const std::int64_t more = r.below(columns);
    std::fill(row.begin(), row.end(), -1e6F);
    row[std::size_t(more)] = r.chance(0.5) ? 0.0F : std::numeric_limits<float>::quiet_NaN();
    if (row[std::size_t(more)] != 0) row[std::size_t(first)] = 0;
    codegen::show_near(row.data(), columns, 100, &shown, &largest);
    EXPECT_LE(shown.first, std::min(first, more));
    EXPECT_GE(shown.last, std::max(last, more + 1));
    // Nothing is far from what may be larger by as much.
    largest = std::numeric_limits<float>::infinity();
    shown = {};
    codegen::show_near(row.data(), columns, 1e6, &shown, &largest);
    EXPECT_EQ(shown.last - shown.first, columns);
  }
}

TEST(HiddenColumns, TheLargestSize) {
  Random r(5);
  for (const DType t : {DType::bf16, DType::f16}) {
    for (std::int64_t n = 1; n < 200; n += 7) {
      const Literal numbers = r.literal(t, {n});
      std::vector<float> wide(static_cast<std::size_t>(n));
      codegen::lift_halves(t, numbers.bytes(), n, wide.data());
      double most = 0;
      for (const float x : wide) most = std::max(most, std::fabs(double(x)));
      EXPECT_EQ(codegen::largest_size(t, numbers.bytes(), n), most);
    }
  }
  const float not_finite[] = {1, std::numeric_limits<float>::quiet_NaN(), 2};
  EXPECT_EQ(codegen::largest_size(DType::f32, reinterpret_cast<const std::byte*>(not_finite), 3),
            kInfinity);
}

}  // namespace
}  // namespace tessera::testing
