// SPDX-License-Identifier: Apache-2.0
// Long reductions become two; what they compute stays the same.
#include "src/passes/reductions/split_reductions.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "tests/support/against_evaluator.h"

namespace tessera::passes {
namespace {

/// Of whole numbers, so that sums are exact in any order.
void check(bool splits, const std::string& type, const std::string& from, const std::string& dims,
           const std::string& to, const std::string& op) {
  const std::string text = fmt::format(
      "HloModule m\nr {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n"
      "  ROOT c = {0}[] {4}(a, b)\n}}\nENTRY e {{\n  n = s32{1} iota(), iota_dimension=0\n"
      "  x = {0}{1} convert(n)\n  init = {0}[] constant(3)\n"
      "  ROOT out = {0}{3} reduce(x, init), dimensions={2}, to_apply=r\n}}\n",
      type, from, dims, to, op);
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
  EXPECT_EQ(testing::keeps_results(module.get(), {}, split_reductions), splits ? 1u : 0u) << text;
}

TEST(SplitReductions, LongOnesToFewResults) {
  check(true, "s32", "[65536]", "{0}", "[]", "add");
  check(true, "f32", "[256,512]", "{0,1}", "[]", "maximum");
  check(true, "s32", "[2,65536]", "{1}", "[2]", "minimum");
  check(true, "s32", "[65536,3]", "{0}", "[3]", "add");
  check(true, "s32", "[2,1,65536,2]", "{1,2}", "[2,2]", "xor");
}

TEST(SplitReductions, NoOthers) {
  check(false, "s32", "[1024]", "{0}", "[]", "add");          // short
  check(false, "s32", "[64,4096]", "{1}", "[64]", "add");     // enough results to share
  check(false, "s32", "[128,1024]", "{0}", "[1024]", "add");  // in cache
  check(false, "bf16", "[65536]", "{0}", "[]", "maximum");    // would be rounded twice
  check(false, "s32", "[256,2,256]", "{0,2}", "[2]", "add");  // in two pieces
  check(false, "s32", "[65537]", "{0}", "[]", "add");         // a prime
}

}  // namespace
}  // namespace tessera::passes
