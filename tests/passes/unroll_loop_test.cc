// SPDX-License-Identifier: Apache-2.0
// Loops that do several trips at once give what they gave before.
#include "src/ir/rewrite/unroll_loop.h"

#include <gtest/gtest.h>

#include <vector>

#include "src/base/arrays/literal_util.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/rewrite/while_view.h"
#include "src/ir/shapes/shape_inference.h"

namespace tessera::ir::testing {
namespace {

constexpr const char* kLoop = R"(HloModule m
condition {
  p = (s32[], f32[3], f32[3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(11)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[3], f32[3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[3] get-tuple-element(p), index=1
  w = f32[3] get-tuple-element(p), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  f = f32[] convert(i)
  fs = f32[3] broadcast(f), dimensions={}
  y = f32[3] add(x, fs)
  z = f32[3] multiply(y, w)
  ROOT t = (s32[], f32[3], f32[3]) tuple(j, z, w)
}
ENTRY e {
  a = f32[3] parameter(0)
  b = f32[3] parameter(1)
  s = s32[] constant(1)
  init = (s32[], f32[3], f32[3]) tuple(s, a, b)
  loop = (s32[], f32[3], f32[3]) while(init), condition=condition, body=body
  ROOT r = f32[3] get-tuple-element(loop), index=1
})";

TEST(UnrollLoop, GivesTheSameWhateverIsLeftOver) {
  const std::vector<Literal> arguments{make_literal<float>(DType::f32, {3}, {1, 2, 3}),
                                       make_literal<float>(DType::f32, {3}, {0.5, -1, 1.5})};
  for (const std::int64_t times : {2, 3, 4, 5, 10}) {
    const std::unique_ptr<Module> before = parse_hlo(kLoop), after = parse_hlo(kLoop);
    Instruction* loop = nullptr;
    for (const auto& i : after->entry()->instructions()) {
      if (i->is(Opcode::while_)) loop = i.get();
    }
    const std::optional<std::int64_t> trips = WhileView(*loop).trips();
    ASSERT_EQ(trips, 10);
    int copies = 0;
    const Instruction* unrolled =
        unroll_loop(loop, *trips, times, [&](const Instruction&, const Instruction&) { ++copies; });
    verify(*after);
    EXPECT_EQ(WhileView(*unrolled).trips(), 10 / times);
    EXPECT_GT(copies, 5 * times);
    int loops = 0;
    for (const auto& i : after->entry()->instructions()) loops += i->is(Opcode::while_) ? 1 : 0;
    EXPECT_EQ(loops, 10 % times == 0 ? 1 : 2);
    EXPECT_TRUE(evaluator::evaluate(*before, arguments) == evaluator::evaluate(*after, arguments))
        << times;
  }
}

}  // namespace
}  // namespace tessera::ir::testing
