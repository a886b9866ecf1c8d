// SPDX-License-Identifier: Apache-2.0
// Orders of instructions with lower peak memory.
#include <gtest/gtest.h>

#include "src/cost/peak_memory.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/spmd/collectives/optimize.h"
#include "tests/spmd/collective_case.h"

namespace tessera::testing {
namespace {

/// Four large arrays, all made before the first one is used.
const std::string kWide = R"(ENTRY e { x = f32[8,64] parameter(0)
  zero = f32[] constant(0)
  a = f32[8,64] negate(x)
  b = f32[8,64] abs(x)
  c = f32[8,64] sign(x)
  d = f32[8,64] multiply(x, x)
  ra = f32[8] reduce(a, zero), dimensions={1}, to_apply=add
  rb = f32[8] reduce(b, zero), dimensions={1}, to_apply=add
  rc = f32[8] reduce(c, zero), dimensions={1}, to_apply=add
  rd = f32[8] all-reduce(rc), to_apply=add, replica_groups={}, channel_id=1
  re = f32[8] reduce(d, zero), dimensions={1}, to_apply=add
  ROOT r = (f32[8], f32[8], f32[8], f32[8]) tuple(ra, rb, rd, re) })";

std::size_t as_used(ir::Module* m) { return spmd::schedule_for_memory(m); }
std::size_t shrinking(ir::Module* m) { return spmd::schedule_for_memory(m, true); }

TEST(MemorySchedule, OpsAreScheduledJustBeforeTheirUsers) {
  const CollectiveCase c = check_collectives(kWide, as_used);
  EXPECT_EQ(c.changed, 1u);
  EXPECT_LT(cost::estimated_peak_bytes(*c.after), 0.5 * cost::estimated_peak_bytes(*c.before))
      << c.text;
  // A second time there is nothing to do.
  EXPECT_EQ(spmd::schedule_for_memory(ir::parse_hlo(c.text).get()), 0u);
}

TEST(MemorySchedule, TheOperandThatNeedsMostComesFirst) {
  // What y leaves is small and what it takes is large: before z, not while z is held.
  const CollectiveCase c = check_collectives(R"(ENTRY e { x = f32[8] parameter(0)
  zero = f32[] constant(0)
  z = f32[8] negate(x)
  wide = f32[8,64] broadcast(x), dimensions={0}
  w = f32[8,64] cosine(wide)
  y = f32[8] reduce(w, zero), dimensions={1}, to_apply=add
  ROOT r = f32[8] add(z, y) })",
                                             as_used, 1e-3);
  const auto index = [&](const char* name) {
    for (const auto& i : c.after->entry()->instructions()) {
      if (i->name == name) return i->index;
    }
    return std::int64_t(-1);
  };
  EXPECT_LT(index("y"), index("z")) << c.text;
}

/// A sum of b, which takes b away, beside a large array that is made of b as well: whether the sum
/// comes first. `last`: of the ops that make it, from b.
void expect_sum_first(const std::string& last) {
  const std::string text = R"(ENTRY e { x = f32[8,64] parameter(0)
  zero = f32[] constant(0)
  b = f32[64,8] transpose(x), dimensions={1,0}
  d = f32[8,8] dot(b, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  large = f32[8,8,8,8] dot(d, d), lhs_contracting_dims={}, rhs_contracting_dims={}
  most = f32[8] reduce(large, zero), dimensions={1,2,3}, to_apply=add
)" + last + R"(
  ROOT r = (f32[8], f32[8]) tuple(most, sum) })";
  const CollectiveCase c = check_collectives(text, shrinking, 1e-3);
  const CollectiveCase plain = check_collectives(text, as_used, 1e-3);
  EXPECT_LT(cost::estimated_peak_bytes(*c.after), cost::estimated_peak_bytes(*plain.after))
      << c.text;
}

TEST(MemorySchedule, OpsThatFreeMemoryRunFirst) {
  // The sum of b, and not b itself, is held while the powers are.
  expect_sum_first("  sum = f32[8] reduce(b, zero), dimensions={0}, to_apply=add");
}

TEST(MemorySchedule, FusedChainsWithSmallResultsRunFirst) {
  // The sum of b's cosine takes b away; the cosine alone leaves as much.
  expect_sum_first(R"(  wave = f32[64,8] cosine(b)
  size = f32[64,8] abs(wave)
  sum = f32[8] reduce(size, zero), dimensions={0}, to_apply=add)");
}

TEST(MemorySchedule, SideEffectsStayWhereTheyAre) {
  auto module = ir::parse_hlo(R"(HloModule m
ENTRY e { x = f32[8] parameter(0)
  a = f32[8] negate(x)
  b = f32[8] abs(x)
  ca = f32[8] custom-call(a), custom_call_target="tell", custom_call_has_side_effect=true
  cb = f32[8] custom-call(b), custom_call_target="tell", custom_call_has_side_effect=true
  ROOT r = f32[8] add(cb, ca) })");
  const std::string before = ir::to_string(*module);
  EXPECT_EQ(spmd::schedule_for_memory(module.get()), 0u);
  EXPECT_EQ(ir::to_string(*module), before);
}

}  // namespace
}  // namespace tessera::testing
