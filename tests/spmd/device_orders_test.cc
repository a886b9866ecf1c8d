// SPDX-License-Identifier: Apache-2.0
// Shardings on other device orders and factorizations than the program's mesh.
#include "src/spmd/reshard/device_orders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/spmd/propagation/propagate.h"
#include "tests/spmd/partitioner/partition_case.h"
#include "tests/support/random_program.h"
#include "tests/support/shards.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

TEST(Orders, OneDeviceListThatFactorsNowhereIsOnePermute) {
  const PartitionCase c =
      check_partition(R"(x = f32[16,8] parameter(0), sharding={devices=[8,1]0,3,1,2,7,4,6,5}
  y = f32[16,8] parameter(1), sharding={devices=[8,1]<=[8]}
  z = f32[16,8] parameter(2), sharding={devices=[8,1]<=[8]}
  s = f32[16,8] add(x, y)
  ROOT r = f32[16,8] multiply(s, z), sharding={devices=[8,1]<=[8]})");
  EXPECT_EQ(c.count(Opcode::collective_permute), 1) << c.text;
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_EQ(c.report.records[0].bytes_received, 2 * 8 * 4.0);
}

TEST(Orders, ResultsGoToTheirOrderByOnePermute) {
  const PartitionCase c =
      check_partition(R"(y = f32[16,8] parameter(0), sharding={devices=[8,1]<=[8]}
  z = f32[16,8] parameter(1), sharding={devices=[8,1]<=[8]}
  s = f32[16,8] add(y, z)
  ROOT r = f32[16,8] multiply(s, z), sharding={devices=[8,1]5,3,1,2,7,4,6,0})");
  EXPECT_EQ(c.count(Opcode::collective_permute), 1) << c.text;
  EXPECT_EQ(c.collectives(), 1) << c.text;
}

TEST(Orders, AProgramOnOneOddOrderMovesNothing) {
  const PartitionCase c = check_partition(
      R"(x = f32[16,8] parameter(0), sharding={devices=[4,2]0,3,1,2,7,4,6,5}
  y = f32[16,8] parameter(1), sharding={devices=[4,2]0,3,1,2,7,4,6,5}
  ROOT r = f32[16,8] add(x, y), sharding={devices=[4,2]0,3,1,2,7,4,6,5})");
  EXPECT_EQ(c.collectives(), 0) << c.text;
}

TEST(Orders, OtherFactorizationsOfOneOrderNeedNoPermute) {
  // [2,4] and [4,2] cut the same row of devices.
  const PartitionCase c =
      check_partition(R"(x = f32[16,8] parameter(0), sharding={devices=[2,4]<=[8]}
  y = f32[16,8] parameter(1), sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}
  a = f32[16,8] add(x, x)
  b = f32[16,8] add(y, y)
  ROOT t = (f32[16,8], f32[16,8]) tuple(a, b), sharding={{devices=[2,4]<=[8]}, {devices=[4,1,2]<=[8] last_tile_dim_replicate}})");
  EXPECT_EQ(c.collectives(), 0) << c.text;
}

TEST(Orders, EquivalentShardingsKeepTheShapesOfShards) {
  const MeshRef mesh = refine_to_primes(make_logical_mesh({{"x", 12}}));
  const MeshRef other = make_logical_mesh({{"a", 3}, {"b", 4}});
  TensorSharding s = TensorSharding::replicated_on(other, 2);
  s.dims[0].axes = {1};
  s.dims[1].axes = {0};
  const TensorSharding t = spmd::equivalent_on(s, mesh);
  EXPECT_EQ(t.shards(), (Dims{4, 3}));
  std::vector<char> seen(12, 0);
  for (auto [from, to] : spmd::reorder_pairs(s, t)) {
    EXPECT_EQ(s.shard_coordinates(from), t.shard_coordinates(to));
    EXPECT_FALSE(seen[std::size_t(from)]++);
  }
  // The plain order, cut at other places: nothing moves.
  TensorSharding rows = TensorSharding::replicated_on(other, 1);
  rows.dims[0].axes = {0, 1};
  for (auto [from, to] : spmd::reorder_pairs(rows, spmd::equivalent_on(rows, mesh)))
    EXPECT_EQ(from, to);
  EXPECT_THROW(spmd::equivalent_on(s, refine_to_primes(make_logical_mesh({{"x", 8}}))),
               ShardingError);
}

