// SPDX-License-Identifier: Apache-2.0
// The cache that evicts the least recently used value.
#include "src/base/lru_cache.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tessera {
namespace {

std::vector<std::string> values(const LruCache<int, std::string>& cache) {
  std::vector<std::string> out;
  cache.for_each([&](const std::string& v) { out.push_back(v); });
  return out;
}

TEST(LruCache, EvictsTheLeastRecentlyUsed) {
  LruCache<int, std::string> cache(3);
  EXPECT_EQ(cache.find(1), nullptr);
  for (int i = 1; i <= 3; ++i) EXPECT_FALSE(cache.insert(i, std::to_string(i)).has_value());
  ASSERT_NE(cache.find(1), nullptr);
  EXPECT_EQ(values(cache), (std::vector<std::string>{"1", "3", "2"}));
  EXPECT_EQ(cache.insert(4, "4").value(), "2");
  EXPECT_EQ(cache.find(2), nullptr);
  EXPECT_EQ(cache.insert(5, "5").value(), "3");
  EXPECT_EQ(values(cache), (std::vector<std::string>{"5", "4", "1"}));
  EXPECT_EQ(cache.size(), 3u);
}

TEST(LruCache, DistinguishesValuesOfOneKey) {
  LruCache<int, std::string> cache(3);
  cache.insert(7, "a");
  cache.insert(7, "b");
  cache.insert(8, "c");
  const auto is = [](std::string text) {
    return [text](const std::string& v) { return v == text; };
  };
  EXPECT_EQ(*cache.find(7, is("a")), "a");
  EXPECT_EQ(*cache.find(7, is("b")), "b");
  EXPECT_EQ(cache.find(7, is("c")), nullptr);
  // Of two values under one key the right one goes.
  cache.insert(9, "d");
  EXPECT_EQ(values(cache), (std::vector<std::string>{"d", "b", "a"}));
  EXPECT_EQ(cache.insert(9, "e").value(), "a");
  EXPECT_EQ(*cache.find(7, is("b")), "b");
  EXPECT_EQ(cache.find(7, is("a")), nullptr);
}

TEST(LruCache, SearchesTheMostRecentlyUsedFirst) {
  LruCache<int, std::string> cache(4);
  for (int i = 0; i < 4; ++i) cache.insert(i, std::to_string(i));
  const auto is_zero = [](const std::string& v) { return v == "0"; };
  EXPECT_EQ(cache.find_recent(3, is_zero), nullptr);
  EXPECT_EQ(*cache.find_recent(4, is_zero), "0");
  EXPECT_EQ(values(cache), (std::vector<std::string>{"0", "3", "2", "1"}));
}

TEST(LruCache, MayHoldNothing) {
  LruCache<int, std::string> cache(0);
  EXPECT_EQ(cache.insert(1, "1").value(), "1");
  EXPECT_EQ(cache.find(1), nullptr);
}

}  // namespace
}  // namespace tessera
