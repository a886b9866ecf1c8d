// SPDX-License-Identifier: Apache-2.0
// Events: who waits, who is called, and errors.
#include "src/base/threads/event.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include <tessera/error.h>

namespace tessera {
namespace {

TEST(Event, WaitersGoOnWhenItHappens) {
  Event event;
  EXPECT_FALSE(event.is_complete());
  std::atomic<int> through{0};
  std::vector<std::thread> waiters;
  for (int k = 0; k < 4; ++k) {
    waiters.emplace_back([&] {
      event.wait();
      ++through;
    });
  }
  EXPECT_EQ(through, 0);
  event.complete();
  for (std::thread& t : waiters) t.join();
  EXPECT_EQ(through, 4);
  EXPECT_TRUE(event.is_complete());
  event.wait();  // at once
}

TEST(Event, CallbacksAreCalledOnce) {
  Event event;
  int before = 0, after = 0;
  event.when_complete([&](const std::exception_ptr& error) {
    EXPECT_FALSE(error);
    ++before;
  });
  EXPECT_EQ(before, 0);
  event.complete();
  EXPECT_EQ(before, 1);
  event.when_complete([&](const std::exception_ptr&) { ++after; });
  EXPECT_EQ(after, 1);
  EXPECT_EQ(before, 1);
}

TEST(Event, ErrorsReachWaitersAndCallbacks) {
  Event event;
  std::string called;
  event.when_complete([&](const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const RuntimeError& e) {
      called = e.what();
    }
  });
  event.fail(std::make_exception_ptr(RuntimeError("the device is gone")));
  EXPECT_TRUE(event.is_complete());
  EXPECT_NE(called.find("the device is gone"), std::string::npos);
  EXPECT_THROW(event.wait(), RuntimeError);
  EXPECT_THROW(event.wait(), RuntimeError);
  EXPECT_THROW(event.complete(), InternalError);
}

}  // namespace
}  // namespace tessera