/// Some mesh of the devices: any factorization, any order.
MeshRef random_mesh(Dice& dice, std::int64_t devices) {
  std::vector<std::pair<std::string, std::int64_t>> axes;
  std::int64_t left = devices;
  while (left > 1) {
    std::int64_t size = dice.between(2, left);
    while (left % size != 0) ++size;
    axes.emplace_back("a" + std::to_string(axes.size()), size);
    left /= size;
  }
  if (axes.empty()) axes.emplace_back("a0", 1);
  std::vector<std::int64_t> ids(std::size_t(devices), 0);
  std::iota(ids.begin(), ids.end(), std::int64_t(0));
  const std::int64_t kind = dice.below(3);
  for (std::int64_t k = devices; kind > 0 && --k > 0;) {
    std::swap(ids[std::size_t(k)], ids[std::size_t(dice.below(k + 1))]);
  }
  return make_logical_mesh(axes, kind > 0 ? ids : std::vector<std::int64_t>{},
                           "m" + std::to_string(dice.below(1000)));
}

::testing::AssertionResult agrees(std::uint64_t seed) {
  RandomProgram program = random_program(seed, {});
  Dice dice(seed * 31 + 5);
  const Literal whole = evaluator::evaluate(*program.module, program.arguments);
  const std::int64_t devices = program.module->mesh->num_devices();
  std::vector<MeshRef> meshes;
  for (int k = 0; k < 3; ++k) meshes.push_back(random_mesh(dice, devices));
  ir::Computation* entry = program.module->entry();
  for (const auto& c : program.module->computations()) {
    for (const auto& i : c->instructions()) {
      const bool edge = c.get() == entry && (i->is(Opcode::parameter) || i.get() == c->root());
      const std::vector<Shape> leaves = flatten(i->shape);
      for (std::size_t k = 0; k < i->sharding.size(); ++k) {
        TensorSharding& s = i->sharding[k];
        if (s.kind != TensorSharding::Kind::axes || !dice.chance(0.5)) continue;
        const Shape& leaf = i->sharding.size() == leaves.size() ? leaves[k] : i->shape;
        if (leaf.is_array()) s = random_sharding(dice, dice.pick(meshes), leaf.dims, !edge);
      }
    }
  }
  const std::string before = ir::to_string(*program.module);
  std::string after;
  auto failed = [&](const std::string& why) {
    return ::testing::AssertionFailure() << "seed " << seed << ": " << why << "\n--- program\n"
                                         << before << "\n--- partitioned\n"
                                         << after;
  };
  try {
    spmd::propagate(program.module.get());
    std::unique_ptr<ir::Module> device = spmd::partition(*program.module, {}, nullptr);
    after = ir::to_string(*device);
    ir::verify(*device);
    const auto results =
        evaluator::evaluate_spmd(*device, shard_arguments(*device, program.arguments));
    if (const auto fault =
            difference(results, whole, program.module->entry()->root()->sharding, 0)) {
      return failed(*fault);
    }
  } catch (const std::exception& e) {
    return failed(e.what());
  }
  return ::testing::AssertionSuccess();
}

TEST(Orders, RandomOrdersAndMeshesInOneProgram) {
  const char* text = std::getenv("SOAK_PROGRAMS");
  const int count = text && *text ? std::atoi(text) / 4 : 400;
  int failures = 0;
  for (int seed = 1; seed <= count && failures < 3; ++seed) {
    ::testing::AssertionResult result = agrees(std::uint64_t(seed));
    EXPECT_TRUE(result);
    if (!result) ++failures;
  }
}

}  // namespace
}  // namespace tessera::testing
