// SPDX-License-Identifier: Apache-2.0
// Loops whose rows end one by one, as vmap makes them: devices make the trips of their own rows.
#include <gtest/gtest.h>

#include "src/spmd/collectives/optimize.h"
#include "tests/spmd/collective_case.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

/// Counts each row down to 1, adds it to a table on the way, and counts the trips.
struct CountDown {
  std::string work = "x";  ///< what the body asks of a row: that this is above 1
  std::string counts = "select(some, new_count, count)";
  std::string asked = "or";  ///< how devices agree
  bool all_done = false;     ///< the loop asks whether not all rows are done

  std::string text() const {
    return R"(
any { a = pred[] parameter(0)
  b = pred[] parameter(1)
  ROOT r = pred[] )" +
           asked + R"((a, b) }
cond {
  s = (s32[2], s32[2,4], s32[2]) parameter(0)
  x = s32[2] get-tuple-element(s), index=0
  one = s32[] constant(1)
  ones = s32[2] broadcast(one), dimensions={}
  no = pred[] constant()" +
           (all_done ? "true" : "false") + R"()
  some = pred[2] compare(x, ones), direction=)" +
           (all_done ? "LE" : "GT") + R"(
  own = pred[] reduce(some, no), dimensions={0}, to_apply=any
  )" +
           (all_done ? R"(q = pred[] all-reduce(own), to_apply=any, replica_groups={}, channel_id=1
  ROOT p = pred[] not(q))"
                     : "ROOT p = pred[] all-reduce(own), to_apply=any, replica_groups={}, "
                       "channel_id=1") +
           R"(
}
body {
  s = (s32[2], s32[2,4], s32[2]) parameter(0)
  x = s32[2] get-tuple-element(s), index=0
  table = s32[2,4] get-tuple-element(s), index=1
  count = s32[2] get-tuple-element(s), index=2
  one = s32[] constant(1)
  ones = s32[2] broadcast(one), dimensions={}
  more = s32[2] add(x, ones)
  wide = s32[2,4] broadcast(x), dimensions={0}
  new_table = s32[2,4] add(table, wide)
  new_count = s32[2] add(count, ones)
  )" +
           (all_done ? "done = pred[2] compare(" + work + R"(, ones), direction=LE
  some = pred[2] not(done))"
                     : "some = pred[2] compare(" + work + ", ones), direction=GT") +
           R"(
  some_rows = pred[2,4] broadcast(some), dimensions={0}
  less = s32[2] subtract(x, ones)
  next = s32[2] select(some, less, x)
  rows = s32[2,4] select(some_rows, new_table, table)
  counts = s32[2] )" +
           counts + R"(
  ROOT t = (s32[2], s32[2,4], s32[2]) tuple(next, rows, counts)
}
ENTRY e {
  given = s32[2] parameter(0)
  table = s32[2,4] parameter(1)
  id = u32[] partition-id()
  number = s32[] convert(id)
  numbers = s32[2] broadcast(number), dimensions={}
  x = s32[2] add(given, numbers)
  zero = s32[] constant(0)
  zeros = s32[2] broadcast(zero), dimensions={}
  s = (s32[2], s32[2,4], s32[2]) tuple(x, table, zeros)
  ROOT w = (s32[2], s32[2,4], s32[2]) while(s), condition=cond, body=body
}
)";
  }
};

std::size_t stop(ir::Module* m) { return spmd::localize_loop_exits(m); }

CollectiveCase check(const CountDown& d) { return check_collectives(d.text(), stop); }

TEST(StopAlone, RowsThatKeepWhatTheyHaveNeedNoAgreement) {
  const CollectiveCase c = check({});
  EXPECT_EQ(c.changed, 1u);
  EXPECT_EQ(c.collectives(), 0) << c.text;
  EXPECT_EQ(check_optimized(CountDown{}.text()).collectives(), 0);
  EXPECT_EQ(check({.counts = "copy(count)"}).changed, 1u);
  EXPECT_EQ(check({.counts = "select(some, ones, count)"}).changed, 1u);
}

TEST(StopAlone, RowsThatGoOnWaitForAll) {
  EXPECT_EQ(check({.counts = "add(count, ones)"}).changed, 0u);
  EXPECT_EQ(check({.counts = "select(some, new_count, ones)"}).changed, 0u);
  EXPECT_EQ(check({.counts = "select(some, count, new_count)"}).changed, 0u);
  EXPECT_EQ(check({.counts = "copy(x)"}).changed, 0u);
}

