// SPDX-License-Identifier: Apache-2.0
// Plans are executed step by step on the shards of all devices; after each step every device must
// have the shard of the step's sharding.
#include "src/spmd/reshard/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "tests/spmd/reshard/reshard_simulation.h"

namespace tessera::spmd {
namespace {

using Kind = ReshardStep::Kind;

double received(const ReshardStep& s, const MeshRef& mesh, double before, double after,
                double sent) {
  double n = 1;
  for (int a : s.axes) n *= double(mesh->axes[std::size_t(a)].size);
  switch (s.kind) {
    case Kind::slice:
    case Kind::unshard:
      return 0;
    case Kind::all_gather:
      return before * (n - 1);
    case Kind::all_to_all:
      return sent * (n - 1) / n;
    case Kind::permute:
      return before;
    case Kind::all_reduce:
      return 2 * before * (n - 1) / n;
    case Kind::reduce_scatter:
      return after * (n - 1);
  }
  return 0;
}

IndexList without_ones(const IndexList& axes, const MeshRef& mesh) {
  IndexList kept;
  for (int a : axes) {
    if (mesh->axes[std::size_t(a)].size > 1) kept.push_back(a);
  }
  return kept;
}

/// Carries a plan out and checks its figures.
void run(const TensorSharding& from, const TensorSharding& to, const Dims& dims) {
  const MeshRef& mesh = to.mesh;
  ReshardPlan plan = plan_reshard(from, to, dims, 4);
  ReshardSimulation simulation(mesh, dims);
  simulation.start(from);
  simulation.verify();
  double bytes = 0;
  int collectives = 0;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const ReshardStep& step = plan.steps[i];
    const std::size_t count = exchanges_in_one(plan.steps, i, simulation.now(), dims);
    if (count > 1) {
      // Each device keeps one piece and passes all others on, once.
      double ways = 1;
      const double holds = double(simulation.bytes());
      for (std::size_t k = i; k < i + count; ++k) {
        for (int a : plan.steps[k].axes) ways *= double(mesh->axes[std::size_t(a)].size);
        simulation.step(plan.steps[k]);
        if (::testing::Test::HasFatalFailure()) return;
      }
      bytes += holds * (ways - 1) / ways;
      ++collectives;
      i += count - 1;
      continue;
    }
    double before = double(simulation.bytes());
    simulation.step(step);
    if (::testing::Test::HasFatalFailure()) return;
    double after = double(simulation.bytes());
    // A gather's figure is before the rows at its boundaries move; so is its result.
    bytes += received(step, mesh, before, after, simulation.sent()) + simulation.extra_bytes();
    collectives +=
        (step.kind != Kind::slice && step.kind != Kind::unshard) + simulation.extra_collectives();
  }
  EXPECT_EQ(simulation.now().shards(), to.shards());
  for (std::int64_t device = 0; device < mesh->num_devices(); ++device) {
    EXPECT_EQ(simulation.now().shard_coordinates(device), to.shard_coordinates(device));
  }
  EXPECT_EQ(without_ones(simulation.now().unreduced, mesh), without_ones(to.unreduced, mesh));
  EXPECT_NEAR(plan.bytes_received, bytes, 1e-6 * (1 + bytes));
  EXPECT_EQ(plan.collectives, collectives);
  EXPECT_DOUBLE_EQ(ReshardPlanner().price(from, to, dims, 4), plan.cost);
  // The search for layouts passes over what can't be cheaper than another one.
  EXPECT_LE(reshard_lower_bound(from, to, dims, 4, cost::Machine()), plan.cost * (1 + 1e-9));
}

TensorSharding random_sharding(const MeshRef& mesh, std::int64_t rank, std::mt19937& random,
                               bool unreduced) {
  TensorSharding s = TensorSharding::replicated_on(mesh, rank);
  IndexList axes(mesh->axes.size());
  for (std::size_t a = 0; a < axes.size(); ++a) axes[a] = int(a);
  std::shuffle(axes.begin(), axes.end(), random);
  for (int a : axes) {
    auto where = random() % std::uint32_t(rank + 2);
    if (where < std::uint32_t(rank)) s.dims[where].axes.push_back(a);
    if (unreduced && where == std::uint32_t(rank)) s.unreduced.push_back(a);
  }
  std::sort(s.unreduced.begin(), s.unreduced.end());
  return s;
}

TensorSharding with(const MeshRef& mesh, std::vector<IndexList> dims, IndexList unreduced = {}) {
  TensorSharding s = TensorSharding::replicated_on(mesh, std::int64_t(dims.size()));
  for (std::size_t d = 0; d < dims.size(); ++d) s.dims[d].axes = dims[d];
  s.unreduced = std::move(unreduced);
  return s;
}

std::vector<Kind> kinds(const ReshardPlan& plan) {
  std::vector<Kind> k;
  for (const auto& step : plan.steps) k.push_back(step.kind);
  return k;
}

unsigned seed() {
  const char* given = std::getenv("TESSERA_TEST_SEED");
  return given ? unsigned(std::atoi(given)) : 20240607u;
}

TEST(Planner, RandomPairsArriveWhereTheySay) {
  std::mt19937 random(seed());
  SCOPED_TRACE("TESSERA_TEST_SEED=" + std::to_string(seed()));
  std::vector<MeshRef> meshes = {
      make_logical_mesh({{"a", 2}, {"b", 2}, {"c", 2}}),
      make_logical_mesh({{"a", 2}, {"b", 4}}),
      make_logical_mesh({{"a", 8}}),
      refine_to_primes(make_logical_mesh({{"a", 8}})),
      make_logical_mesh({{"a", 3}, {"b", 2}}),
      make_logical_mesh({{"a", 2}, {"b", 2}, {"c", 2}}, {3, 1, 0, 2, 7, 6, 4, 5}),
      make_logical_mesh({{"a", 2}, {"b", 2}, {"c", 2}, {"d", 2}, {"e", 2}}),
      make_logical_mesh({{"a", 2}, {"b", 3}, {"c", 2}, {"d", 2}, {"e", 1}}),
  };
  for (int trial = 0; trial < 1500; ++trial) {
    const MeshRef& mesh = meshes[random() % meshes.size()];
    auto rank = std::int64_t(random() % 5);
    Dims dims;
    for (std::int64_t d = 0; d < rank; ++d) {
      dims.push_back(random() % 3 == 0 ? std::int64_t(random() % 11) : 8);
    }
    TensorSharding from = random_sharding(mesh, rank, random, random() % 3 == 0);
    TensorSharding to = random_sharding(mesh, rank, random, random() % 6 == 0);
    SCOPED_TRACE("trial " + std::to_string(trial) + " dims " + to_string(dims) + " from " +
                 from.to_string() + " to " + to.to_string());
    run(from, to, dims);
    if (HasFailure()) return;
  }
}

TEST(Planner, AllPairsOnThreeAxesKeepToSourceAndTarget) {
  MeshRef mesh = make_logical_mesh({{"a", 2}, {"b", 2}, {"c", 2}});
  std::vector<TensorSharding> all;
  IndexList order = {0, 1, 2};
  do {
    for (std::size_t used = 0; used <= 3; ++used) {
      for (std::size_t cut = 0; cut <= used; ++cut) {
        auto at = [&](std::size_t i) { return order.begin() + std::ptrdiff_t(i); };
        TensorSharding s = with(mesh, {{at(0), at(cut)}, {at(cut), at(used)}});
        if (std::none_of(all.begin(), all.end(), [&](auto& o) { return o.same_placement(s); })) {
          all.push_back(s);
        }
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
  ASSERT_EQ(all.size(), 49u);
  double total = 0;
  for (const auto& from : all) {
    for (const auto& to : all) {
      ReshardPlan plan = plan_reshard(from, to, {64, 64}, 4);
      std::int64_t ends =
          element_count(from.shard_dims({64, 64})) * 4 + element_count(to.shard_dims({64, 64})) * 4;
      EXPECT_LE(plan.peak_bytes, ends) << from.to_string() << " to " << to.to_string();
      total += plan.bytes_received / 4;
      run(from, to, {8, 8});
      if (HasFailure()) return;
    }
  }
  // The least that slices, gathers, all-to-alls and permutes can do.
  EXPECT_DOUBLE_EQ(total, 2056704);
}

TEST(Planner, PicksTheExpectedCollective) {
  MeshRef m = make_logical_mesh({{"x", 2}, {"y", 4}});
  const Dims dims = {64, 64};
  auto plan = [&](const TensorSharding& a, const TensorSharding& b) {
    return plan_reshard(a, b, dims, 4);
  };
  using V = std::vector<Kind>;
  EXPECT_EQ(kinds(plan(with(m, {{0}, {}}), with(m, {{0}, {}}))), V{});
  EXPECT_EQ(kinds(plan(with(m, {{}, {}}), with(m, {{0, 1}, {}}))), V{Kind::slice});
  EXPECT_EQ(kinds(plan(with(m, {{1}, {}}), with(m, {{}, {}}))), V{Kind::all_gather});
  EXPECT_EQ(kinds(plan(with(m, {{1}, {}}), with(m, {{}, {1}}))), V{Kind::all_to_all});
  EXPECT_EQ(kinds(plan(with(m, {{0, 1}, {}}), with(m, {{1, 0}, {}}))), V{Kind::permute});
  EXPECT_EQ(kinds(plan(with(m, {{}, {}}, {1}), with(m, {{}, {}}))), V{Kind::all_reduce});
  EXPECT_EQ(kinds(plan(with(m, {{}, {}}, {1}), with(m, {{1}, {}}))), V{Kind::reduce_scatter});
  EXPECT_EQ(kinds(plan(with(m, {{}, {}}, {0, 1}), with(m, {{1}, {0}}))),
            (V{Kind::reduce_scatter, Kind::reduce_scatter}));
  EXPECT_EQ(kinds(plan(with(m, {{}, {}}, {0, 1}), with(m, {{0, 1}, {}}))), V{Kind::reduce_scatter});
  EXPECT_EQ(kinds(plan(with(m, {{}, {}}), with(m, {{}, {}}, {1}))), V{Kind::slice});
  EXPECT_EQ(kinds(plan(with(m, {{1}, {}}), with(m, {{}, {}}, {1}))), V{Kind::unshard});
  EXPECT_EQ(kinds(plan(with(m, {{}, {1}}), with(m, {{}, {}}, {0, 1}))),
            (V{Kind::slice, Kind::unshard}));
  EXPECT_EQ(kinds(plan(with(m, {{}, {}}, {0}), with(m, {{}, {}}, {1}))),
            (V{Kind::slice, Kind::all_reduce, Kind::unshard}));
  // Slicing first makes the rest cheaper.
  ReshardPlan swap = plan(with(m, {{0}, {}}), with(m, {{1}, {}}));
  EXPECT_EQ(swap.steps.front().kind, Kind::slice);
  EXPECT_FALSE(swap.full_gather);
}

// Axes that go to dims of their own, from one dim or from several, go there together.
TEST(Planner, ExchangesInARowAreOne) {
  MeshRef mesh = make_logical_mesh({{"x", 2}, {"y", 4}});
  const Dims dims{16, 8, 8, 24};
  const double shard = 16 * 8 * 8 * 24 * 4 / 8.0;
  for (const auto& [from, to] :
       {std::pair(with(mesh, {{}, {}, {0}, {1}}), with(mesh, {{0}, {1}, {}, {}})),
        std::pair(with(mesh, {{}, {}, {0, 1}, {}}), with(mesh, {{0}, {1}, {}, {}})),
        std::pair(with(mesh, {{0}, {1}, {}, {}}), with(mesh, {{}, {}, {}, {0, 1}}))}) {
    const ReshardPlan plan = plan_reshard(from, to, dims, 4);
    EXPECT_EQ(plan.collectives, 1) << from.to_string() << " to " << to.to_string();
    EXPECT_DOUBLE_EQ(plan.bytes_received, shard * 7 / 8);
    run(from, to, dims);
  }
}

TEST(Planner, SumsAreScatteredRatherThanReduced) {
  MeshRef m = make_logical_mesh({{"x", 2}, {"y", 4}});
  ReshardPlan scatter = plan_reshard(with(m, {{}, {}}, {1}), with(m, {{}, {1}}), {64, 64}, 4);
  EXPECT_DOUBLE_EQ(scatter.bytes_received, 64 * 64 * 4 / 4 * 3);
  const cost::Machine machine;
  EXPECT_DOUBLE_EQ(
      reshard_lower_bound(with(m, {{}, {}}, {0, 1}), with(m, {{0}, {1}}), {64, 64}, 4, machine),
      machine.least(64 * 64 * 4 / 8 * 7));
  ReshardPlan reduce = plan_reshard(with(m, {{}, {}}, {1}), with(m, {{}, {}}), {64, 64}, 4);
  EXPECT_DOUBLE_EQ(reduce.bytes_received, 2 * 64 * 64 * 4 * 3 / 4);
}

TEST(Planner, LargeMeshesAreQuickAndRight) {
  std::mt19937 random(7);
  MeshRef big = refine_to_primes(make_logical_mesh({{"x", 8}, {"y", 8}}));
  // Whole axes move as one.
  ReshardPlan plan = plan_reshard(with(big, {{0, 1, 2}, {3, 4, 5}}),
                                  with(big, {{3, 4, 5}, {0, 1, 2}}), {64, 64}, 4);
  EXPECT_EQ(kinds(plan), std::vector<Kind>{Kind::permute});
  for (int trial = 0; trial < 12; ++trial) {
    TensorSharding from = random_sharding(big, 2, random, false);
    TensorSharding to = random_sharding(big, 2, random, false);
    SCOPED_TRACE(from.to_string() + " to " + to.to_string());
    run(from, to, {64, 64});
  }
}

TEST(Planner, UnevenDimsKeepTheirBlocks) {
  MeshRef m = make_logical_mesh({{"x", 2}, {"y", 4}});
  for (std::int64_t n : {1, 3, 5, 7, 9, 10, 13}) {
    SCOPED_TRACE(n);
    run(with(m, {{1}, {}}), with(m, {{1, 0}, {}}), {n, 4});
    run(with(m, {{1, 0}, {}}), with(m, {{1}, {}}), {n, 4});
    run(with(m, {{1}, {}}), with(m, {{}, {1}}), {n, n});
    run(with(m, {{0}, {1}}), with(m, {{1}, {0}}), {n, n});
    run(with(m, {{}, {}}, {1}), with(m, {{1}, {}}), {n, 3});
  }
}

TEST(Planner, UnevenDimsAreNotGatheredWhole) {
  MeshRef m = make_logical_mesh({{"x", 2}, {"y", 4}});
  // 10 rows in 4 blocks of 3, then in 8 of 2: rows go to a neighbour, no more.
  ReshardPlan plan = plan_reshard(with(m, {{1}}), with(m, {{1, 0}}), {10}, 4);
  EXPECT_FALSE(plan.full_gather);
  EXPECT_LT(plan.bytes_received, 4 * 3);
}

TEST(Planner, AFullGatherIsReported) {
  MeshRef m = make_logical_mesh({{"x", 2}, {"y", 4}});
  EXPECT_FALSE(plan_reshard(with(m, {{0}}), with(m, {{}}), {5}, 4).full_gather);
  EXPECT_FALSE(plan_reshard(with(m, {{0}}), with(m, {{1}}), {16}, 4).full_gather);
  // On one element nothing is cheaper than all of it.
  EXPECT_TRUE(plan_reshard(with(m, {{0}}), with(m, {{1}}), {1}, 4).full_gather);
}

}  // namespace
}  // namespace tessera::spmd
