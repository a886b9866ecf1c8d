// SPDX-License-Identifier: Apache-2.0
// What the choice of shardings must not do: swallow a broken invariant, mistake a user's names for
// its own, miss the work of a branch.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "src/cost/count.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/spmd/auto_sharding/argument_views.h"
#include "src/spmd/auto_sharding/auto_sharding.h"
#include "src/spmd/propagation/propagate.h"
#include "tests/spmd/partitioner/partition_case.h"
#include "tests/support/two_users.h"

namespace tessera::testing {
namespace {

/// A rule that breaks down when it is asked for the n-th time.
class BreaksDown final : public ir::CustomCallTarget {
 public:
  std::optional<ir::FactorRuleSpec> rule(const ir::Instruction& call) const override {
    if (++asked == breaks_at) throw InternalError("the rule of " + call.name + " broke down");
    ir::FactorRuleSpec out;
    out.factor_names = {"i", "j"};
    out.factor_sizes = call.shape.dims;
    out.operands = out.results = {{{0}, {1}}};
    return out;
  }
  mutable std::int64_t asked = 0;
  std::int64_t breaks_at = 0;
};

// Whatever is tried when an invariant breaks, nobody takes it for a sharding that is ruled out.
TEST(AutoSharding, BrokenInvariantsAreNotSwallowed) {
  static const auto rule = std::make_shared<BreaksDown>();
  static const bool once = [] {
    ir::register_custom_call("tessera_test.breaks_down", rule);
    return true;
  }();
  ASSERT_TRUE(once);
  const auto search = [] {
    std::string text = kTwoUsers;
    const std::string tanh = "tanh(h)";
    text.replace(text.find(tanh), tanh.size(),
                 "custom-call(h), custom_call_target=\"tessera_test.breaks_down\"");
    rule->asked = 0;
    (void)spmd::propagate_and_solve(parse_entry(text));
  };
  rule->breaks_at = 0;
  search();
  const std::int64_t all = rule->asked;
  ASSERT_GE(all, 3) << "nothing was solved";
  for (std::int64_t n = 1; n <= all; n += std::max<std::int64_t>(1, all / 100)) {
    rule->breaks_at = n;
    EXPECT_THROW(search(), InternalError) << "when asked for the " << n << "th time of " << all;
  }
  rule->breaks_at = 0;
}

TEST(ArgumentViews, AreKnownWhateverNamesTheProgramHas) {
  auto module = parse_entry(R"(
    x = f32[8,8] parameter(0), sharding={devices=[8,1]<=[8]}
    y = f32[8,8] parameter(1), sharding={devices=[8,1]<=[8]}
    x.view = f32[8,8] negate(x)
    y.view = f32[8,8] custom-call(y), custom_call_target="Sharding", sharding={replicated}
    ROOT r = f32[8,8] add(x.view, y.view))");
  std::set<std::string> users;
  for (const auto& i : module->entry()->instructions()) {
    users.insert(i->name);
    EXPECT_FALSE(spmd::is_argument_view(*i)) << i->name;
  }
  spmd::add_views(module.get());
  // Of copies, and of text that was read again, too.
  for (const auto& m : {module->clone(), ir::parse_hlo(ir::to_string(*module))}) {
    std::size_t found = 0;
    for (const auto& i : m->entry()->instructions()) {
      EXPECT_EQ(spmd::is_argument_view(*i), users.count(i->name) == 0) << i->name;
      found += spmd::is_argument_view(*i);
    }
    EXPECT_EQ(found, 2u);
  }
}

TEST(ArgumentViews, AreNotMadeOfWhatDeadCodeUses) {
  auto module = parse_entry(R"(
    x = f32[64,64] parameter(0), sharding={devices=[8,1]<=[8]}
    y = f32[64,64] parameter(1), sharding={devices=[1,8]<=[8]}
    dead = f32[64,64] add(y, y)
    zero = f32[] constant(0)
    wider = f32[66,64] pad(x, zero), padding=1_1x0_0
    ROOT same = f32[64,64] slice(wider), slice={[1:65],[0:64]})");
  const auto views = [&] {
    const auto& all = module->entry()->instructions();
    return std::count_if(all.begin(), all.end(),
                         [](const auto& i) { return spmd::is_argument_view(*i); });
  };
  spmd::add_views(module.get());
  EXPECT_EQ(views(), 1);
  // Moves are folded, and dead code is dropped.
  const spmd::Propagation propagation(module.get());
  EXPECT_EQ(views(), 1);
}

// Of each kind of work the branch that has most of it.
TEST(CommunicationCount, AConditionalCountsAsItsMostExpensiveBranch) {
  const auto module = ir::parse_hlo(R"(
HloModule m, num_partitions=8
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
talks { x = f32[64,64] parameter(0), sharding={devices=[8,1]<=[8]}
  zero = f32[] constant(0)
  s = f32[] reduce(x, zero), dimensions={0,1}, to_apply=add
  b = f32[64,64] broadcast(s), dimensions={}
  ROOT r = f32[64,64] add(x, b), sharding={devices=[8,1]<=[8]} }
works { x = f32[64,64] parameter(0), sharding={devices=[8,1]<=[8]}
  c = f32[] constant(1)
  w = f32[64,64] broadcast(c), dimensions={}
  ROOT r = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    sharding={devices=[8,1]<=[8]} }
ENTRY e {
  p = pred[] parameter(0), sharding={replicated}
  x = f32[64,64] parameter(1), sharding={devices=[8,1]<=[8]}
  ROOT r = f32[64,64] conditional(p, x, x), true_computation=talks, false_computation=works,
    sharding={devices=[8,1]<=[8]}
})");
  spmd::propagate(module.get());
  const double flops = 2.0 * 64 * 64 * 64 / 8;
  const auto device = spmd::partition(*module, {}, nullptr);
  const cost::CommunicationCount count = cost::count_communication(*device);
  EXPECT_EQ(count.dot_flops, flops) << ir::to_string(*device);
  EXPECT_GT(count.total_bytes, 0) << ir::to_string(*device);
}

}  // namespace
}  // namespace tessera::testing
