// SPDX-License-Identifier: Apache-2.0
// Trip counts of loops, where they are known.
#include "src/passes/analysis/trip_counts.h"

#include <gtest/gtest.h>

#include "src/ir/hlo/hlo_text.h"

namespace tessera::passes {
namespace {

struct Case {
  std::string start = "0", limit = "10", step = "1";
  std::string next = "add(i, step)", test = "compare(i, n)", direction = "LT", dtype = "s32";
};

std::optional<std::int64_t> trips(const Case& c) {
  const std::string t = c.dtype + "[]";
  const std::string text =
      "HloModule m\n\nbody {\n  p = (" + t + ", f32[4]{0}) parameter(0)\n  i = " + t +
      " get-tuple-element(p), index=0\n  x = f32[4]{0} get-tuple-element(p), index=1\n"
      "  step = " +
      t + " constant(" + c.step + ")\n  next = " + t + " " + c.next +
      "\n  y = f32[4]{0} add(x, x)\n  ROOT r = (" + t +
      ", f32[4]{0}) tuple(next, y)\n}\n\n"
      "condition {\n  p = (" +
      t + ", f32[4]{0}) parameter(0)\n  i = " + t + " get-tuple-element(p), index=0\n  n = " + t +
      " constant(" + c.limit + ")\n  ROOT c = pred[] " + c.test + ", direction=" + c.direction +
      "\n}\n\nENTRY main {\n  x = f32[4]{0} parameter(0)\n  start = " + t + " constant(" + c.start +
      ")\n  init = (" + t + ", f32[4]{0}) tuple(start, x)\n  ROOT w = (" + t +
      ", f32[4]{0}) while(init), condition=condition, body=body\n}\n";
  const auto module = ir::parse_hlo(text);
  find_trip_counts(module.get());
  return module->entry()->root()->get<ir::WhileAttrs>().known_trip_count;
}

TEST(TripCounts, OfCountersAgainstConstants) {
  EXPECT_EQ(trips({}), 10);
  EXPECT_EQ(trips({.direction = "LE"}), 11);
  EXPECT_EQ(trips({.step = "3"}), 4);
  EXPECT_EQ(trips({.start = "10"}), 0);
  EXPECT_EQ(trips({.start = "12", .direction = "LE"}), 0);
  EXPECT_EQ(trips({.step = "2", .direction = "NE"}), 5);
  EXPECT_EQ(trips({.next = "add(step, i)", .test = "compare(n, i)", .direction = "GT"}), 10);
  EXPECT_EQ(trips({.start = "9", .limit = "0", .step = "-1", .direction = "GE"}), 10);
  EXPECT_EQ(trips({.start = "9", .limit = "0", .next = "subtract(i, step)", .direction = "GT"}), 9);
  EXPECT_EQ(trips({.limit = "200", .dtype = "u8"}), 200);
}

TEST(TripCounts, UnknownWhereTheyCannotBeSure) {
  // Away from the limit, or past the greatest number: it wraps around.
  EXPECT_EQ(trips({.step = "-1"}), std::nullopt);
  EXPECT_EQ(trips({.limit = "127", .step = "2", .dtype = "s8"}), std::nullopt);
  EXPECT_EQ(trips({.limit = "127", .direction = "LE", .dtype = "s8"}), std::nullopt);
  EXPECT_EQ(trips({.step = "3", .direction = "NE"}), std::nullopt);
  EXPECT_EQ(trips({.direction = "EQ"}), std::nullopt);
  EXPECT_EQ(trips({.step = "0"}), std::nullopt);
  EXPECT_EQ(trips({.next = "multiply(i, step)"}), std::nullopt);
  EXPECT_EQ(trips({.next = "subtract(step, i)"}), std::nullopt);
}

TEST(TripCounts, LimitsMayBeCarried) {
  const auto module = ir::parse_hlo(R"(HloModule m

body {
  p = (s32[], s32[]) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  i = s32[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT r = (s32[], s32[]) tuple(n, next)
}

condition {
  p = (s32[], s32[]) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  i = s32[] get-tuple-element(p), index=1
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY main {
  zero = s32[] constant(0)
  seven = s32[] constant(7)
  init = (s32[], s32[]) tuple(seven, zero)
  known = (s32[], s32[]) while(init), condition=condition, body=body
  x = s32[] parameter(0)
  open = (s32[], s32[]) tuple(x, zero)
  ROOT unknown = (s32[], s32[]) while(open), condition=condition, body=body
}
)");
  EXPECT_EQ(find_trip_counts(module.get()), 1u);
  for (const auto& i : module->entry()->instructions()) {
    if (i->name != "known") continue;
    EXPECT_EQ(i->get<ir::WhileAttrs>().known_trip_count, 7);
  }
  EXPECT_EQ(module->entry()->root()->get<ir::WhileAttrs>().known_trip_count, std::nullopt);
  EXPECT_EQ(find_trip_counts(module.get()), 0u);
}

}  // namespace
}  // namespace tessera::passes
