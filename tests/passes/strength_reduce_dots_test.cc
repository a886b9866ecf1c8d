// SPDX-License-Identifier: Apache-2.0
// Dots that become multiplications and sums.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "src/base/arrays/literal.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/passes/products/strength_reduce_dots.h"
#include "tests/support/against_evaluator.h"

namespace tessera::passes {
namespace {

/// Whether the dot is written out; what it computes stays the same.
void expand(bool expands, const std::string& type, const Dims& result, const Dims& lhs,
            const Dims& rhs, const std::string& attributes) {
  const auto shape = [&](const std::string& t, const Dims& dims) {
    return fmt::format("{}[{}]", t, fmt::join(dims, ","));
  };
  // 0, 1, 2, ... and 0, -1, -2, ...: sums are exact, and 0 * -1 is -0 where nothing is added.
  const auto operand = [&](const std::string& name, const Dims& dims) {
    const Dims flat{
        std::accumulate(dims.begin(), dims.end(), std::int64_t(1), std::multiplies<>())};
    return fmt::format(
        "  {0}.n = {1} iota(), iota_dimension=0\n  {0}.t = {2} convert({0}.n)\n"
        "  {0}.s = {2} {4}({0}.t)\n  {0} = {3} reshape({0}.s)\n",
        name, shape("s32", flat), shape(type, flat), shape(type, dims),
        name == "a" ? "copy" : "negate");
  };
  const std::string text = "HloModule m\nENTRY e {\n" + operand("a", lhs) + operand("b", rhs) +
                           "  ROOT d = " + shape(type, result) + " dot(a, b)" + attributes +
                           "\n}\n";
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
  const std::size_t count = testing::keeps_results(module.get(), {}, strength_reduce_dots);
  std::size_t left = 0;
  for (const auto& i : module->entry()->instructions()) left += i->is(ir::Opcode::dot) ? 1 : 0;
  EXPECT_EQ(count + left, 1u) << text;
  EXPECT_EQ(count > 0, expands) << text;
}

constexpr const char* kInner = ", lhs_contracting_dims={0}, rhs_contracting_dims={0}";

TEST(StrengthReduceDots, OuterProductsAreMultiplications) {
  expand(true, "f32", {3, 5}, {3}, {5}, "");
  expand(true, "f32", {3, 5}, {1, 3}, {1, 5}, kInner);
  expand(true, "c64", {3, 5}, {3, 1}, {5, 1},
         ", lhs_contracting_dims={1}, rhs_contracting_dims={1}");
  expand(true, "s32", {2, 4, 3, 5, 6}, {3, 4, 1, 2}, {5, 2, 1, 6, 4},
         ", lhs_batch_dims={3,1}, lhs_contracting_dims={2}, rhs_batch_dims={1,4}, "
         "rhs_contracting_dims={2}");
}

TEST(StrengthReduceDots, ProductsOfVectorsAreSums) {
  expand(true, "f32", {}, {6}, {6}, kInner);
  expand(true, "f32", {1}, {6}, {6, 1}, kInner);
  expand(true, "f64", {4, 2, 1, 1}, {2, 3, 1, 5, 4}, {5, 4, 2, 1, 3},
         ", lhs_batch_dims={4,0}, lhs_contracting_dims={1,3}, rhs_batch_dims={1,2}, "
         "rhs_contracting_dims={4,0}");
}

TEST(StrengthReduceDots, OthersStay) {
  expand(false, "f32", {2}, {6, 2}, {6}, kInner);
  expand(false, "f32", {}, {0}, {0}, kInner);
  // The sum of halves is held in a wider type.
  expand(false, "f16", {}, {6}, {6}, kInner);
}

}  // namespace
}  // namespace tessera::passes
