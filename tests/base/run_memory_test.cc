// SPDX-License-Identifier: Apache-2.0
// Memory of runs: blocks of all sizes, alignment, and that it grows no more once it is settled.
#include "src/base/threads/run_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "src/base/threads/thread_scratch.h"

namespace tessera {
namespace {

struct Given {
  std::byte* data;
  std::size_t bytes;
  std::byte filled;
};

TEST(RunMemory, BlocksDontOverlapAndAreUsedAgain) {
  RunMemory memory;
  std::mt19937 random(7);
  std::vector<Given> blocks;
  std::int64_t settled_bytes = 0;
  for (int n = 0; n < 6000; ++n) {
    if (n == 3000) {
      memory.settle();
      settled_bytes = memory.bytes();
    }
    if (blocks.size() > 40 || (!blocks.empty() && random() % 2 == 0)) {
      const std::size_t k = random() % blocks.size();
      for (std::size_t i = 0; i < blocks[k].bytes; ++i) {
        ASSERT_EQ(blocks[k].data[i], blocks[k].filled) << n;
      }
      ASSERT_TRUE(memory.give(blocks[k].data));
      blocks[k] = blocks.back();
      blocks.pop_back();
      continue;
    }
    const std::size_t bytes = random() % 3000, alignment = std::size_t(16) << random() % 4;
    auto* const data = static_cast<std::byte*>(memory.take(bytes, alignment));
    ASSERT_NE(data, nullptr) << n;
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(data) % alignment, 0u);
    const auto filled = std::byte(random() % 256);
    std::memset(data, int(filled), bytes);
    blocks.push_back({data, bytes, filled});
  }
  EXPECT_EQ(memory.bytes(), settled_bytes);
  EXPECT_EQ(memory.misses(), 0);
  EXPECT_EQ(memory.take(std::size_t(1) << 30, 16), nullptr);
  EXPECT_EQ(memory.misses(), 1);
  int outside = 0;
  EXPECT_FALSE(memory.give(&outside));
  EXPECT_FALSE(memory.give(nullptr));
}

TEST(RunMemory, TakesTheThreadsPlace) {
  struct Mine {
    std::vector<int> numbers;
  };
  thread_scratch<Mine>().numbers = {1};
  RunMemory memory;
  {
    const RunMemory::Use use(&memory);
    EXPECT_EQ(RunMemory::current(), &memory);
    EXPECT_FALSE(RunMemory::rehearses());
    EXPECT_TRUE(thread_scratch<Mine>().numbers.empty());
    thread_scratch<Mine>().numbers = {2, 3};
    const RunMemory::Use rehearsal(&memory, true);
    EXPECT_TRUE(RunMemory::rehearses());
  }
  EXPECT_EQ(RunMemory::current(), nullptr);
  EXPECT_EQ(thread_scratch<Mine>().numbers.size(), 1u);
  const RunMemory::Use use(&memory);
  EXPECT_EQ(thread_scratch<Mine>().numbers.size(), 2u);
}

}  // namespace
}  // namespace tessera
