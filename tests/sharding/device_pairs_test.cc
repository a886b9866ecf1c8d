// SPDX-License-Identifier: Apache-2.0
// Pairs of permutes: copies are one list, what is known of it is right, and order.
#include "src/sharding/axes/device_pairs.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tessera {
namespace {

using Pairs = std::vector<DevicePairs::Pair>;

TEST(DevicePairs, CopiesAreOneListAndEqualListsAreEqual) {
  const DevicePairs none, some{{0, 1}, {1, 0}}, copy = some, same{{0, 1}, {1, 0}};
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none, DevicePairs(Pairs()));
  EXPECT_EQ(none.begin(), none.end());
  EXPECT_EQ(some.place(), copy.place());
  EXPECT_NE(some.place(), same.place());
  EXPECT_EQ(some, same);
  EXPECT_FALSE(some == (DevicePairs{{1, 0}, {0, 1}}));
  EXPECT_FALSE(some == none);
  EXPECT_EQ(Pairs(some.begin(), some.end()), some.pairs());
  EXPECT_TRUE(none < some);
  EXPECT_FALSE(some < same || same < some || some < copy);
  EXPECT_TRUE(some < (DevicePairs{{0, 2}}));
}

TEST(DevicePairs, TellWhoMovesAndWhoStandsTwice) {
  const DevicePairs stay{{0, 0}, {1, 1}};
  EXPECT_FALSE(stay.facts().moves);
  EXPECT_TRUE(stay.all_stay(2));
  EXPECT_FALSE(stay.all_stay(3));
  EXPECT_FALSE((DevicePairs{{0, 1}, {1, 0}}.all_stay(2)));
  const DevicePairs wrong{{7, 2}, {5, 900}, {7, -1}, {1, 2}, {5, 3}};
  EXPECT_TRUE(wrong.facts().moves);
  EXPECT_FALSE(wrong.facts().sorted);
  EXPECT_EQ(wrong.facts().sources.twice, 5);
  EXPECT_EQ(wrong.facts().targets.twice, 2);
  EXPECT_EQ(wrong.facts().sources.least, 1);
  EXPECT_EQ(wrong.facts().targets.least, -1);
  EXPECT_EQ(wrong.facts().greatest(), 900);
  EXPECT_EQ((DevicePairs{{0, 5000}, {9000, 3}}.facts().sources.twice), std::nullopt);
  EXPECT_EQ(DevicePairs().facts().greatest(), -1);
}

TEST(DevicePairs, AreSortedOnce) {
  const DevicePairs up{{0, 1}, {1, 0}}, down{{1, 0}, {0, 1}};
  EXPECT_EQ(up.sorted().place(), up.place());
  EXPECT_EQ(down.sorted(), up);
  EXPECT_EQ(down.sorted().place(), down.sorted().place());
  EXPECT_TRUE(DevicePairs().sorted().empty());
}

TEST(DevicePairs, AreLookedAtFromSeveralThreads) {
  Pairs list;
  for (std::int64_t d = 0; d < 4096; ++d) list.emplace_back(4095 - d, d);
  const DevicePairs pairs(std::move(list));
  std::vector<std::thread> threads;
  std::vector<int> right(4, 0);
  for (std::size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&, t] {
      const DevicePairs sorted = pairs.sorted();
      right[t] = pairs.facts().moves && sorted[0].first == 0 && sorted.facts().sorted;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, std::vector<int>(4, 1));
}

}  // namespace
}  // namespace tessera
