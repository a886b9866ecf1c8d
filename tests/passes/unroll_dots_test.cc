// SPDX-License-Identifier: Apache-2.0
// Batches of tiny products that become sums of elementwise products.
#include "src/passes/products/unroll_dots.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/base/arrays/literal.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "tests/support/against_evaluator.h"

namespace tessera::passes {
namespace {

/// Of products that are exact sums.
void unroll(bool unrolls, const std::string& type, const Dims& result, const Dims& lhs,
            const Dims& rhs, const std::string& attributes) {
  const auto shape = [&](const Dims& dims) {
    return fmt::format("{}[{}]", type, fmt::join(dims, ","));
  };
  const auto operand = [&](const std::string& name, const Dims& dims, const char* op) {
    std::int64_t n = 1;
    for (const std::int64_t d : dims) n *= d;
    return fmt::format(
        "  {0}.n = s32[{1}] iota(), iota_dimension=0\n  {0}.k = s32[] constant(7)\n"
        "  {0}.m = s32[{1}] broadcast({0}.k), dimensions={{}}\n"
        "  {0}.r = s32[{1}] remainder({0}.n, {0}.m)\n  {0}.t = {2}[{1}] convert({0}.r)\n"
        "  {0}.s = {2}[{1}] {4}({0}.t)\n  {0} = {3} reshape({0}.s)\n",
        name, n, type, shape(dims), op);
  };
  const std::string text = "HloModule m\nENTRY e {\n" + operand("a", lhs, "copy") +
                           operand("b", rhs, "negate") + "  ROOT d = " + shape(result) +
                           " dot(a, b), " + attributes + "\n}\n";
  SCOPED_TRACE(text);
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
  EXPECT_EQ(testing::keeps_results(module.get(), {}, unroll_dots), unrolls ? 1U : 0U);
}

constexpr const char* kMatrices =
    "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}";

TEST(UnrollDots, ManyTinyProducts) {
  unroll(true, "f32", {100, 3, 3}, {100, 3, 2}, {100, 2, 3}, kMatrices);
  unroll(true, "f64", {64, 4, 4}, {64, 4, 4}, {64, 4, 4}, kMatrices);
  unroll(true, "s32", {100, 2, 5}, {100, 2, 3}, {100, 3, 5}, kMatrices);
}

TEST(UnrollDots, OfDimsInAnyOrder) {
  unroll(true, "f32", {50, 4, 3, 2, 2}, {3, 2, 50, 4}, {4, 2, 50, 2, 2},
         "lhs_batch_dims={2,3}, lhs_contracting_dims={1}, rhs_batch_dims={2,0}, "
         "rhs_contracting_dims={1}");
}

TEST(UnrollDots, OthersAreLeftToTheirKernels) {
  unroll(false, "f32", {8, 3, 3}, {8, 3, 2}, {8, 2, 3}, kMatrices);          // few
  unroll(false, "f32", {100, 5, 5}, {100, 5, 2}, {100, 2, 5}, kMatrices);    // large results
  unroll(false, "f32", {100, 2, 2}, {100, 2, 16}, {100, 16, 2}, kMatrices);  // long sums
  unroll(false, "bf16", {100, 3, 3}, {100, 3, 2}, {100, 2, 3}, kMatrices);   // held wider
}

}  // namespace
}  // namespace tessera::passes
