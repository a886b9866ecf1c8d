// SPDX-License-Identifier: Apache-2.0
// Groups along axes of a mesh are what their lists are: numbers, and two collectives as one.
#include "src/spmd/collectives/groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace tessera::spmd {
namespace {

using ir::DeviceGroups;

constexpr std::int64_t kDevices = 24;

DeviceLists in_order(DeviceLists lists, bool ordered) {
  for (auto& list : lists) {
    if (!ordered) std::sort(list.begin(), list.end());
  }
  std::sort(lists.begin(), lists.end());
  return lists;
}

DeviceGroups listed(const DeviceGroups& groups) {
  DeviceGroups out;
  out.lists = groups.expand(kDevices);
  return out;
}

class GroupsAlongAxes : public ::testing::TestWithParam<int> {
 protected:
  MeshRef mesh(bool mixed) {
    std::vector<std::int64_t> ids;
    if (mixed) {
      ids.resize(kDevices);
      std::iota(ids.begin(), ids.end(), 0);
      std::shuffle(ids.begin(), ids.end(), random_);
    }
    const std::vector<std::vector<std::pair<std::string, std::int64_t>>> axes = {
        {{"x", 4}, {"y", 6}},
        {{"a", 2}, {"b", 2}, {"c", 2}, {"d", 3}},
        {{"a", 3}, {"b", 1}, {"c", 8}},
        {{"a", 2}, {"b", 3}, {"c", 2}, {"d", 2}},
        {{"all", 24}}};
    return make_logical_mesh(axes[random_() % axes.size()], ids);
  }
  MeshRef on_order_of(const MeshRef& other) {
    auto out = std::make_shared<LogicalMesh>(*mesh(false));
    out->device_ids = other->device_ids;
    return out;
  }
  DeviceGroups groups(const MeshRef& mesh) {
    IndexList axes;
    for (int a = 0; a < int(mesh->axes.size()); ++a) {
      if (random_() % 2 == 0) axes.push_back(a);
    }
    std::shuffle(axes.begin(), axes.end(), random_);
    return DeviceGroups::over(mesh, axes);
  }

  std::mt19937 random_{unsigned(GetParam())};
};

TEST_P(GroupsAlongAxes, HaveTheNumbersOfTheirLists) {
  const MeshRef first = mesh(GetParam() % 2 == 0);
  GroupTable by_axes(kDevices), by_lists(kDevices);
  std::vector<DeviceGroups> all;
  for (int k = 0; k < 24; ++k) {
    DeviceGroups g = groups(k % 3 == 0 ? first : on_order_of(first));
    // In the end also those that only their lists can tell.
    if (k > 12 && k % 5 == 0) g = listed(g);
    if (k > 18) g = groups(mesh(true));
    all.push_back(g);
    for (const DeviceGroups& one : all) {
      for (const bool ordered : {false, true}) {
        EXPECT_EQ(by_axes.id(one, ordered), by_lists.id(listed(one), ordered));
      }
      EXPECT_EQ(by_axes.lists(one), in_order(one.expand(kDevices), true));
    }
    for (const bool ordered : {false, true}) {
      for (const DeviceGroups& one : all) {
        EXPECT_EQ(by_axes.id(one, ordered) == by_axes.id(g, ordered),
                  in_order(one.expand(kDevices), ordered) == in_order(g.expand(kDevices), ordered));
      }
    }
  }
}

TEST_P(GroupsAlongAxes, AreReachedAndScatteredOverAsTheirListsAre) {
  const MeshRef one = mesh(GetParam() % 2 == 0);
  const auto expect_same = [&](const std::optional<DeviceGroups>& is,
                               const std::optional<DeviceGroups>& plain) {
    ASSERT_EQ(is.has_value(), plain.has_value());
    if (is) {
      EXPECT_EQ(*is, as_groups(plain->lists, one, kDevices));
    }
  };
  int joined = 0;
  for (int k = 0; k < 40; ++k) {
    const DeviceGroups inner = groups(one), outer = groups(one);
    GroupTable table(kDevices);
    const DeviceGroups in = listed(inner), out = listed(outer);
    for (const bool order : {false, true}) {
      const auto is = table.reached_over(inner, outer, order);
      expect_same(is, table.reached_over(in, out, order));
      joined += is.has_value();
    }
    expect_same(table.scattered_over(inner, outer), table.scattered_over(in, out));
  }
  EXPECT_GT(joined, 0);
}

INSTANTIATE_TEST_SUITE_P(Random, GroupsAlongAxes, ::testing::Range(0, 40));

TEST(ManyGroups, AreJoinedForManyDevices) {
  // A list of all devices for each of them would not fit into memory.
  const MeshRef mesh = make_logical_mesh({{"x", 256}, {"y", 256}});
  GroupTable table(65536);
  const auto along = [&](IndexList axes) { return DeviceGroups::over(mesh, std::move(axes)); };
  const auto all = table.reached_over(along({1}), along({0}), true);
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(*all, along({0, 1}));
  EXPECT_EQ(table.scattered_over(along({1}), along({0})), along({1, 0}));
  EXPECT_FALSE(table.reached_over(along({1}), along({1}), false).has_value());
  EXPECT_FALSE(table.scattered_over(along({1}), along({1, 0})).has_value());
}

}  // namespace
}  // namespace tessera::spmd
