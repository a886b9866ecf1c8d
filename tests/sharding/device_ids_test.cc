// SPDX-License-Identifier: Apache-2.0
// Lists of devices: what is in them, equality, search.
#include "src/sharding/axes/device_ids.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "src/sharding/axes/logical_mesh.h"

namespace tessera {
namespace {

TEST(DeviceIds, ReadAsTheListThatTheyWereMadeOf) {
  const DeviceIds none, some{3, 1, 2};
  EXPECT_TRUE(none.empty());
  EXPECT_TRUE(DeviceIds(std::vector<std::int64_t>()).empty());
  EXPECT_EQ(none.size(), 0u);
  EXPECT_EQ(none.begin(), none.end());
  EXPECT_TRUE(none.ids().empty());
  EXPECT_EQ(some.size(), 3u);
  EXPECT_EQ(some[2], 2);
  EXPECT_EQ(std::vector<std::int64_t>(some.begin(), some.end()), some.ids());
}

TEST(DeviceIds, CompareByWhatIsInThem) {
  const DeviceIds a{1, 0}, copy = a, same{1, 0};
  EXPECT_EQ(a, copy);
  EXPECT_EQ(&a.ids(), &copy.ids());
  EXPECT_EQ(a, same);
  EXPECT_FALSE(a == (DeviceIds{0, 1}));
  EXPECT_FALSE(a == (DeviceIds{1}));
  EXPECT_FALSE(a == DeviceIds());
  EXPECT_EQ(DeviceIds(), DeviceIds(std::vector<std::int64_t>()));
}

TEST(DeviceIds, FindDevices) {
  const DeviceIds dense{4, 0, 3};
  EXPECT_EQ(dense.position_of(4), 0);
  EXPECT_EQ(dense.position_of(0), 1);
  EXPECT_EQ(dense.position_of(3), 2);
  for (const std::int64_t absent : {-1, 1, 2, 5, 1000}) EXPECT_EQ(dense.position_of(absent), -1);
  EXPECT_EQ(DeviceIds().position_of(0), -1);
  EXPECT_EQ((DeviceIds{2, 7, 2}).position_of(2), 0);
}

TEST(DeviceIds, FindDevicesWhoseNumbersAreFarApartOrNegative) {
  const DeviceIds far{std::int64_t(1) << 60, 5};
  EXPECT_EQ(far.position_of(std::int64_t(1) << 60), 0);
  EXPECT_EQ(far.position_of(5), 1);
  EXPECT_EQ(far.position_of(0), -1);
  const DeviceIds negative{-3, 2};
  EXPECT_EQ(negative.position_of(-3), 0);
  EXPECT_EQ(negative.position_of(2), 1);
  EXPECT_EQ(negative.position_of(-1), -1);
}

TEST(DeviceIds, AreSearchedByManyThreadsAtOnce) {
  std::vector<std::int64_t> reversed;
  for (std::int64_t d = 4096; d-- > 0;) reversed.push_back(d);
  const DeviceIds ids(reversed);
  std::vector<int> wrong(8);
  std::vector<std::thread> threads;
  for (int& mine : wrong) {
    threads.emplace_back([&ids, &mine] {
      for (std::int64_t d = 0; d < 4096; ++d) mine += ids.position_of(d) != 4095 - d;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(8));
}

TEST(DeviceIds, AreSharedByRefinementsOfAMesh) {
  const MeshRef mesh = make_logical_mesh({{"x", 4}}, {3, 1, 2, 0});
  const MeshRef fine = refine_to_primes(mesh);
  ASSERT_EQ(fine->axes.size(), 2u);
  EXPECT_EQ(&fine->device_ids.ids(), &mesh->device_ids.ids());
}

}  // namespace
}  // namespace tessera
