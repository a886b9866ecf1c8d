// SPDX-License-Identifier: Apache-2.0
// Storage: bytes counted, limits, sharing, alignment.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <tessera/error.h>

#include "src/base/device_classes.h"
#include "src/base/threads/task_pool.h"
#include "src/runtime/buffer.h"
#include "src/runtime/guarded_blocks.h"
#include "src/runtime/small_blocks.h"

namespace tessera::runtime {
namespace {

TEST(Storage, CountsLiveBytesAndTheirPeak) {
  const std::int64_t before = memory_stats().current;
  reset_peak_memory();
  EXPECT_EQ(memory_stats().peak, before);
  {
    const auto a = Storage::allocate(1000);
    const auto b = Storage::allocate(1 << 20);
    EXPECT_EQ(memory_stats().current, before + 1000 + (1 << 20));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a->data()) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b->data()) % 64, 0u);
    std::memset(b->data(), 1, b->bytes());
  }
  // Freed blocks that are kept for reuse are not alive.
  EXPECT_EQ(memory_stats().current, before);
  EXPECT_EQ(memory_stats().peak, before + 1000 + (1 << 20));
  reset_peak_memory();
  EXPECT_EQ(memory_stats().peak, before);
}

TEST(Storage, EachKindOfMemoryIsCountedApart) {
  const std::int64_t device = memory_stats().current,
                     pinned = memory_stats(MemoryKind::pinned_host).current,
                     unpinned = memory_stats(MemoryKind::unpinned_host).current;
  reset_peak_memory();
  {
    const auto a = Storage::allocate(1 << 16, MemoryKind::pinned_host);
    EXPECT_EQ(a->kind(), MemoryKind::pinned_host);
    EXPECT_EQ(memory_stats(MemoryKind::pinned_host).current, pinned + (1 << 16));
    EXPECT_EQ(memory_stats().current, device);
    EXPECT_EQ(memory_stats(MemoryKind::unpinned_host).current, unpinned);
  }
  EXPECT_EQ(memory_stats(MemoryKind::pinned_host).current, pinned);
  EXPECT_EQ(memory_stats(MemoryKind::pinned_host).peak, pinned + (1 << 16));
  EXPECT_EQ(memory_stats().peak, device);
  // A block goes back to its own pool.
  const auto a = Storage::allocate(1 << 16, MemoryKind::pinned_host);
  const auto b = Storage::allocate(1 << 16);
  EXPECT_NE(a->data(), b->data());
  EXPECT_EQ(b->kind(), MemoryKind::device);
}

TEST(Storage, AllocationsBeyondTheMemoryAreErrorsWithTheirBytes) {
  const std::int64_t before = memory_stats().current;
  for (const std::size_t bytes : {std::size_t(1) << 50, SIZE_MAX - 10}) {
    try {
      Storage::allocate(bytes);
      FAIL() << "allocated";
    } catch (const RuntimeError& e) {
      EXPECT_NE(std::string(e.what()).find(std::to_string(bytes) + " bytes"), std::string::npos)
          << e.what();
    }
  }
  EXPECT_EQ(memory_stats().current, before);
}

TEST(Storage, SharedBytesCountOnce) {
  const std::int64_t before = memory_stats().current;
  DeviceBuffer a{Storage::allocate(4096)};
  DeviceBuffer b = a;
  EXPECT_EQ(memory_stats().current, before + 4096);
  a = DeviceBuffer();
  EXPECT_EQ(memory_stats().current, before + 4096);
  EXPECT_TRUE(bool(b));
  EXPECT_EQ(b.bytes(), 4096u);
}

TEST(Storage, EmptyBlocksHaveAnAddress) {
  const auto a = Storage::allocate(0);
  EXPECT_NE(a->data(), nullptr);
  EXPECT_EQ(a->bytes(), 0u);
}

TEST(Storage, ManyThreadsAgreeOnTheCount) {
  const std::int64_t before = memory_stats().current;
  parallel_for(64, [](std::int64_t i) {
    for (int k = 0; k < 50; ++k) {
      const auto a = Storage::allocate(std::size_t(1) << (10 + (i + k) % 8));
      a->data()[0] = std::byte(k);
    }
  });
  EXPECT_EQ(memory_stats().current, before);
}

TEST(DeviceClasses, JoinIsTheCoarsestRefinementOfBoth) {
  const auto rows = DeviceClasses::by_key({{0}, {0}, {1}, {1}});
  const auto columns = DeviceClasses::by_key({{7}, {3}, {7}, {3}});
  EXPECT_EQ(rows.class_of, (std::vector<std::int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(columns.class_of, (std::vector<std::int32_t>{0, 1, 0, 1}));
  EXPECT_EQ(columns.representative, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(DeviceClasses::join(rows, columns), DeviceClasses::distinct(4));
  EXPECT_EQ(DeviceClasses::join(rows, DeviceClasses::uniform(4)), rows);
  EXPECT_TRUE(DeviceClasses::distinct(4).refines(rows));
  EXPECT_TRUE(rows.refines(DeviceClasses::uniform(4)));
  EXPECT_FALSE(rows.refines(columns));
}

TEST(GuardedBlocks, EndWhereTheirPagesDo) {
  for (const std::size_t bytes : {1, 64, 65, 4096, 5000, 1 << 20}) {
    std::byte* const block = take_guarded_block(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % kBlockAlignment, 0u);
    std::memset(block, 1, bytes);
    const std::size_t end = (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
    EXPECT_DEATH(*static_cast<volatile std::byte*>(block + end) = std::byte(1), "") << bytes;
    give_guarded_block(block, bytes);
    EXPECT_DEATH(*static_cast<volatile std::byte*>(block) = std::byte(1), "") << bytes;
  }
}

}  // namespace
}  // namespace tessera::runtime
