// SPDX-License-Identifier: Apache-2.0
// Copies between parts of an array.
#include "src/base/box.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tessera {
namespace {

TEST(Box, CopiesTheIntersectionOfTwoParts) {
  std::mt19937 bits(7);
  const auto below = [&](int n) { return std::int64_t(bits() % unsigned(n)); };
  for (int trial = 0; trial < 500; ++trial) {
    const std::size_t rank = std::size_t(below(4));
    Box from, to;
    for (std::size_t d = 0; d < rank; ++d) {
      from.start.push_back(below(3));
      from.size.push_back(below(4));
      to.start.push_back(below(3));
      to.size.push_back(below(4));
    }
    std::vector<std::int32_t> source(std::size_t(from.element_count())),
        target(std::size_t(to.element_count()), -1);
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = std::int32_t(i);
    copy_common(reinterpret_cast<const std::byte*>(source.data()), from,
                reinterpret_cast<std::byte*>(target.data()), to, sizeof(std::int32_t));
    for (std::size_t i = 0; i < target.size(); ++i) {
      // The element's position in the entire array, and from there in the source.
      std::int64_t rest = std::int64_t(i), place = 0, stride = 1;
      bool held = true;
      for (std::size_t d = rank; d-- > 0;) {
        const std::int64_t at = to.start[d] + rest % to.size[d] - from.start[d];
        rest /= to.size[d];
        held = held && at >= 0 && at < from.size[d];
        place += at * stride;
        stride *= from.size[d];
      }
      ASSERT_EQ(target[i], held ? std::int32_t(place) : -1) << trial << " " << i;
    }
  }
}

TEST(Box, CoversItself) {
  const Box whole = Box::entire({4, 6}), padded{{2, 0}, {4, 6}}, part{{2, 1}, {2, 3}};
  EXPECT_TRUE(covers(whole, whole));
  EXPECT_TRUE(covers(whole, part));
  EXPECT_FALSE(covers(whole, padded));
  EXPECT_TRUE(covers(padded, part));
}

}  // namespace
}  // namespace tessera