TEST(StopAlone, AnotherTestInTheBodyIsNoPromise) {
  // Rows of 1 go on as long as others have work.
  EXPECT_EQ(check({.work = "more"}).changed, 0u);
}

TEST(StopAlone, NotAllDoneIsTheSameQuestion) {
  const CollectiveCase c = check({.asked = "and", .all_done = true});
  EXPECT_EQ(c.changed, 1u);
  EXPECT_EQ(c.collectives(), 0) << c.text;
  EXPECT_EQ(
      check({.counts = "select(done, count, new_count)", .asked = "and", .all_done = true}).changed,
      1u);
  EXPECT_EQ(
      check({.counts = "select(done, new_count, count)", .asked = "and", .all_done = true}).changed,
      0u);
  EXPECT_EQ(check({.work = "more", .asked = "and", .all_done = true}).changed, 0u);
}

TEST(StopAlone, WhatSaysThatRowsAreDoneMayBeCarried) {
  const auto text = [](const std::string& next) {
    return R"(
every { a = pred[] parameter(0)
  b = pred[] parameter(1)
  ROOT r = pred[] and(a, b) }
cond {
  s = (pred[4], s32[4]) parameter(0)
  done = pred[4] get-tuple-element(s), index=0
  yes = pred[] constant(true)
  own = pred[] reduce(done, yes), dimensions={0}, to_apply=every
  all = pred[] all-reduce(own), to_apply=every, replica_groups={}, channel_id=1
  ROOT p = pred[] not(all)
}
body {
  s = (pred[4], s32[4]) parameter(0)
  done = pred[4] get-tuple-element(s), index=0
  x = s32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  ones = s32[4] broadcast(one), dimensions={}
  less = s32[4] subtract(x, ones)
  small = pred[4] compare(less, ones), direction=LT
  next = pred[4] )" +
           next + R"(
  y = s32[4] select(done, x, less)
  ROOT t = (pred[4], s32[4]) tuple(next, y)
}
ENTRY e {
  given = s32[4] parameter(0)
  id = u32[] partition-id()
  number = s32[] convert(id)
  numbers = s32[4] broadcast(number), dimensions={}
  x = s32[4] add(given, numbers)
  no = pred[] constant(false)
  begun = pred[4] broadcast(no), dimensions={}
  s = (pred[4], s32[4]) tuple(begun, x)
  ROOT w = (pred[4], s32[4]) while(s), condition=cond, body=body
})";
  };
  EXPECT_EQ(check_collectives(text("or(done, small)"), stop).changed, 1u);
  // Rows that have moved on: x is kept, and one less of it is still small.
  EXPECT_EQ(check_collectives(text("copy(small)"), stop).changed, 0u);
}

TEST(StopAlone, ConditionsOfManyPathsTakeNoTime) {
  // 2^100 ways from the last to the first.
  std::string counts = "copy(count)\n  c0 = pred[2] compare(count, ones), direction=LT\n";
  for (int k = 0; k < 100; ++k) {
    const std::string from = "c" + std::to_string(k);
    counts.append("  c").append(std::to_string(k + 1)).append(" = pred[2] and(");
    counts.append(from).append(", ").append(from).append(")\n");
  }
  counts += "  other = s32[2] select(c100, new_count, count)";
  std::string text = CountDown{.counts = counts}.text();
  text.replace(text.find("tuple(next, rows, counts)"), 25, "tuple(next, rows, other)");
  EXPECT_EQ(check_collectives(text, stop).changed, 0u);
}

TEST(StopAlone, AllThatMustBeTrueIsNotAny) { EXPECT_EQ(check({.asked = "and"}).changed, 0u); }

TEST(StopAlone, ABodyThatCommunicatesKeepsAllTogether) {
  const CollectiveCase c =
      check({.counts = "all-reduce(count), to_apply=addi, replica_groups={}, channel_id=2"});
  EXPECT_EQ(c.changed, 0u);
  EXPECT_EQ(c.count(Opcode::all_reduce), 2) << c.text;
}

}  // namespace
}  // namespace tessera::testing
