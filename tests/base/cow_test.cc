// SPDX-License-Identifier: Apache-2.0
// Copy-on-write objects: who shares one, and when it is copied.
#include "src/base/cow.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace tessera {
namespace {

using Text = Cow<std::string>;

const std::string kLong(100, 'x');

TEST(Cow, EmptyReadsAsTheDefault) {
  const Text a;
  EXPECT_EQ(*a, "");
  EXPECT_EQ(a->size(), 0u);
  EXPECT_EQ(a, Text(std::string()));
  EXPECT_EQ(sizeof(Text), sizeof(void*));
}

TEST(Cow, CopiesReadTheSameObjectUntilOneIsWrittenTo) {
  Text a(kLong), b = a;
  EXPECT_EQ(&*a, &*b);
  b.edit() += "y";
  EXPECT_EQ(*a, kLong);
  EXPECT_EQ(*b, kLong + "y");
  EXPECT_NE(a, b);
  a.edit() += "y";
  EXPECT_EQ(a, b);
}

TEST(Cow, TheOnlyOwnerIsWrittenInPlace) {
  Text a(kLong);
  const std::string* where = &*a;
  {
    const Text b = a;
    EXPECT_EQ(&*b, where);
  }
  a.edit() += "y";
  EXPECT_EQ(&*a, where);
  Text b;
  b.edit() = "new";
  EXPECT_EQ(*b, "new");
}

TEST(Cow, AssignsOverItselfAndMoves) {
  Text a(kLong);
  const Text& same = a;
  a = same;
  EXPECT_EQ(*a, kLong);
  Text b = std::move(a);
  EXPECT_EQ(*b, kLong);
  a = std::move(b);
  EXPECT_EQ(*a, kLong);
}

TEST(Cow, CopiesAreReadAndDroppedByThreads) {
  Text a(kLong);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([copy = a, t]() mutable {
      for (int n = 0; n < 1000; ++n) {
        Text mine = copy;
        mine.edit() += char('a' + t);
        if (mine->size() != kLong.size() + 1 || *copy != kLong) std::abort();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  a.edit() += "!";
  EXPECT_EQ(*a, kLong + "!");
}

}  // namespace
}  // namespace tessera
