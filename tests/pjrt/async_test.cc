// SPDX-License-Identifier: Apache-2.0
// Runs that go on after Execute has returned.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/pjrt/ffi_client.h"

namespace tessera::pjrt_tests {
namespace {

/// Something that functions wait for. It opens by itself after a while, so that no test hangs.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  /// Whether somebody has opened it.
  bool pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return open_; });
  }
  void wait_for_guest() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(30), [&] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

std::string doubles(const float* in, float* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = 2 * in[i];
  return {};
}

const char* const kAddOne = R"(module @add_one {
  func.func public @main(%x: tensor<4xf32> ATTRIBUTES) -> tensor<4xf32> {
    %c = stablehlo.constant dense<1.0> : tensor<4xf32>
    %y = stablehlo.add %x, %c : tensor<4xf32>
    return %y : tensor<4xf32>
  }
})";

/// Calls the function, and does more than what is done within a call.
const char* const kCallsFunctionAndMore = R"(module @calls_and_more {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = stablehlo.custom_call @test_function(%x) {api_version = 4 : i32}
        : (tensor<4xf32>) -> tensor<4xf32>
    %i = stablehlo.iota dim = 1 : tensor<4x1000xf32>
    %b = stablehlo.broadcast_in_dim %y, dims = [0] : (tensor<4xf32>) -> tensor<4x1000xf32>
    %p = stablehlo.multiply %b, %i : tensor<4x1000xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %m = stablehlo.reduce(%p init: %zero) applies stablehlo.minimum across dimensions = [1]
        : (tensor<4x1000xf32>, tensor<f32>) -> tensor<4xf32>
    %r = stablehlo.add %y, %m : tensor<4xf32>
    return %r : tensor<4xf32>
  }
})";

std::string add_one(const std::string& attributes = "") {
  std::string text = kAddOne;
  return text.replace(text.find("ATTRIBUTES"), 10, attributes);
}

/// Counts the first element down to 0, one by one, and adds 1 to all others each time: takes long
/// for large numbers, of which the compiler knows nothing.
const char* const kCounts = R"(module @counts {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %step = stablehlo.constant dense<[-1.0, 1.0, 1.0, 1.0]> : tensor<4xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<1xf32>
    %r = stablehlo.while(%v = %x) : tensor<4xf32>
    cond {
      %first = stablehlo.slice %v [0:1] : (tensor<4xf32>) -> tensor<1xf32>
      %more = stablehlo.compare GT, %first, %zero : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xi1>
      %p = stablehlo.reshape %more : (tensor<1xi1>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %n = stablehlo.add %v, %step : tensor<4xf32>
      stablehlo.return %n : tensor<4xf32>
    }
    return %r : tensor<4xf32>
  }
})";
constexpr float kLong = 4e6F;

/// One call on one device, which returns at once.
struct Call {
  Buffer result;
  PJRT_Event* event = nullptr;
  Answer answer;
};

Call start(const Loaded& loaded, PJRT_Buffer* argument) {
  PJRT_Buffer* const list[] = {argument};
  PJRT_Buffer* const* const lists[] = {list};
  PJRT_Buffer* made[] = {nullptr};
  PJRT_Buffer** const outputs[] = {made};
  Call out;
  auto options = make<PJRT_ExecuteOptions>();
  auto args = make<PJRT_LoadedExecutable_Execute_Args>();
  args.executable = loaded.get();
  args.options = &options;
  args.argument_lists = lists;
  args.num_devices = 1;
  args.num_args = 1;
  args.output_lists = outputs;
  args.device_complete_events = &out.event;
  out.answer = answer(api().PJRT_LoadedExecutable_Execute(&args));
  EXPECT_TRUE(out.answer.ok()) << out.answer.message;
  out.result = Buffer(made[0]);
  return out;
}

Answer wait_for(PJRT_Event* event) {
  auto wait = make<PJRT_Event_Await_Args>();
  wait.event = event;
  const Answer out = answer(api().PJRT_Event_Await(&wait));
  auto gone = make<PJRT_Event_Destroy_Args>();
  gone.event = event;
  api().PJRT_Event_Destroy(&gone);
  return out;
}

