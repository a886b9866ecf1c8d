// SPDX-License-Identifier: Apache-2.0
// Ragged and scaled dots as dots: the evaluator gives the same for both.
#include "src/passes/products/expand_dot_variants.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "src/base/arrays/literal_util.h"
#include "tests/support/against_evaluator.h"

namespace tessera::testing {
namespace {

void expect_same(const std::string& text, const std::vector<Literal>& arguments) {
  SCOPED_TRACE(text);
  const auto module = ir::parse_hlo(text);
  const Literal before = evaluator::evaluate(*module, arguments);
  EXPECT_EQ(passes::expand_dot_variants(module.get()), 1U);
  EXPECT_EQ(leaves_of(evaluator::evaluate(*module, arguments)), leaves_of(before));
}

std::string ragged(const std::string& operands, const std::string& attributes) {
  return "ENTRY main {\n" + operands + "  sizes = s32[3] parameter(2)\n  ROOT r = " + attributes +
         "\n}\n";
}

TEST(ExpandDotVariants, RaggedDots) {
  Dice dice(20261128);
  const std::vector<std::string> programs = {
      ragged("  x = f32[6,4] parameter(0)\n  w = f32[3,4,5] parameter(1)\n",
             "f32[6,5] ragged-dot(x, w, sizes), lhs_contracting_dims={1}, "
             "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"),
      // Batches, and groups between other dims.
      ragged("  x = f32[2,4,6] parameter(0)\n  w = f32[5,3,2,4] parameter(1)\n",
             "f32[2,6,5] ragged-dot(x, w, sizes), lhs_batch_dims={0}, rhs_batch_dims={2}, "
             "lhs_contracting_dims={1}, rhs_contracting_dims={3}, lhs_ragged_dims={2}, "
             "rhs_group_dims={1}"),
      ragged("  x = f32[6,4] parameter(0)\n  w = f32[6,5] parameter(1)\n",
             "f32[3,4,5] ragged-dot(x, w, sizes), lhs_contracting_dims={0}, "
             "rhs_contracting_dims={0}, lhs_ragged_dims={0}"),
      ragged("  x = f32[2,6,4] parameter(0)\n  w = f32[2,6,5] parameter(1)\n",
             "f32[3,2,4,5] ragged-dot(x, w, sizes), lhs_batch_dims={0}, rhs_batch_dims={0}, "
             "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={1}"),
      ragged("  x = f32[6,4] parameter(0)\n  w = f32[6,4] parameter(1)\n",
             "f32[6] ragged-dot(x, w, sizes), lhs_batch_dims={0}, rhs_batch_dims={0}, "
             "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}")};
  for (const std::string& text : programs) {
    for (const std::vector<int>& sizes :
         {std::vector<int>{2, 3, 1}, {0, 6, 0}, {1, 0, 2}, {0, 0, 0}, {4, 5, 6}, {0, 4, 1}}) {
      std::vector<Literal> arguments = random_arguments(*ir::parse_hlo(text), dice);
      arguments[2] = make_literal(DType::s32, {3}, sizes);
      expect_same(text, arguments);
    }
  }
}

TEST(ExpandDotVariants, RaggedDotsWithGroupsOfEachEntry) {
  struct Case {
    const char* sizes;
    Dims dims;
    const char* rest;
  };
  const std::vector<Case> cases = {
      // Of a batch, and of a dim before the ragged one, which lies behind it in memory.
      {"s32[2,3]",
       {2, 3},
       "  x = f32[2,4,6] parameter(0)\n  w = f32[5,3,2,4] parameter(1)\n"
       "  ROOT r = f32[2,6,5] ragged-dot(x, w, sizes), lhs_batch_dims={0}, rhs_batch_dims={2}, "
       "lhs_contracting_dims={1}, rhs_contracting_dims={3}, lhs_ragged_dims={2}, "
       "rhs_group_dims={1}"},
      {"s32[2,2,3]",
       {2, 2, 3},
       "  x = f32[2,6,4,2] parameter(0)\n  w = f32[2,3,4,5] parameter(1)\n"
       "  ROOT r = f32[2,2,6,5] ragged-dot(x, w, sizes), lhs_batch_dims={3}, rhs_batch_dims={0}, "
       "lhs_contracting_dims={2}, rhs_contracting_dims={2}, lhs_ragged_dims={1}, "
       "rhs_group_dims={1}"},
      // Along contracted dims: of a batch and of one that is summed over before the ragged one.
      {"s32[2,3]",
       {2, 3},
       "  x = f32[4,2,6] parameter(0)\n  w = f32[2,6,5] parameter(1)\n"
       "  ROOT r = f32[3,2,4,5] ragged-dot(x, w, sizes), lhs_batch_dims={1}, rhs_batch_dims={0}, "
       "lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={2}"},
      {"s32[2,2,3]",
       {2, 2, 3},
       "  x = f32[2,6,4,2] parameter(0)\n  w = f32[2,6,2,5] parameter(1)\n"
       "  ROOT r = f32[3,2,4,5] ragged-dot(x, w, sizes), lhs_batch_dims={0}, rhs_batch_dims={2}, "
       "lhs_contracting_dims={3,1}, rhs_contracting_dims={0,1}, lhs_ragged_dims={1}"},
      {"s32[2,3]",
       {2, 3},
       "  x = f32[2,6,4] parameter(0)\n  w = f32[6,2,4] parameter(1)\n"
       "  ROOT r = f32[2,6] ragged-dot(x, w, sizes), lhs_batch_dims={0,1}, rhs_batch_dims={1,0}, "
       "lhs_contracting_dims={2}, rhs_contracting_dims={2}, lhs_ragged_dims={1}"}};
  Dice dice(20261130);
  for (const Case& c : cases) {
    const std::string text =
        "ENTRY main {\n  sizes = " + std::string(c.sizes) + " parameter(2)\n" + c.rest + "\n}\n";
    ir::verify(*ir::parse_hlo(text));
    // Each entry with others: some cover all rows, some don't, some say more than there are.
    const std::vector<int> all{2, 3, 1, 0, 1, 2, 4, 5, 6, 0, 6, 0};
    std::vector<Literal> arguments = random_arguments(*ir::parse_hlo(text), dice);
    std::int64_t count = 1;
    for (const std::int64_t d : c.dims) count *= d;
    arguments[2] =
        make_literal(DType::s32, c.dims, std::vector<int>(all.begin(), all.begin() + count));
    expect_same(text, arguments);
  }
}

TEST(ExpandDotVariants, InfinitiesStayInTheirGroup) {
  const std::string text = ragged("  x = f32[2,2] parameter(0)\n  w = f32[3,2,1] parameter(1)\n",
                                  "f32[2,1] ragged-dot(x, w, sizes), lhs_contracting_dims={1}, "
                                  "rhs_contracting_dims={1}, lhs_ragged_dims={0}, "
                                  "rhs_group_dims={0}");
  const float infinity = std::numeric_limits<float>::infinity();
  expect_same(text, {make_literal(DType::f32, {2, 2}, std::vector<float>{0, 1, 2, 3}),
                     make_literal(DType::f32, {3, 2, 1},
                                  std::vector<float>{1, 2, 3, infinity, infinity, infinity}),
                     make_literal(DType::s32, {3}, std::vector<int>{1, 1, 0})});
}

TEST(ExpandDotVariants, ScaledDots) {
  Dice dice(20261129);
  for (const char* scales : {"  s = bf16[4,2] parameter(2)\n  t = bf16[3,1] parameter(3)\n",
                             "  s = bf16[] parameter(2)\n  t = bf16[6,5] parameter(3)\n"}) {
    const std::string text =
        "ENTRY main {\n  x = bf16[4,6] parameter(0)\n  y = bf16[6,5] parameter(1)\n" +
        std::string(scales) +
        "  ROOT r = f32[4,5] scaled-dot(x, y, s, t), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}\n}\n";
    expect_same(text, random_arguments(*ir::parse_hlo(text), dice));
  }
}

}  // namespace
}  // namespace tessera::testing
