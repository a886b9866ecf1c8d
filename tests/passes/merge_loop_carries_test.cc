// SPDX-License-Identifier: Apache-2.0
// Equal and unused loop carries are merged or dropped.
#include <gtest/gtest.h>

#include "src/base/arrays/literal_util.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/passes/control/merge_loop_carries.h"
#include "tests/support/against_evaluator.h"
#include "tests/support/loop_text.h"

namespace tessera::passes {
namespace {

/// A loop of five trips. `state`: the shapes that it carries after the counter; `body`: from
/// elements c0, c1, ... of them and the counter i; `next`: what is carried on; `before`: the
/// entry's instructions, `init` among them; `result`: from the loop's elements r0, r1, ...
struct LoopText {
  std::vector<std::string> state;
  std::string body, next, before, init, result;

  std::string text() const {
    std::vector<testing::CarriedText> carried;
    std::string results;
    for (std::size_t k = 0; k < state.size(); ++k) {
      const std::string number = std::to_string(k);
      carried.push_back({"c" + number, state[k]});
      results += "  r" + number + " = " + state[k] +
                 " get-tuple-element(w), index=" + std::to_string(k + 1) + "\n";
    }
    const testing::CountedLoopText loop("i", std::move(carried));
    return "HloModule m\n" + loop.condition("condition", 5) + loop.body("body", body, next) +
           "ENTRY e { x = f32[4] parameter(0)\n" + before + loop.loop("w", init) + results +
           result + " }";
  }
};

/// How many arrays fewer are carried; the results have to stay.
std::size_t merged(const LoopText& loop) {
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(loop.text());
  Literal x(Shape(f32, {4}));
  float v = 1;
  for (float& f : x.mutable_data<float>()) f = v = 3 - 0.75f * v;
  const std::vector<Literal> arguments{x};
  const std::size_t count = testing::keeps_results(module.get(), arguments, merge_loop_carries);
  for (const auto& i : module->entry()->instructions()) {
    if (!i->is(ir::Opcode::while_)) continue;
    EXPECT_EQ(i->shape.elements.size(), loop.state.size() + 1 - count) << ir::to_string(*module);
  }
  return count;
}

TEST(LoopCarries, EqualCarriesAreMerged) {
  // As a scan saves sin(x) for each of the gradients that ask for it.
  EXPECT_EQ(merged({{"f32[4]", "f32[5,4]", "f32[5,4]", "f32[5,4]"},
                    R"(  s = f32[4] sine(c0)
  again = f32[4] sine(c0)
  other = f32[4] cosine(c0)
  pair = (f32[4], f32[4]) tuple(other, again)
  out = f32[4] get-tuple-element(pair), index=1
  row = f32[1,4] reshape(s)
  row_again = f32[1,4] reshape(out)
  row_other = f32[1,4] reshape(other)
  zero = s32[] constant(0)
  u0 = f32[5,4] dynamic-update-slice(c1, row, i, zero)
  u1 = f32[5,4] dynamic-update-slice(c2, row_again, i, zero)
  u2 = f32[5,4] dynamic-update-slice(c3, row_other, i, zero)
  next = f32[4] add(c0, s)
)",
                    "next, u0, u1, u2",
                    R"(  nothing = f32[] constant(0)
  all = f32[5,4] broadcast(nothing), dimensions={}
  too = f32[5,4] broadcast(nothing), dimensions={}
)",
                    "x, all, too, all",
                    R"(  d = f32[5,4] subtract(r1, r3)
  ROOT all_of = (f32[4], f32[5,4], f32[5,4]) tuple(r0, r2, d))"}),
            1u);
}

/// Two arrays, a and b in the next trip, of which nothing is known to differ but `init`.
std::size_t merged_pair(const std::string& body, const std::string& init) {
  return merged({{"f32[4]", "f32[4]"},
                 body,
                 "a, b",
                 "  y = f32[4] negate(x)\n  z = f32[4] negate(x)\n",
                 init,
                 "  ROOT both = (f32[4], f32[4]) tuple(r0, r1)"});
}

TEST(LoopCarries, CarriesWithDifferentInitialValuesStay) {
  const char* doubled = "  a = f32[4] add(c0, c0)\n  b = f32[4] add(c1, c1)\n";
  EXPECT_EQ(merged_pair(doubled, "x, y"), 0u);
  EXPECT_EQ(merged_pair(doubled, "y, z"), 1u);
}

TEST(LoopCarries, SwappedCarriesStayEqualIfInitiallyEqual) {
  const char* swapped = "  a = f32[4] sine(c1)\n  b = f32[4] sine(c0)\n";
  EXPECT_EQ(merged_pair(swapped, "x, x"), 1u);
  EXPECT_EQ(merged_pair(swapped, "x, y"), 0u);
}

TEST(LoopCarries, CarriesThatDivergeSeparateThoseComputedFromThem) {
  // c2 follows c1, and c1 takes another way than c0: only in the second trip do c2 and c3 differ.
  EXPECT_EQ(merged({{"f32[4]", "f32[4]", "f32[4]", "f32[4]"},
                    "  a = f32[4] sine(c0)\n  b = f32[4] cosine(c1)\n",
                    "a, b, c1, c0",
                    "",
                    "x, x, x, x",
                    "  ROOT both = (f32[4], f32[4]) tuple(r2, r3)"}),
            0u);
}

TEST(LoopCarries, UnusedCarriesAreRemoved) {
  // c1 and c2 feed each other only.
  EXPECT_EQ(merged({{"f32[4]", "f32[4]", "f32[4]"},
                    "  a = f32[4] sine(c0)\n  b = f32[4] add(c2, c0)\n  d = f32[4] sine(c1)\n",
                    "a, b, d",
                    "",
                    "x, x, x",
                    "  ROOT n = f32[4] negate(r0)"}),
            2u);
  // One that the result is computed from, through the other, stays.
  EXPECT_EQ(merged({{"f32[4]", "f32[4]", "f32[4]"},
                    "  a = f32[4] add(c0, c2)\n  b = f32[4] add(c2, c0)\n  d = f32[4] sine(c1)\n",
                    "a, b, d",
                    "  y = f32[4] negate(x)\n",
                    "x, y, x",
                    "  ROOT n = f32[4] negate(r0)"}),
            0u);
}

}  // namespace
}  // namespace tessera::passes
