// SPDX-License-Identifier: Apache-2.0
// Integers that a program counts are what the evaluator gives, wherever something is said of them.
#include "src/ir/analysis/affine_numbers.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "src/base/arrays/literal_util.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::ir {
namespace {

std::optional<AffineNumbers> of_text(const std::string& text) {
  return affine_numbers(*parse_hlo("HloModule m\nENTRY e {\n" + text + "\n}")->entry()->root());
}

TEST(AffineNumbers, AreFoundBehindWhatWrapsAndClampsNone) {
  const auto n = of_text(
      "i = s64[4] constant({0, 2, 4, 6})\n k = s64[3] iota(), iota_dimension=0\n"
      "over_i = s64[3,4] broadcast(i), dimensions={1}\n over_k = s64[3,4] broadcast(k), "
      "dimensions={0}\n at = s64[3,4] add(over_i, over_k)\n zero = s64[] constant(0)\n"
      "zeros = s64[3,4] broadcast(zero), dimensions={}\n below = pred[3,4] compare(at, zeros), "
      "direction=LT\n nine = s64[] constant(9)\n nines = s64[3,4] broadcast(nine), dimensions={}\n"
      "wrapped = s64[3,4] add(at, nines)\n chosen = s64[3,4] select(below, wrapped, at)\n"
      "last = s64[] constant(8)\n inside = s64[3,4] clamp(zero, chosen, last)\n"
      "ROOT out = s32[3,4] convert(inside)");
  ASSERT_TRUE(n.has_value());
  EXPECT_EQ(n->base, 0);
  EXPECT_EQ(n->strides, (Dims{1, 2}));
  EXPECT_EQ(n->greatest, 8);
}

TEST(AffineNumbers, AreNotSaidOfWhatWrapsIsClampedOrUnknown) {
  EXPECT_FALSE(of_text("i = s8[5] constant({0, 40, 80, 120, 127})\n ROOT out = s8[5] copy(i)"));
  EXPECT_FALSE(of_text("i = s8[3] constant({0, 60, 120})\n ROOT out = s8[3] add(i, i)"));
  EXPECT_FALSE(
      of_text("i = u8[3] constant({0, 1, 2})\n o = u8[] constant(1)\n"
              "ones = u8[3] broadcast(o), dimensions={}\n ROOT out = u8[3] subtract(i, ones)"));
  EXPECT_FALSE(
      of_text("i = s32[4] iota(), iota_dimension=0\n t = s32[] constant(2)\n"
              "two = s32[4] broadcast(t), dimensions={}\n ROOT out = s32[4] minimum(i, two)"));
  EXPECT_FALSE(of_text("i = s32[4] iota(), iota_dimension=0\n ROOT out = s32[4] multiply(i, i)"));
  EXPECT_FALSE(of_text("i = s32[4] parameter(0)\n ROOT out = s32[4] add(i, i)"));
  EXPECT_FALSE(
      of_text("i = s32[6] iota(), iota_dimension=0\n r = s32[2,3] reshape(i)\n"
              "t = s32[3,2] transpose(r), dimensions={1,0}\n ROOT out = s32[6] reshape(t)"));
}

/// Random programs of iotas, constants and what moves and combines them.
class Case {
 public:
  explicit Case(std::uint64_t seed)
      : engine_(seed), entry_(module_.add_computation("e")), b_(entry_) {
    module_.set_entry(entry_);
  }

  void run() {
    const Dims dims = {1 + below(4), 1 + below(4), 1 + below(4)};
    Instruction* x = made(dims, 4);
    entry_->set_root(x);
    entry_->remove_dead();
    const auto n = affine_numbers(*x);
    if (!n) return;
    ++found_;
    const std::vector<std::int64_t> all = to_vector<std::int64_t>(evaluator::evaluate(module_, {}));
    std::int64_t least = all[0], greatest = all[0];
    std::size_t k = 0;
    for (std::int64_t i = 0; i < dims[0]; ++i) {
      for (std::int64_t j = 0; j < dims[1]; ++j) {
        for (std::int64_t l = 0; l < dims[2]; ++l, ++k) {
          EXPECT_EQ(all[k], n->base + i * n->strides[0] + j * n->strides[1] + l * n->strides[2]);
          least = std::min(least, all[k]);
          greatest = std::max(greatest, all[k]);
        }
      }
    }
    EXPECT_EQ(n->least, least);
    EXPECT_EQ(n->greatest, greatest);
    if (::testing::Test::HasFailure()) ADD_FAILURE() << to_string(module_);
  }
  static int found_;

