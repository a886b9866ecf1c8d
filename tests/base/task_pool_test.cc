// SPDX-License-Identifier: Apache-2.0
// The task pool: nested calls, several callers, exceptions.
#include "src/base/threads/task_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "src/base/arrays/subnormals.h"

namespace tessera {
namespace {

TEST(TaskPool, CallsEachIndexOnce) {
  for (std::int64_t n : {0, 1, 2, 7, 1000, 100000}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(n));
    parallel_for(n, [&](std::int64_t i) { ++calls[std::size_t(i)]; });
    for (const auto& c : calls) ASSERT_EQ(c.load(), 1);
  }
  EXPECT_GE(worker_count(), 1);
}

TEST(TaskPool, CallsMayNest) {
  std::atomic<std::int64_t> sum{0};
  parallel_for(20, [&](std::int64_t i) {
    parallel_for(20, [&](std::int64_t j) {
      parallel_for(5, [&](std::int64_t k) { sum += i * 100 + j * 5 + k; });
    });
  });
  EXPECT_EQ(sum.load(), (9.5 * 100 + 9.5 * 5 + 2) * 2000);
}

TEST(TaskPool, SeveralThreadsMayCall) {
  std::atomic<std::int64_t> sum{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        parallel_for(
            40, [&](std::int64_t i) { parallel_for(3, [&](std::int64_t j) { sum += i + j; }); });
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(sum.load(), 6 * 50 * (780 * 3 + 3 * 40));
}

TEST(TaskPool, WhatIsCalledMayWaitForOtherThreadsThatCall) {
  // As a function of the user's does that runs a program in a thread of its own: all workers wait.
  std::atomic<std::int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 2 * worker_count() + 8; ++t) {
    callers.emplace_back([&] {
      parallel_for(2 * worker_count(), [&](std::int64_t) {
        std::thread([&] { parallel_for(50, [&](std::int64_t i) { sum += i; }); }).join();
      });
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(sum.load(), std::int64_t(2 * worker_count() + 8) * 2 * worker_count() * 1225);
}

TEST(TaskPool, TheCallingThreadMayRunWhereItCouldBefore) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  std::atomic<int> calls{0};
  parallel_for(100, [&](std::int64_t) { ++calls; });
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(TaskPool, AnExceptionIsRethrownAndThePoolGoesOn) {
  for (int round = 0; round < 20; ++round) {
    try {
      parallel_for(100, [&](std::int64_t i) {
        parallel_for(4, [&](std::int64_t j) {
          if (i == 37 && j == 2) throw std::runtime_error("at 37");
        });
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "at 37");
    }
  }
  std::atomic<int> calls{0};
  parallel_for(10, [&](std::int64_t) { ++calls; });
  EXPECT_EQ(calls.load(), 10);
}

TEST(TaskPool, TreatsSubnormalNumbersAsTheCallerDoes) {
  const auto halves_are = [](bool zero) {
    std::atomic<int> others{0};
    parallel_for(1000, [&](std::int64_t) {
      volatile float least = 1.2e-38F;
      if ((least * 0.5F == 0) != zero) ++others;
    });
    return others.load() == 0;
  };
  EXPECT_FALSE(flushes_subnormals());
  EXPECT_TRUE(halves_are(false));
  {
    const ScopedSubnormals flush(true);
    EXPECT_TRUE(flushes_subnormals());
    EXPECT_TRUE(halves_are(true));
    {
      const ScopedSubnormals keep(false);
      EXPECT_TRUE(halves_are(false));
    }
    EXPECT_TRUE(flushes_subnormals());
  }
  EXPECT_FALSE(flushes_subnormals());
  EXPECT_TRUE(halves_are(false));
}

}  // namespace
}  // namespace tessera
