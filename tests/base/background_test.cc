// SPDX-License-Identifier: Apache-2.0
// Work in the background.
#include "src/base/threads/background.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

namespace tessera {
namespace {

TEST(Background, RunsJobsInTheirOrder) {
  std::vector<int> order;
  for (int i = 0; i < 20; ++i) run_in_background([&order, i] { order.push_back(i); });
  wait_for_background();
  ASSERT_EQ(order.size(), 20u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(order[std::size_t(i)], i);
  run_in_background([&] { order.clear(); });
  wait_for_background();
  EXPECT_TRUE(order.empty());
}

TEST(Background, JobsMayThrowAndAddOthers) {
  std::atomic<int> ran = 0;
  run_in_background([] { throw std::runtime_error("lost"); });
  run_in_background([&] {
    ++ran;
    run_in_background([&] { ++ran; });
  });
  EXPECT_THROW(wait_for_background(), std::runtime_error);
  EXPECT_EQ(ran, 2);
  wait_for_background();
}

TEST(Background, RunsWithoutAnybodyWaiting) {
  std::atomic<bool> ran = false;
  run_in_background([&] { ran = true; });
  while (!ran) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  wait_for_background();
}

TEST(Background, TheProcessEndsWhileThereIsWork) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a child without memory of this process
  EXPECT_EXIT(
      {
        for (int i = 0; i < 1000; ++i) {
          run_in_background([] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
        std::exit(3);
      },
      ::testing::ExitedWithCode(3), "");
}

TEST(Background, AChildOfTheProcessHasNone) {
  std::atomic<bool> go = false;
  run_in_background([&] {
    while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  const pid_t child = fork();
  if (child == 0) {
    run_in_background([] {});
    wait_for_background();
    std::exit(7);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  go = true;
  wait_for_background();
}

}  // namespace
}  // namespace tessera
