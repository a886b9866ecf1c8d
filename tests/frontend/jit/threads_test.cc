// SPDX-License-Identifier: Apache-2.0
// Arrays and functions that several threads use at once.
#include <tessera/tessera.h>

#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "src/frontend/run/execute.h"
#include "tests/frontend/frontend_testing.h"

// Compiled apart: includes private headers, whose `internal` others take for testing::internal.
namespace tessera::testing {
namespace {

/// Runs f(0) ... f(n - 1), each on a thread of its own, all starting at the same moment.
void at_once(int n, const std::function<void(int)>& f) {
  std::barrier start(n);
  std::vector<std::jthread> threads;
  for (int i = 0; i < n; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      f(i);
    });
  }
}

/// What a reader may meet: the old values, or the array deleted.
class Meetings {
 public:
  void read(const std::function<void()>& reads) {
    try {
      reads();
      ++whole_;
    } catch (const RuntimeError& e) {
      EXPECT_TRUE(has(e.what(), "deleted")) << e.what();
      ++gone_;
    }
  }
  int total() const { return whole_ + gone_; }

 private:
  std::atomic<int> whole_{0}, gone_{0};
};

constexpr std::int64_t kSize = 1 << 14;
constexpr float kOld = 3;

void expect_old(const std::vector<float>& have) {
  ASSERT_EQ(have.size(), std::size_t(kSize));
  for (float v : have) ASSERT_EQ(v, kOld);
}

/// Every way to read an array.
std::vector<std::function<void(const Array&)>> readers(const Mesh& mesh) {
  auto twice = jit([](Array a) { return a * 2; });
  return {
      [](const Array& x) { expect_old(floats(x)); },
      [](const Array& x) {
        std::ostringstream out;
        out << x;
        EXPECT_TRUE(has(out.str(), "[3, 3, 3") || has(out.str(), "deleted")) << out.str();
      },
      [](const Array& x) {
        for (const Shard& s : x.addressable_shards()) {
          for (float v : floats(s.data)) ASSERT_EQ(v, kOld);
        }
      },
      [](const Array& x) { expect_old(floats(copy(x))); },
      [twice](const Array& x) {
        for (float v : floats(twice(x))) ASSERT_EQ(v, 2 * kOld);
      },
      [](const Array& x) {
        for (float v : floats(x + 1)) ASSERT_EQ(v, kOld + 1);
      },
      [mesh](const Array& x) {
        expect_old(floats(device_put(x, NamedSharding(mesh, P(nullptr)))));
      },
      [](const Array& x) { expect_old(floats(device_put(x, devices()[3]))); },
      [](const Array& x) {
        EXPECT_EQ(x.on_device_size_in_bytes(), std::int64_t(kSize * sizeof(float)));
      },
      [](const Array& x) { (void)x.is_deleted(); },
      [](const Array& x) { expect_old(floats(jit([](Array a) { return a + 0; })(x))); },
  };
}

void race(const std::function<void(Array)>& end) {
  const Mesh mesh = mesh_of({{"x", 4}});
  const auto all = readers(mesh);
  Meetings meetings;
  for (int round = 0; round < 30; ++round) {
    const Array x = put(full({kSize}, kOld), mesh, P("x"));
    const int n = 4;
    at_once(n + 1, [&](int i) {
      if (i == n) {
        meetings.read([&] { end(x); });
      } else {
        meetings.read([&] { all[std::size_t(round * n + i) % all.size()](x); });
      }
    });
  }
  EXPECT_EQ(meetings.total(), 30 * 5);
}

TEST(Threads, ReadWhatAnotherDonates) {
  auto f = jit([](Array a) { return a * 5; }, {.donate_argnums = {0}});
  race([&](const Array& x) {
    for (float v : floats(f(x))) ASSERT_EQ(v, 5 * kOld);
    EXPECT_TRUE(x.is_deleted());
  });
}

TEST(Threads, ReadWhatAnotherDeletes) {
  race([](Array x) {
    x.delete_();
    EXPECT_TRUE(x.is_deleted());
  });
}

TEST(Threads, ReadWhatAnotherGivesToDevicePut) {
  const Mesh mesh = mesh_of({{"x", 2}});
  race([&](const Array& x) {
    const Array y = device_put(x, NamedSharding(mesh, P("x")), {.donate = true});
    expect_old(floats(y));
  });
}

