// SPDX-License-Identifier: Apache-2.0
// The cache of two generations.
#include "src/spmd/bounded_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera::spmd {
namespace {

TEST(BoundedCache, HoldsNoMoreThanItsCapacity) {
  BoundedCache<int> cache(8);
  for (int k = 0; k < 100; ++k) {
    cache.add(std::to_string(k), k);
    EXPECT_LE(cache.size(), 8u);
  }
  ASSERT_NE(cache.find("99"), nullptr);
  EXPECT_EQ(*cache.find("99"), 99);
  EXPECT_EQ(cache.find("0"), nullptr);
}

TEST(BoundedCache, KeepsWhatIsLookedUp) {
  BoundedCache<int> cache(8);
  cache.add("used", -1);
  for (int k = 0; k < 100; ++k) {
    cache.add(std::to_string(k), k);
    const int* used = cache.find("used");
    ASSERT_NE(used, nullptr) << k;
    EXPECT_EQ(*used, -1);
    EXPECT_LE(cache.size(), 8u);
  }
}

}  // namespace
}  // namespace tessera::spmd
