// SPDX-License-Identifier: Apache-2.0
// Tilings to axes and back.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "src/sharding/axes/tiling.h"
#include "tests/sharding/random_case.h"

namespace tessera {
namespace {

std::vector<TensorSharding> read(const std::vector<std::string>& texts, std::int64_t n,
                                 MeshRef preferred = nullptr) {
  std::vector<Tiling> tilings;
  std::vector<std::int64_t> ranks;
  for (const std::string& t : texts) {
    tilings.push_back(parse_tilings(t).at(0));
    ranks.push_back(tilings.back().kind == Tiling::Kind::tiled ? tilings.back().rank() : 2);
  }
  return from_tilings(tilings, ranks, n, std::move(preferred));
}

std::string axes_text(const LogicalMesh& mesh) {
  std::string out;
  for (const MeshAxis& a : mesh.axes) out += a.to_string() + "=" + std::to_string(a.size) + " ";
  return out;
}

TEST(TilingAxes, Behaviour_071_TheFewestAxesThatExpressATiling) {
  const auto s = read({"{devices=[6,35]<=[7,10,3]T(2,1,0)}"}, 210);
  EXPECT_EQ(axes_text(*s[0].mesh), "axis_0=7 axis_1=2 axis_2=5 axis_3=3 ");
  EXPECT_EQ(s[0].to_spec_string(), "P((\"axis_3\", \"axis_1\"), (\"axis_2\", \"axis_0\"))");
  EXPECT_EQ(to_tiling(s[0]).to_string(), "{devices=[6,35]<=[7,10,3]T(2,1,0)}");
}

TEST(TilingAxes, OneMeshForAllTilingsOfAModule) {
  const auto s = read({"{devices=[2,4]<=[8]}", "{devices=[4,2]<=[2,4]T(1,0)}", "{replicated}",
                       "{devices=[2,1,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}", "{manual}"},
                      8);
  for (const auto& t : s) EXPECT_EQ(t.mesh, s[0].mesh);
  EXPECT_EQ(axes_text(*s[0].mesh), "axis_0=2 axis_1=2 axis_2=2 ");
  EXPECT_EQ(s[0].to_spec_string(), "P(\"axis_0\", (\"axis_1\", \"axis_2\"))");
  EXPECT_EQ(s[1].to_spec_string(), "P((\"axis_1\", \"axis_2\"), \"axis_0\")");
  EXPECT_EQ(s[2].to_spec_string(), "replicated");
  EXPECT_EQ(s[3].to_spec_string(), "P(\"axis_1\", None)");
  EXPECT_EQ(s[4].manual, (IndexList{0, 1, 2}));
}

TEST(TilingAxes, NamesComeFromThePreferredMesh) {
  const MeshRef mesh = make_logical_mesh({{"data", 2}, {"one", 1}, {"model", 4}});
  const auto s =
      read({"{devices=[2,4]<=[8]}", "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
            "{devices=[2,1,4]<=[2,2,2]T(1,0,2) last_tile_dims={unreduced}}"},
           8, mesh);
  EXPECT_EQ(axes_text(*s[0].mesh), "data=2 one=1 model:(1)2=2 model:(2)2=2 ");
  EXPECT_EQ(s[0].to_spec_string(), "P(\"data\", \"model\")");
  EXPECT_EQ(s[1].to_spec_string(), "P(\"model\", None)");
  EXPECT_EQ(s[2].to_string(),
            "#sdy.sharding<@mesh, [{\"model\":(1)2}, {}], unreduced={\"data\", \"model\":(2)2}>");
  EXPECT_TRUE(same_mesh(s[0].mesh, mesh));
}

TEST(TilingAxes, APreferredMeshWithADeviceOrder) {
  const MeshRef mesh = make_logical_mesh({{"x", 2}, {"y", 3}}, {3, 1, 5, 0, 2, 4});
  const auto s = read({"{devices=[2,3]3,1,5,0,2,4}", "{devices=[3,2]3,0,1,2,5,4}"}, 6, mesh);
  EXPECT_EQ(s[0].mesh, mesh);
  EXPECT_EQ(s[0].to_spec_string(), "P(\"x\", \"y\")");
  EXPECT_EQ(s[1].to_spec_string(), "P(\"y\", \"x\")");
  EXPECT_EQ(to_tiling(s[1]).to_string(), "{devices=[3,2]3,0,1,2,5,4}");
}

TEST(TilingAxes, AnOrderThatIsNoPermutationOfAxesGetsAMeshOfItsOwn) {
  const auto s =
      read({"{devices=[2,2]<=[4]}", "{devices=[2,2]0,1,3,2}", "{devices=[2,2]0,3,1,2}"}, 4);
  EXPECT_TRUE(s[0].mesh->device_ids.empty());
  EXPECT_EQ(s[1].mesh->device_ids, (Dims{0, 1, 3, 2}));
  EXPECT_EQ(s[1].to_spec_string(), "P(\"axis_0\", \"axis_1\")");
  // The third is the second transposed: no third mesh.
  EXPECT_EQ(s[2].mesh, s[1].mesh);
  EXPECT_EQ(s[2].to_spec_string(), "P(\"axis_1\", \"axis_0\")");
}

TEST(TilingAxes, CutsThatDontNestGetTwoMeshesOverOneOrder) {
  const auto s = read({"{devices=[2,3]<=[6]}", "{devices=[3,2]<=[6]}"}, 6);
  EXPECT_EQ(axes_text(*s[0].mesh), "axis_0=2 axis_1=3 ");
  EXPECT_EQ(axes_text(*s[1].mesh), "axis_0=3 axis_1=2 ");
  EXPECT_TRUE(s[1].mesh->device_ids.empty());
  EXPECT_EQ(to_tiling(s[1]).to_string(), "{devices=[3,2]<=[6]}");
}

TEST(TilingAxes, PlainKinds) {
  const auto s = read({"{maximal device=2}", "{unknown}", "{replicated}"}, 4);
  EXPECT_EQ(s[0].kind, TensorSharding::Kind::maximal);
  EXPECT_EQ(s[0].to_spec_string(), "device 2");
  EXPECT_EQ(to_tiling(s[0]).to_string(), "{maximal device=2}");
  EXPECT_EQ(s[1].kind, TensorSharding::Kind::unknown);
  EXPECT_EQ(s[2].mesh, nullptr);
  EXPECT_EQ(to_tiling(s[2]).to_string(), "{replicated}");
  const auto u = read({"{unreduced}", "{replicated shard_as 4}"}, 4);
  EXPECT_EQ(to_tiling(u[0]).to_string(), "{unreduced}");
  EXPECT_EQ(to_tiling(u[1]).to_string(), "{replicated shard_as 4}");
}

TEST(TilingAxes, RanksAndCountsAreChecked) {
  const std::vector<Tiling> t = parse_tilings("{devices=[2,2]<=[4]}");
  const std::vector<std::int64_t> rank{3}, right{2};
  try {
    from_tilings(t, rank, 4);
    FAIL();
  } catch (const ShardingError& e) {
    EXPECT_STREQ(e.what(),
                 "sharding {devices=[2,2]<=[4]} is for a value of rank 2 and stands on one of rank "
                 "3");
  }
  EXPECT_THROW(from_tilings(t, right, 8), ShardingError);
}

/// Row-major list of devices of a sharding by axes, from the coordinates of each device alone.
std::vector<std::int64_t> devices_by_coordinates(const TensorSharding& s, std::int64_t n) {
  std::vector<std::pair<Dims, std::int64_t>> order;
  auto along = [&](std::int64_t device, const IndexList& axes) {
    std::int64_t c = 0;
    for (int a : axes) {
      c = c * s.mesh->axes[std::size_t(a)].size + s.mesh->coordinate(device, a);
    }
    return c;
  };
  for (std::int64_t d = 0; d < n; ++d) {
    Dims key;
    std::vector<bool> used(s.mesh->axes.size());
    for (const auto& dim : s.dims) {
      key.push_back(along(d, dim.axes));
      for (int a : dim.axes) used[std::size_t(a)] = true;
    }
    key.push_back(along(d, s.manual));
    for (int a : s.manual) used[std::size_t(a)] = true;
    key.push_back(along(d, s.unreduced));
    for (int a : s.unreduced) used[std::size_t(a)] = true;
    IndexList rest;
    for (std::size_t a = 0; a < used.size(); ++a) {
      if (!used[a]) rest.push_back(int(a));
    }
    key.push_back(along(d, rest));
    order.emplace_back(key, d);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::int64_t> out;
  for (const auto& [key, d] : order) out.push_back(d);
  return out;
}

/// What a tiling says, whatever the order inside a subgroup: per device its tile, manual and
/// unreduced coordinates don't matter beyond which devices share them.
std::vector<std::vector<std::int64_t>> cells(const Tiling& t) {
  const Tiling c = t.canonical();
  if (c.kind != Tiling::Kind::tiled) return {{std::int64_t(c.kind)}};
  const std::vector<std::int64_t> list = c.device_list();
  std::int64_t copies = 1;
  for (std::size_t i = std::size_t(c.rank()); i < c.tile.size(); ++i) copies *= c.tile[i];
  std::vector<std::vector<std::int64_t>> out;
  for (std::size_t p = 0; p < list.size(); p += std::size_t(copies)) {
    out.emplace_back(list.begin() + std::ptrdiff_t(p), list.begin() + std::ptrdiff_t(p) + copies);
    std::sort(out.back().begin(), out.back().end());
  }
  return out;
}

TEST(TilingAxes, RandomModulesKeepTheirDevices) {
  test::RandomCase random("RandomModulesKeepTheirDevices");
  for (int trial = 0; trial < 400; ++trial) {
    const std::int64_t counts[] = {2, 4, 6, 8, 12, 16, 24};
    const std::int64_t n = counts[random.below(7)];
    MeshRef preferred;
    if (random.chance(40)) {
      std::vector<std::pair<std::string, std::int64_t>> axes;
      for (std::int64_t size : random.factors(n, 1 + random.below(3))) {
        axes.emplace_back(std::string(1, char('a' + axes.size())), size);
      }
      std::vector<std::int64_t> ids;
      if (random.chance(30)) {
        ids.resize(std::size_t(n));
        std::iota(ids.begin(), ids.end(), 0);
        random.shuffle(ids);
      }
      preferred = make_logical_mesh(axes, ids);
    }
    std::vector<Tiling> tilings;
    std::vector<std::int64_t> ranks;
    for (std::int64_t k = 1 + random.below(5); k > 0; --k) {
      Tiling t;
      t.kind = Tiling::Kind::tiled;
      const std::int64_t rank = random.below(4);
      std::int64_t groups = random.below(3);
      if (rank + groups == 0) groups = 1;
      for (std::int64_t g = 0; g < groups; ++g) {
        t.subgroups.push_back(Tiling::Subgroup(random.below(3)));
      }
      t.tile = random.factors(n, rank + groups);
      if (random.chance(30)) {
        t.devices.resize(std::size_t(n));
        std::iota(t.devices.begin(), t.devices.end(), 0);
        random.shuffle(t.devices);
      } else {
        t.reshape = random.factors(n, 1 + random.below(4));
        t.perm.resize(t.reshape.size());
        std::iota(t.perm.begin(), t.perm.end(), 0);
        random.shuffle(t.perm);
      }
      tilings.push_back(t);
      ranks.push_back(rank);
    }
    const auto axes = from_tilings(tilings, ranks, n, preferred);
    ASSERT_EQ(axes.size(), tilings.size());
    for (std::size_t i = 0; i < tilings.size(); ++i) {
      SCOPED_TRACE("seed " + std::to_string(random.seed()) + " trial " + std::to_string(trial) +
                   ": " + tilings[i].to_string() + " -> " + axes[i].to_string());
      ASSERT_EQ(axes[i].rank(), ranks[i]);
      const Tiling back = to_tiling(axes[i]);
      EXPECT_EQ(cells(back), cells(tilings[i]));
      Tiling closed = back;
      if (closed.kind == Tiling::Kind::tiled) {
        EXPECT_EQ(closed.device_list(), devices_by_coordinates(axes[i], n));
        for (std::int64_t d = 0; d < n; ++d) {
          // The device's tile by axes is its tile in the list.
          const std::vector<std::int64_t> list = closed.device_list();
          const std::int64_t p = std::find(list.begin(), list.end(), d) - list.begin();
          Dims data(closed.tile.begin(), closed.tile.begin() + closed.rank());
          const Dims strides = row_major_strides(closed.tile);
          const Dims got = axes[i].shard_coordinates(d);
          for (std::size_t k = 0; k < data.size(); ++k) {
            ASSERT_EQ(got[k], p / strides[k] % closed.tile[k]);
          }
        }
      }
      // Equal placements are seen as equal whatever the refinement.
      if (axes[i].mesh) {
        const TensorSharding fine = axes[i].on(refine_to_primes(axes[i].mesh));
        EXPECT_TRUE(fine.same_placement(axes[i]));
        EXPECT_EQ(fine.to_string(), axes[i].to_string());
        EXPECT_EQ(to_tiling(fine), back);
      }
    }
  }
}

}  // namespace
}  // namespace tessera