PJRT_Event* ready_event(const Buffer& buffer) {
  auto args = make<PJRT_Buffer_ReadyEvent_Args>();
  args.buffer = buffer.get();
  EXPECT_TRUE(answer(api().PJRT_Buffer_ReadyEvent(&args)).ok());
  return args.event;
}

bool is_ready(const Buffer& buffer) {
  auto args = make<PJRT_Event_IsReady_Args>();
  args.event = ready_event(buffer);
  EXPECT_TRUE(answer(api().PJRT_Event_IsReady(&args)).ok());
  auto gone = make<PJRT_Event_Destroy_Args>();
  gone.event = args.event;
  api().PJRT_Event_Destroy(&gone);
  return args.is_ready;
}

TEST(PjrtAsync, ExecuteReturnsBeforeTheRunHasEnded) {
  register_test_handler();
  const Client client(1);
  const Loaded calls = client.compile(kCallsFunctionAndMore, "");
  const Buffer x = client.put({1, 2, 3, 4}, {4});
  Gate gate;
  test_function() = [&](const float* in, float* out, std::int64_t n) {
    return gate.pass() ? doubles(in, out, n) : "nobody came";
  };
  Call call = start(calls, x.get());
  EXPECT_FALSE(is_ready(call.result));
  gate.open();
  EXPECT_TRUE(wait_for(call.event).ok());
  EXPECT_TRUE(is_ready(call.result));
  EXPECT_EQ(get(call.result), (std::vector<float>{2, 4, 6, 8}));
}

TEST(PjrtAsync, RunsFollowEachOther) {
  const Client client(2);
  const Loaded counts = client.compile(kCounts, ""), add = client.compile(add_one(), "");
  const Buffer x = client.put({kLong, 0, 1, 2}, {4}), y = client.put({1, 1, 1, 1}, {4});
  Call first = start(counts, x.get());
  Call second = start(add, first.result.get());
  // It needs nothing of them, but stands behind them.
  Call third = start(add, y.get());
  EXPECT_TRUE(wait_for(third.event).ok());
  EXPECT_TRUE(is_ready(second.result));
  EXPECT_TRUE(wait_for(second.event).ok());
  EXPECT_TRUE(wait_for(first.event).ok());
  EXPECT_EQ(get(second.result), (std::vector<float>{1, kLong + 1, kLong + 2, kLong + 3}));
  EXPECT_EQ(get(third.result), (std::vector<float>{2, 2, 2, 2}));
}

TEST(PjrtAsync, QueuedRunsKeepWhatTheyNeed) {
  const Client client(1);
  Loaded counts = client.compile(kCounts, ""), add = client.compile(add_one(), "");
  Buffer x = client.put({kLong, 0, 1, 2}, {4});
  Call first = start(counts, x.get());
  Call second = start(add, first.result.get());
  auto gone = make<PJRT_Buffer_Delete_Args>();
  gone.buffer = first.result.get();
  ASSERT_TRUE(answer(api().PJRT_Buffer_Delete(&gone)).ok());
  EXPECT_TRUE(is_deleted(first.result));
  x.reset();
  counts.reset();
  add.reset();
  EXPECT_TRUE(wait_for(first.event).ok());
  EXPECT_TRUE(wait_for(second.event).ok());
  EXPECT_EQ(get(second.result)[0], 1);
}

TEST(PjrtAsync, DonatedMemoryIsReadByRunsBefore) {
  const Client client(1);
  const Loaded counts = client.compile(kCounts, ""), add = client.compile(add_one(), "");
  const Loaded takes = client.compile(add_one("{tf.aliasing_output = 0 : i32}"), "");
  const Buffer x = client.put({kLong, 0, 1, 2}, {4});
  for (int round = 0; round < 3; ++round) {
    Call first = start(counts, x.get());
    Call reads = start(add, first.result.get());
    Call given = start(takes, first.result.get());
    EXPECT_TRUE(is_deleted(first.result));
    Call again = start(takes, given.result.get());
    EXPECT_EQ(get(again.result), (std::vector<float>{2, kLong + 2, kLong + 3, kLong + 4}));
    EXPECT_EQ(get(reads.result), (std::vector<float>{1, kLong + 1, kLong + 2, kLong + 3}));
    EXPECT_TRUE(is_deleted(given.result));
    for (PJRT_Event* e : {first.event, reads.event, given.event, again.event}) {
      EXPECT_TRUE(wait_for(e).ok());
    }
  }
}