 private:
  std::int64_t below(std::int64_t n) { return std::int64_t(engine_() % std::uint64_t(n)); }
  Instruction* splat(const Dims& dims) {
    return b_.splat(b_.scalar(type_, double(below(9) - 3)), dims);
  }

  Instruction* made(const Dims& dims, int depth) {
    const std::int64_t rank = std::int64_t(dims.size());
    if (depth == 0 || rank == 0) {
      return rank == 0 || below(3) == 0 ? splat(dims) : b_.iota(Shape(type_, dims), below(rank));
    }
    switch (below(9)) {
      case 0:
        return b_.binary(Opcode::add, made(dims, depth - 1), made(dims, depth - 1));
      case 1:
        return b_.binary(Opcode::subtract, made(dims, depth - 1), splat(dims));
      case 2:
        return b_.binary(Opcode::multiply, splat(dims), made(dims, depth - 1));
      case 3: {
        Dims fewer = dims, places;
        const std::int64_t without = below(rank);
        fewer.erase(fewer.begin() + without);
        for (std::int64_t d = 0; d < rank; ++d) {
          if (d != without) places.push_back(d);
        }
        return b_.broadcast(made(fewer, depth - 1), dims, places);
      }
      case 4: {
        Dims flat = {element_count(dims)};
        return b_.reshape(made(flat, depth - 1), dims);
      }
      case 5: {
        Dims turned(dims.rbegin(), dims.rend()), perm;
        for (std::int64_t d = rank; d-- > 0;) perm.push_back(d);
        return b_.transpose(made(turned, depth - 1), perm);
      }
      case 6: {
        Dims longer = dims, starts(dims.size(), 0), limits = dims, strides(dims.size(), 1);
        const auto d = std::size_t(below(rank));
        starts[d] = below(3);
        strides[d] = 1 + below(2);
        limits[d] = starts[d] + (dims[d] - 1) * strides[d] + 1;
        longer[d] = limits[d] + below(2);
        return b_.slice(made(longer, depth - 1), starts, limits, strides);
      }
      case 7: {
        Instruction* x = made(dims, depth - 1);
        Instruction* outside =
            b_.compare(below(2) == 0 ? Direction::lt : Direction::ge, x, splat(dims));
        return b_.select(outside, made(dims, depth - 1), x);
      }
      default:
        return b_.binary(below(2) == 0 ? Opcode::maximum : Opcode::minimum, made(dims, depth - 1),
                         splat(dims));
    }
  }

  std::mt19937_64 engine_;
  Module module_{"m"};
  Computation* entry_;
  Builder b_;
  DType type_ = DType::s32;
};
int Case::found_ = 0;

TEST(AffineNumbers, AreWhatTheEvaluatorGives) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Case(seed).run();
    if (HasFailure()) return;
  }
  EXPECT_GT(Case::found_, 300);
}

TEST(AffineNumbers, AreFoundForEachNumberOfAVector) {
  const auto module = parse_hlo(
      "HloModule m\nENTRY e {\n r = s64[5] iota(), iota_dimension=0\n c = s64[4] constant({3, 5, "
      "7, 9})\n"
      "rows = s64[5,1,4] broadcast(r), dimensions={0}\n columns = s64[5,1,4] broadcast(c), "
      "dimensions={2}\n ROOT at = s64[5,2,4] concatenate(rows, columns), dimensions={1}\n}");
  const auto row = affine_component(*module->entry()->root(), 1, 0);
  const auto column = affine_component(*module->entry()->root(), 1, 1);
  ASSERT_TRUE(row && column);
  EXPECT_EQ(row->strides, (Dims{1, 0}));
  EXPECT_EQ(column->strides, (Dims{0, 2}));
  EXPECT_EQ(column->base, 3);
  EXPECT_EQ(column->greatest, 9);
  EXPECT_FALSE(affine_numbers(*module->entry()->root()));
}

}  // namespace
}  // namespace tessera::ir
