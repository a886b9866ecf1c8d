// SPDX-License-Identifier: Apache-2.0
// Scatters of one window at a known place become elementwise ops.
#include <gtest/gtest.h>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/passes/indexed/expand_window_scatters.h"
#include "tests/support/against_evaluator.h"

namespace tessera::passes {
namespace {

constexpr const char* kRowScatter =
    "update_window_dims={0,1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, "
    "index_vector_dim=0";

/// Whether a scatter (that overwrites, where nothing combines) of `update` at `at` into f32[6,4]
/// becomes elementwise; what comes out is compared bit by bit, zeros' signs and all.
bool expands(const std::string& combine, const std::string& at, const std::string& update,
             const std::string& attributes = kRowScatter) {
  const std::string text = R"(HloModule m
f { a = f32[] parameter(0)
  )" +
                           (combine.empty()
                                ? "ROOT b = f32[] parameter(1)"
                                : "b = f32[] parameter(1)\n  ROOT r = f32[] " + combine) +
                           R"( }
ENTRY e {
  n = f32[6,4] iota(), iota_dimension=0
  one = f32[] constant(2)
  ones = f32[6,4] broadcast(one), dimensions={}
  s = f32[6,4] subtract(n, ones)
  zero = f32[] constant(-0)
  zeros = f32[6,4] broadcast(zero), dimensions={}
  array = f32[6,4] multiply(s, zeros)
  )" + at + R"(
  k = )" + update + R"( iota(), iota_dimension=0
  update = )" + update +
                           R"( negate(k)
  ROOT out = f32[6,4] scatter(array, at, update), to_apply=f, )" +
                           attributes + "\n}\n";
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
  const std::size_t count = testing::keeps_results(
      module.get(), {}, [](ir::Module* m) { return expand_window_scatters(m, true); });
  std::size_t left = 0;
  for (const auto& i : module->entry()->instructions()) left += i->is(ir::Opcode::scatter) ? 1 : 0;
  EXPECT_EQ(count + left, 1u);
  return count == 1;
}

TEST(WindowScatters, AtAKnownPlaceAreElementwise) {
  for (const char* combine :
       {"add(a, b)", "multiply(b, a)", "maximum(a, b)", "minimum(a, b)", "", "power(a, b)"}) {
    const bool known = std::string(combine) != "power(a, b)";
    EXPECT_EQ(expands(combine, "at = s32[2] constant({1,1})", "f32[4,2]"), known) << combine;
    EXPECT_EQ(expands(combine, "at = s32[2] constant({0,2})", "f32[6,2]"), known) << combine;
  }
}

TEST(WindowScatters, IndicesMayBeComputedOfConstants) {
  const std::string at = R"(x = s32[] constant(2)
  i = s32[1] broadcast(x), dimensions={}
  y = s32[1,1] constant({{1}})
  j = s32[1] reshape(y)
  at = s32[2] concatenate(i, j), dimensions={0})";
  EXPECT_TRUE(expands("add(a, b)", at, "f32[3,2]"));
}

TEST(WindowScatters, OfRowsLackADim) {
  const std::string attributes =
      "update_window_dims={0}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0,1}, "
      "index_vector_dim=0";
  EXPECT_TRUE(expands("add(a, b)", "at = s32[2] constant({5,1})", "f32[3]", attributes));
  // Updates of full rows are sharded as the array.
  EXPECT_FALSE(expands("add(a, b)", "at = s32[2] constant({5,0})", "f32[4]", attributes));
}

// a.at[::2, first::2]
TEST(WindowScatters, OfEverySecondElement) {
  const std::string attributes =
      "update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}, "
      "index_vector_dim=2";
  for (const char* first : {"0", "1"}) {
    const std::string at = R"(two = s32[] constant(2)
  twos = s32[3,2,1] broadcast(two), dimensions={}
  row = s32[3,2,1] iota(), iota_dimension=0
  i = s32[3,2,1] multiply(row, twos)
  column = s32[2] iota(), iota_dimension=0
  columns = s32[3,2,1] broadcast(column), dimensions={1}
  j0 = s32[3,2,1] multiply(twos, columns)
  f = s32[] constant()" + std::string(first) +
                           R"()
  fs = s32[3,2,1] broadcast(f), dimensions={}
  j = s32[3,2,1] add(fs, j0)
  at = s32[3,2,2] concatenate(i, j), dimensions={2})";
    EXPECT_TRUE(expands("", at, "f32[3,2]", attributes));
    EXPECT_TRUE(expands("add(a, b)", at, "f32[3,2]", attributes));
  }
}

TEST(WindowScatters, ThatLeaveTheArrayOrAreSmallOrUnknownStay) {
  EXPECT_FALSE(expands("add(a, b)", "at = s32[2] constant({3,1})", "f32[4,2]"));
  EXPECT_FALSE(expands("add(a, b)", "at = s32[2] constant({-1,1})", "f32[4,2]"));
  EXPECT_FALSE(expands("add(a, b)", "at = s32[2] constant({1,1})", "f32[1,2]"));
  const std::string unknown = "i = s32[2] iota(), iota_dimension=0\n  at = s32[2] negate(i)";
  EXPECT_FALSE(expands("add(a, b)", unknown, "f32[4,2]"));
  EXPECT_FALSE(expands("subtract(a, b)", "at = s32[2] constant({1,1})", "f32[4,2]"));
}

}  // namespace
}  // namespace tessera::passes