TEST(PjrtAsync, ErrorsPassThroughResults) {
  register_test_handler();
  const Client client(2);
  const Loaded calls = client.compile(kCallsFunctionAndMore, ""),
               add = client.compile(add_one(), "");
  const Buffer x = client.put({1, 2, 3, 4}, {4});
  test_function() = [](const float*, float*, std::int64_t) { return "it is wrong"; };
  Call failed = start(calls, x.get());
  Call next = start(add, failed.result.get());
  for (PJRT_Event* e : {failed.event, next.event, ready_event(next.result)}) {
    const Answer a = wait_for(e);
    EXPECT_EQ(a.code, PJRT_Error_Code_INTERNAL);
    EXPECT_NE(a.message.find("it is wrong"), std::string::npos) << a.message;
  }
  // Also where all is known before.
  Call last = start(add, next.result.get());
  EXPECT_NE(wait_for(last.event).message.find("it is wrong"), std::string::npos);
  auto args = make<PJRT_Buffer_ToHostBuffer_Args>();
  std::vector<float> out(4);
  args.src = last.result.get();
  args.dst = out.data();
  args.dst_size = 16;
  EXPECT_NE(answer(api().PJRT_Buffer_ToHostBuffer(&args)).message.find("it is wrong"),
            std::string::npos);
  EXPECT_FALSE(is_deleted(last.result));
  // The queue goes on.
  test_function() = doubles;
  Call right = start(calls, x.get());
  EXPECT_EQ(get(right.result), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_TRUE(wait_for(right.event).ok());
}

TEST(PjrtAsync, ErrorsOfSmallRunsAreTheCalls) {
  register_test_handler();
  const Client client(1);
  const Loaded calls = client.compile(kCallsFunction, ""), counts = client.compile(kCounts, "");
  const Buffer x = client.put({1, 2, 3, 4}, {4}), y = client.put({kLong, 1, 2, 3}, {4});
  test_function() = [](const float*, float*, std::int64_t) { return "it is wrong"; };
  std::vector<std::vector<Buffer>> out;
  const Answer a = run(calls, {{x.get()}}, 1, &out);
  EXPECT_EQ(a.code, PJRT_Error_Code_INTERNAL);
  EXPECT_NE(a.message.find("it is wrong"), std::string::npos) << a.message;
  EXPECT_FALSE(is_deleted(x));
  // Where it waits for its argument, it is the result's.
  Call first = start(counts, y.get());
  Call second = start(calls, first.result.get());
  EXPECT_EQ(wait_for(second.event).code, PJRT_Error_Code_INTERNAL);
  EXPECT_TRUE(wait_for(first.event).ok());
}

TEST(PjrtAsync, AFunctionMayWaitForRunsBehindIt) {
  register_test_handler();
  const Client client(1);
  const Loaded calls = client.compile(kCallsFunctionAndMore, ""),
               counts = client.compile(kCounts, "");
  const Buffer x = client.put({1, 2, 3, 4}, {4}), y = client.put({kLong, 0, 0, 0}, {4});
  Gate gate;
  test_function() = [&](const float* in, float* out, std::int64_t n) {
    return gate.pass() ? doubles(in, out, n) : "the run behind it didn't end";
  };
  Call first = start(calls, x.get());
  Call second = start(counts, y.get());
  EXPECT_TRUE(wait_for(second.event).ok());
  gate.open();
  const Answer a = wait_for(first.event);
  EXPECT_TRUE(a.ok()) << a.message;
}

TEST(PjrtAsync, AFunctionMayRunPrograms) {
  register_test_handler();
  const Client client(1);
  const Loaded calls = client.compile(kCallsFunction, ""), counts = client.compile(kCounts, "");
  const Buffer x = client.put({1, 2, 3, 4}, {4}), y = client.put({1000, 0, 0, 0}, {4});
  Buffer waits;
  test_function() = [&](const float*, float* out, std::int64_t n) {
    Call inner = start(counts, y.get());
    const std::vector<float> made = get(inner.result);
    std::copy(made.begin(), made.begin() + n, out);
    return wait_for(inner.event).message;
  };
  Call call = start(calls, x.get());
  EXPECT_EQ(get(call.result), (std::vector<float>{0, 1000, 1000, 1000}));
  EXPECT_TRUE(wait_for(call.event).ok());
}

TEST(PjrtAsync, CopiesComeAfterWhatMakesThem) {
  const Client client(2);
  const Loaded counts = client.compile(kCounts, "");
  const Buffer x = client.put({kLong, 0, 1, 2}, {4});
  const std::vector<float> want{0, kLong, kLong + 1, kLong + 2};
  Call call = start(counts, x.get());
  std::vector<float> out(4);
  auto to_host = make<PJRT_Buffer_ToHostBuffer_Args>();
  to_host.src = call.result.get();
  to_host.dst = out.data();
  to_host.dst_size = 16;
  ASSERT_TRUE(answer(api().PJRT_Buffer_ToHostBuffer(&to_host)).ok());
  auto to_device = make<PJRT_Buffer_CopyToDevice_Args>();
  to_device.buffer = call.result.get();
  to_device.dst_device = client.devices()[1];
  ASSERT_TRUE(answer(api().PJRT_Buffer_CopyToDevice(&to_device)).ok());
  const Buffer there(to_device.dst_buffer);
  auto view = make<PJRT_Buffer_IncreaseExternalReferenceCount_Args>();
  view.buffer = call.result.get();
  ASSERT_TRUE(answer(api().PJRT_Buffer_IncreaseExternalReferenceCount(&view)).ok());
  auto pointer = make<PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args>();
  pointer.buffer = call.result.get();
  ASSERT_TRUE(answer(api().PJRT_Buffer_OpaqueDeviceMemoryDataPointer(&pointer)).ok());
  const auto* seen = static_cast<const float*>(pointer.device_memory_ptr);
  EXPECT_EQ(std::vector<float>(seen, seen + 4), want);
  EXPECT_TRUE(wait_for(to_host.event).ok());
  EXPECT_EQ(out, want);
  EXPECT_EQ(get(there), want);
  EXPECT_TRUE(wait_for(call.event).ok());
}

TEST(PjrtAsync, TheQueueIsBounded) {
  const Client client(1);
  const Loaded counts = client.compile(kCounts, "");
  const Buffer x = client.put({kLong / 20, 0, 0, 0}, {4});
  std::vector<Call> calls;
  for (int i = 0; i < 120; ++i) {
    calls.push_back(start(counts, x.get()));
    int waiting = 0;
    for (const Call& c : calls) waiting += is_ready(c.result) ? 0 : 1;
    ASSERT_LE(waiting, 33);
  }
  for (const Call& c : calls) EXPECT_TRUE(wait_for(c.event).ok());
}

TEST(PjrtAsync, ClientsEndWhenAllHasRun) {
  register_test_handler();
  std::atomic<int> ran = 0;
  test_function() = [&](const float* in, float* out, std::int64_t n) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++ran;
    return doubles(in, out, n);
  };
  {
    const Client client(1);
    const Loaded calls = client.compile(kCallsFunctionAndMore, "");
    const Buffer x = client.put({1, 2, 3, 4}, {4});
    Call last = start(calls, x.get());
    for (int i = 0; i < 5; ++i) {
      Call next = start(calls, last.result.get());
      auto gone = make<PJRT_Event_Destroy_Args>();
      gone.event = last.event;
      api().PJRT_Event_Destroy(&gone);
      last = std::move(next);
    }
    auto gone = make<PJRT_Event_Destroy_Args>();
    gone.event = last.event;
    api().PJRT_Event_Destroy(&gone);
  }
  EXPECT_EQ(ran, 6);
}

TEST(PjrtAsync, ManyThreadsRunPrograms) {
  const Client client(4);
  const Loaded counts = client.compile(kCounts, ""), add = client.compile(add_one(), "");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        const Buffer x = client.put({float(1000 * (i % 3 == 0)), float(t), float(i), 0}, {4});
        Call first = start(counts, x.get());
        Call second = start(add, first.result.get());
        Call third = start(add, second.result.get());
        const auto n = float(1000 * (i % 3 == 0));
        EXPECT_EQ(get(third.result),
                  (std::vector<float>{2, n + float(t) + 2, n + float(i) + 2, n + 2}));
        for (PJRT_Event* e : {first.event, second.event, third.event}) {
          EXPECT_TRUE(wait_for(e).ok());
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace tessera::pjrt_tests
