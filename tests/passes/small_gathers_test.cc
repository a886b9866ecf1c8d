// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "src/base/literal_util.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/hlo_text.h"
#include "src/ir/shape_inference.h"
#include "src/passes/simplify.h"

namespace tessera::passes {
namespace {

std::size_t expanded(const std::string& indices, const std::string& gather) {
  const std::string text = R"(HloModule m
ENTRY e {
  n = f32[2,3] iota(), iota_dimension=1
  a = f32[2,1,3] reshape(n)
  b = f32[2,1,3] negate(a)
  c = f32[2,1,3] exponential(a)
  stack = f32[2,3,3] concatenate(a, b, c), dimensions={1}
  at = )" + indices +
                           "\n  ROOT out = " + gather + "\n}\n";
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
  const Literal before = evaluator::evaluate(*module, {});
  const std::size_t count = expand_small_gathers(module.get());
  ir::verify(*module);
  EXPECT_TRUE(evaluator::evaluate(*module, {}) == before) << ir::to_string(*module);
  std::size_t left = 0;
  for (const auto& i : module->entry()->instructions()) left += i->is(ir::Opcode::gather) ? 1 : 0;
  EXPECT_EQ(count + left, 1u);
  return count;
}

TEST(SmallGathers, OfOneOfAFewArraysAreSelects) {
  // Some indices lie outside.
  const std::string attributes =
      "offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0,2}, "
      "start_indices_batching_dims={0,1}, index_vector_dim=2, slice_sizes={1,1,1}";
  EXPECT_EQ(expanded("s32[2,3] constant({{-2,0,1},{2,3,1}})",
                     "f32[2,3] gather(stack, at), " + attributes),
            1u);
  EXPECT_EQ(expanded("u8[2,3,1] constant({{{0},{9},{1}},{{2},{1},{0}}})",
                     "f32[2,3] gather(stack, at), " + attributes),
            1u);
}

TEST(SmallGathers, MayKeepTheDimOfTheStack) {
  EXPECT_EQ(expanded("s32[2,1,3] constant({{{-2,0,1}},{{2,3,1}}})",
                     "f32[2,1,3] gather(stack, at), offset_dims={}, collapsed_slice_dims={1}, "
                     "start_index_map={1}, operand_batching_dims={0,2}, "
                     "start_indices_batching_dims={0,2}, index_vector_dim=3, slice_sizes={1,1,1}"),
            1u);
}

TEST(SmallGathers, OfOtherPlacesStay) {
  EXPECT_EQ(expanded("s32[2,3] constant({{0,0,1},{2,2,1}})",
                     "f32[2,3] gather(stack, at), offset_dims={}, collapsed_slice_dims={2}, "
                     "start_index_map={2}, operand_batching_dims={0,1}, "
                     "start_indices_batching_dims={0,1}, index_vector_dim=2, slice_sizes={1,1,1}"),
            0u);
  EXPECT_EQ(expanded("s32[3,2] constant({{0,0},{2,2},{1,1}})",
                     "f32[3,2] gather(stack, at), offset_dims={}, collapsed_slice_dims={1}, "
                     "start_index_map={1}, operand_batching_dims={0,2}, "
                     "start_indices_batching_dims={1,0}, index_vector_dim=2, slice_sizes={1,1,1}"),
            0u);
}

}  // namespace
}  // namespace tessera::passes
