// SPDX-License-Identifier: Apache-2.0
// Small vectors of indices behave as vectors do.
#include "src/base/small_vector.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

namespace tessera {
namespace {

std::vector<int> numbers(const IndexList& list) { return {list.begin(), list.end()}; }

TEST(IndexList, DoesWhatAVectorDoes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return std::size_t(random() % n); };
  IndexList list;
  std::vector<int> expected;
  for (int step = 0; step < 20000; ++step) {
    const int value = int(below(9));
    const std::size_t at = below(expected.size() + 1);
    switch (below(10)) {
      case 0:
      case 1:
        list.push_back(value);
        expected.push_back(value);
        break;
      case 2:
        list.insert(list.begin() + std::ptrdiff_t(at), value);
        expected.insert(expected.begin() + std::ptrdiff_t(at), value);
        break;
      case 3: {
        const std::vector<int> more(below(4), value);
        list.insert(list.begin() + std::ptrdiff_t(at), more.begin(), more.end());
        expected.insert(expected.begin() + std::ptrdiff_t(at), more.begin(), more.end());
        break;
      }
      case 4:
        if (at == expected.size()) break;
        list.erase(list.begin() + std::ptrdiff_t(at));
        expected.erase(expected.begin() + std::ptrdiff_t(at));
        break;
      case 5:
        list.erase(list.begin() + std::ptrdiff_t(at), list.end());
        expected.erase(expected.begin() + std::ptrdiff_t(at), expected.end());
        break;
      case 6:
        erase_if(list, [&](int x) { return x == value; });
        std::erase(expected, value);
        break;
      case 7: {
        IndexList copy = list;
        list = std::move(copy);
        IndexList other(at, value);
        std::swap(list, other);
        std::swap(list, other);
        break;
      }
      case 8:
        list.resize(at, value);
        expected.resize(at, value);
        break;
      default:
        if (expected.size() > 12) {
          list.clear();
          expected.clear();
        }
    }
    ASSERT_EQ(numbers(list), expected);
    ASSERT_TRUE(list == IndexList(expected));
  }
}

TEST(IndexList, OrdersAsVectorsDo) {
  const std::vector<std::vector<int>> lists{{}, {0}, {0, 1}, {1}, {1, 0, 0, 0, 0, 7}, {2}};
  std::map<IndexList, int> map;
  for (const auto& a : lists) {
    for (const auto& b : lists) EXPECT_EQ(IndexList(a) < IndexList(b), a < b);
    map[a] = int(a.size());
  }
  EXPECT_EQ(map.size(), lists.size());
  EXPECT_EQ(map.at({1, 0, 0, 0, 0, 7}), 6);
}

TEST(IndexList, ChecksPlaces) {
  const IndexList list{4, 5};
  EXPECT_EQ(list.at(1), 5);
  EXPECT_THROW((void)list.at(2), std::out_of_range);
}

}  // namespace
}  // namespace tessera