/// Of one device, with an argument as a result: such a run takes no handles on its arguments.
LoadedFunction one_device_program() {
  const std::string path = ::testing::TempDir() + "one_device_program_" + std::to_string(getpid());
  std::ofstream(path) << R"(HloModule m
ENTRY e {
  x = f32[16384] parameter(0)
  two = f32[] constant(2)
  twos = f32[16384] broadcast(two), dimensions={}
  twice = f32[16384] multiply(x, twos)
  ROOT out = (f32[16384], f32[16384], f32[16384]) tuple(twice, x, twos)
})";
  LoadedFunction f = load_hlo(path);
  std::remove(path.c_str());
  return f;
}

void race_on_one_device(const std::function<void(Array)>& end) {
  const LoadedFunction f = one_device_program();
  (void)f(full({kSize}, kOld));
  Meetings meetings;
  for (int round = 0; round < 100; ++round) {
    const std::vector<Array> x{full({kSize}, kOld)};
    std::vector<Array> kept[3];
    at_once(4, [&](int i) {
      meetings.read([&] {
        if (i == 3) return end(x[0]);
        kept[i] = f(x);
      });
    });
    for (const std::vector<Array>& results : kept) {
      if (results.empty()) continue;
      for (float v : floats(results[0])) ASSERT_EQ(v, 2 * kOld);
      expect_old(floats(results[1]));
      for (float v : floats(results[2])) ASSERT_EQ(v, 2);
    }
  }
  EXPECT_EQ(meetings.total(), 100 * 4);
}

TEST(Threads, RunOnOneDeviceWhatAnotherDeletes) {
  race_on_one_device([](Array x) { x.delete_(); });
}

TEST(Threads, RunOnOneDeviceWhatAnotherDonates) {
  auto f = jit([](Array a) { return a * 5; }, {.donate_argnums = {0}});
  race_on_one_device([&](const Array& x) {
    for (float v : floats(f(x))) ASSERT_EQ(v, 5 * kOld);
  });
}

TEST(Threads, AResultThatIsAnArgumentIsNotWrittenOver) {
  const LoadedFunction f = one_device_program();
  auto next = jit([](Array a) { return a + 1; }, {.donate_argnums = {0}});
  Array x = full({kSize}, kOld);
  (void)f(x);
  const std::vector<Array> first = f(x), second = f(x);
  (void)next(first[1]);
  (void)next(first[2]);
  expect_old(floats(x));
  expect_old(floats(second[1]));
  for (float v : floats(f(x)[2])) ASSERT_EQ(v, 2);
  x.delete_();
  expect_old(floats(second[1]));
  expect_error<RuntimeError>([&] { (void)f(x); }, {"deleted"});
}

TEST(Threads, DonateOneArrayOnce) {
  auto f = jit([](Array a) { return a * 5; }, {.donate_argnums = {0}});
  for (int round = 0; round < 30; ++round) {
    const Array x = full({kSize}, kOld);
    std::atomic<int> won{0};
    at_once(4, [&](int) {
      try {
        for (float v : floats(f(x))) ASSERT_EQ(v, 5 * kOld);
        ++won;
      } catch (const RuntimeError& e) {
        EXPECT_TRUE(has(e.what(), "deleted")) << e.what();
      }
    });
    EXPECT_EQ(won, 1);
  }
}

TEST(Threads, DonateAllOrNothing) {
  auto f = jit(
      [](Array a, Array b) {
        return std::pair{a * 5, b * 7};
      },
      {.donate_argnums = {0, 1}});
  (void)f(full({kSize}, kOld), full({kSize}, kOld));
  for (int round = 0; round < 30; ++round) {
    const Array x = full({kSize}, kOld), y = full({kSize}, kOld), z = full({kSize}, kOld);
    std::atomic<int> won{0};
    at_once(2, [&](int i) {
      try {
        (void)(i == 0 ? f(x, y) : f(y, z));
        ++won;
      } catch (const RuntimeError&) {
        // What didn't run has taken nothing.
        EXPECT_FALSE((i == 0 ? x : z).is_deleted());
      }
    });
    EXPECT_EQ(won, 1);
  }
}

