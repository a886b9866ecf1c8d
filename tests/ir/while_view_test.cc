// SPDX-License-Identifier: Apache-2.0
// Views of loops by the values that they carry, and changes of these.
#include "src/ir/rewrite/while_view.h"

#include <gtest/gtest.h>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"

namespace tessera::ir::testing {
namespace {

std::string loop_text(const std::string& start, const std::string& test, const std::string& step) {
  return R"(HloModule m
condition {
  p = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(10)
  ROOT c = pred[] compare(i, n), direction=)" +
         test + R"(
}
body {
  p = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[4] get-tuple-element(p), index=1
  w = f32[4] get-tuple-element(p), index=2
  k = s32[] constant()" +
         step + R"()
  j = s32[] add(i, k)
  y = f32[4] multiply(x, w)
  ROOT t = (s32[], f32[4], f32[4]) tuple(j, y, w)
}
ENTRY e {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  s = s32[] constant()" +
         start + R"()
  init = (s32[], f32[4], f32[4]) tuple(s, a, b)
  ROOT loop = (s32[], f32[4], f32[4]) while(init), condition=condition, body=body
})";
}

Instruction* loop_of(const Module& m) {
  for (const auto& i : m.entry()->instructions()) {
    if (i->is(Opcode::while_)) return i.get();
  }
  return nullptr;
}

TEST(WhileViewTest, KnowsCarries) {
  auto m = parse_hlo(loop_text("0", "LT", "1"));
  const WhileView view(*loop_of(*m));
  EXPECT_EQ(view.size(), 3u);
  EXPECT_TRUE(view.has_tuples());
  EXPECT_FALSE(view.has_separate_carries());  // the entire tuple is returned
  EXPECT_EQ(view.init(1)->name, "a");
  EXPECT_EQ(view.next(1)->name, "y");
  ASSERT_EQ(view.reads(1).size(), 1u);
  EXPECT_EQ(view.reads(1)[0]->name, "x");
  EXPECT_FALSE(view.is_invariant(0));
  EXPECT_FALSE(view.is_invariant(1));
  EXPECT_TRUE(view.is_invariant(2));
}

TEST(WhileViewTest, Counts) {
  struct Case {
    const char *start, *test, *step;
    std::optional<std::int64_t> trips;
  };
  for (const Case& c :
       {Case{"0", "LT", "1", 10}, Case{"0", "LE", "1", 11}, Case{"0", "LT", "3", 4},
        Case{"20", "GT", "-5", 2}, Case{"20", "LT", "1", 0}, Case{"0", "NE", "5", 2},
        Case{"0", "NE", "3", std::nullopt}, Case{"0", "LT", "-1", std::nullopt},
        Case{"0", "LT", "0", std::nullopt}, Case{"0", "EQ", "1", std::nullopt}}) {
    auto m = parse_hlo(loop_text(c.start, c.test, c.step));
    const WhileView view(*loop_of(*m));
    EXPECT_EQ(view.trips(), c.trips) << c.start << " " << c.test << " " << c.step;
    if (c.trips) {
      EXPECT_EQ(view.counter()->carry, 0u);
    }
  }
  auto m = parse_hlo(loop_text("0", "NE", "3"));
  loop_of(*m)->edit<WhileAttrs>().known_trip_count = 7;
  EXPECT_EQ(WhileView(*loop_of(*m)).trips(), 7);
}

TEST(WhileViewTest, AddsCarries) {
  auto m = parse_hlo(loop_text("0", "LT", "1"));
  Instruction* loop = loop_of(*m);
  const std::vector<Instruction*> reads = add_carries(loop, {m->entry()->parameter(1)});
  for (const auto& c : m->computations()) c->sort_topologically();
  verify(*m);
  const WhileView view(*loop);
  EXPECT_EQ(view.size(), 4u);
  EXPECT_EQ(view.reads(3), reads);
  EXPECT_TRUE(view.is_invariant(3));
  EXPECT_EQ(view.init(3)->name, "b");
  // A user of the entire result still sees three elements.
  EXPECT_EQ(m->entry()->root()->shape.elements.size(), 3u);
  EXPECT_EQ(view.trips(), 10);
  EXPECT_TRUE(view.has_separate_carries());

  view.body().root()->set_operand(3, view.next(1));
  keep_carries(loop, {true, true, true, false});
  for (const auto& c : m->computations()) {
    c->sort_topologically();
    c->remove_dead();
  }
  verify(*m);
  EXPECT_EQ(loop->shape.elements.size(), 3u);
}

TEST(WhileViewTest, DropsCarries) {
  auto m = parse_hlo(loop_text("0", "LT", "1"));
  Instruction* loop = loop_of(*m);
  EXPECT_THROW(keep_carries(loop, {true, true, true}), InternalError);
  add_carries(loop, {});
  Computation* body = loop->called(1);
  // w becomes a constant, so that nothing reads its carry.
  Instruction* w = WhileView(*loop).reads(2)[0];
  body->root()->operand(1)->set_operand(1, WhileView(*loop).reads(1)[0]);
  w->replace_all_uses_with(WhileView(*loop).reads(1)[0]);
  m->entry()->set_root(m->entry()->root()->operand(1));
  keep_carries(loop, {true, true, false});
  for (const auto& c : m->computations()) {
    c->sort_topologically();
    c->remove_dead();
  }
  verify(*m);
  EXPECT_EQ(loop->shape.elements.size(), 2u);
  EXPECT_EQ(WhileView(*loop).trips(), 10);
}

}  // namespace
}  // namespace tessera::ir::testing