TEST(Threads, ShardsOutliveTheArray) {
  const Mesh mesh = mesh_of({{"x", 4}});
  auto f = jit([](Array a) { return a * 5; }, {.donate_argnums = {0}});
  const Array x = put(full({kSize}, kOld), mesh, P("x"));
  const std::vector<Shard> shards = x.addressable_shards();
  const Array y = f(x);
  for (const Shard& s : shards) {
    for (float v : floats(s.data)) ASSERT_EQ(v, kOld);
  }
  EXPECT_EQ(floats(y)[7], 5 * kOld);
}

TEST(Threads, TraceAndCompileOnce) {
  std::atomic<int> calls{0};
  auto inner = jit([](Array x) { return x * 3; });
  auto f = jit(
      [&](Array x, auto n) {
        ++calls;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return inner(x) + float(n);
      },
      static_argnums<1>);
  const Array x = ones({2});
  const std::int64_t before = frontend::compilation_count();
  at_once(8, [&](int i) { EXPECT_EQ(floats(i % 2 ? f(x, 1) : f(x, 2L))[0], i % 2 ? 4 : 5); });
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(f.trace_count(), 2);
  EXPECT_EQ(f.cache_size(), 2);
  EXPECT_EQ(frontend::compilation_count() - before, 2);
}

TEST(Threads, CompileAnOperationOnce) {
  const Array x = ones({2, 3, 5, 7});
  const std::int64_t before = frontend::compilation_count();
  at_once(8, [&](int) { EXPECT_EQ(floats(tanh(x)).size(), 210u); });
  EXPECT_EQ(frontend::compilation_count() - before, 1);
}

TEST(Threads, TryAgainWhereTheFirstCallFails) {
  std::atomic<int> calls{0};
  auto f = jit([&](Array x) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (calls++ < 2) throw std::runtime_error("not yet");
    return x + 1;
  });
  std::atomic<int> failed{0};
  at_once(6, [&](int) {
    try {
      EXPECT_EQ(floats(f(ones({2})))[0], 2);
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "not yet");
      ++failed;
    }
  });
  EXPECT_EQ(failed, 2);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(f.cache_size(), 1);
}

TEST(Threads, DontDeadlock) {
  // Each function's partitioning calls the other function, so that each is compiled while the other
  // is; with plain waiting neither would end.
  const Mesh mesh = mesh_of({{"x", 2}});
  const Array x = put(ones({4}), mesh, P("x"));
  std::barrier both(2);
  std::atomic<int> inside{0};
  std::function<Array(Array)> call[2];
  auto custom = [&](int me) {
    auto c = custom_partitioning([](Array a) { return a * 2; });
    c.def_partition(
        {.partition =
             [&, me](const Mesh& m, const ShapeInfos& args, const ShapeInfos&) {
               if (inside++ < 2) {
                 both.arrive_and_wait();
                 EXPECT_EQ(floats(call[1 - me](x))[0], 2);
               }
               return Partition{
                   m, [](Array a) { return a * 2; }, {args[0].sharding}, {args[0].sharding}};
             },
         .infer_sharding_from_operands =
             [](const Mesh&, const ShapeInfos& args, const ShapeInfos&) {
               return std::vector<Sharding>{args[0].sharding};
             }});
    return c;
  };
  const auto c0 = custom(0), c1 = custom(1);
  auto f0 = jit([&](Array a) { return c0(a); });
  auto f1 = jit([&](Array a) { return c1(a); });
  call[0] = [&](Array a) { return f0(a); };
  call[1] = [&](Array a) { return f1(a); };
  at_once(2, [&](int i) { EXPECT_EQ(floats(call[i](x))[0], 2); });
}

// As destructors of a program's static objects may, which end after the library's.
TEST(Threads, ProgramsRunWhileTheProcessEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::atexit([] {
          const Mesh mesh = make_mesh({{"x", 4}});
          const auto tripled = jit([](Array x) { return sum(sort(x) * 3); });
          const Array x = device_put(ones({4}), NamedSharding(mesh, P("x")));
          std::cerr << "at the end " << tripled(x).item<float>() << std::endl;
        });
        const Mesh mesh = make_mesh({{"x", 4}});
        sum(sort(device_put(ones({4}), NamedSharding(mesh, P("x")))) + 1);
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "at the end 12");
}

}  // namespace
}  // namespace tessera::testing
