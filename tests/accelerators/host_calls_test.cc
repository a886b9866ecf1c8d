// SPDX-License-Identifier: Apache-2.0
// Functions of the host in programs of a plugin: callbacks, prints, custom calls, LAPACK.
#include <tessera/custom/host_callback.h>

#include <atomic>
#include <stdexcept>

#include "tests/accelerators/plugin_testing.h"

namespace tessera::testing {
namespace {

NamedSharding rows() { return {Mesh(plugin_devices(), {8}, {"x"}), P("x")}; }

TEST(HostCalls, PureCallbacksComputeResults) {
  // With programs of its own, which run elsewhere.
  const auto f = jit([](Array a) {
    const auto host = [](const Array& x) { return cumsum(x * 2.0f) + ones({4}); };
    return pure_callback(host, shape_dtype_struct({4}, f32), a) + 0.5f;
  });
  const Array x = counting({4});
  EXPECT_EQ(floats(f(device_put(x, plugin_devices()[3]))), floats(f(x)));
  // Whole arrays, and parts by a rule.
  std::atomic<int> largest = 0;
  const auto g = jit([&](Array a) {
    const auto note = [&](const Array& p) {
      if (p.shape(0) > largest) largest = int(p.shape(0));
      return p + 1.0f;
    };
    return pure_callback(note, a, PureCallbackOptions{.sharding_rule = "i j -> i j"}, a);
  });
  EXPECT_EQ(floats(g(device_put(counting({8, 4}), rows())))[31], 32);
  EXPECT_EQ(largest, 1);
}

TEST(HostCalls, EffectsHappenOnceAndInOrder) {
  std::vector<float> seen;
  const auto note = [&](Array v) { seen.push_back(v.item<float>()); };
  const auto f = jit([&](Array a) {
    debug::callback(note, sum(a));
    return a + 1.0f;
  });
  EXPECT_EQ(floats(f(device_put(counting({8}), rows())))[7], 8);
  EXPECT_EQ(seen, std::vector<float>{28});
  seen.clear();
  const auto next = [&](Array v) {
    note(v);
    return v * 2.0f;
  };
  const IoCallbackOptions ordered{.ordered = true};
  const auto g = jit([&](Array a) {
    const Array s = sum(a);
    Array first = io_callback(next, s, ordered, s);
    Array second = io_callback(next, s, ordered, s + 1.0f);
    Array third = io_callback(next, s, ordered, s + 2.0f);
    return a + third + first * 0.0f + second * 0.0f;
  });
  for (int k = 0; k < 3; ++k) {
    seen.clear();
    EXPECT_EQ(floats(g(device_put(counting({8}), rows())))[1], 61);
    EXPECT_EQ(seen, (std::vector<float>{28, 29, 30}));
  }
  // In each trip of a loop, and in the branch that is taken.
  seen.clear();
  const auto h = jit([&](Array a) {
    return fori_loop(
        0, 3,
        [&](Array, Array c) {
          debug::callback(note, sum(c));
          return c * 2.0f;
        },
        a);
  });
  h(device_put(ones({8}), rows())).block_until_ready();
  EXPECT_EQ(seen, (std::vector<float>{8, 16, 32}));
  // Code per device: once for each distinct part.
  seen.clear();
  const Mesh two(plugin_devices(), {2, 4}, {"x", "y"});
  const auto local = jit(shard_map(
      [&](Array a) {
        debug::callback([&](Array v) { seen.push_back(v.item<float>()); }, sum(a));
        return a;
      },
      {.mesh = two, .in_specs = P("x"), .out_specs = P("x")}));
  local(device_put(counting({4}), NamedSharding(two, P("x")))).block_until_ready();
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<float>{1, 5}));
}

TEST(HostCalls, WhatTheyThrowPassesUnchanged) {
  const auto f = jit([](Array a) {
    const auto fails = [](const Array& x) -> Array {
      if (x.size() > 0) throw std::out_of_range("no such row");
      return x;
    };
    return pure_callback(fails, a, a);
  });
  const Array x = device_put(counting({4}), plugin_devices()[0]);
  for (int k = 0; k < 3; ++k) {
    try {
      (void)floats(f(x));
      FAIL() << "no exception";
    } catch (const std::out_of_range& e) {
      EXPECT_STREQ(e.what(), "no such row");
    }
  }
}

TEST(HostCalls, CustomCallsAndLapack) {
  register_custom_call(
      "accelerators_test.scale",
      {.compute =
           [](std::span<const BufferView> in, std::span<const MutableBufferView> out,
              const CallAttributes& attributes) {
             const auto by = attributes.get<float>("by");
             const auto from = in[0].data<float>();
             const auto to = out[0].data<float>();
             for (std::size_t i = 0; i < from.size(); ++i) to[i] = by * from[i];
           },
       .sharding_rule = "... -> ..."});
  const auto f = jit([](Array a) {
    return custom_call("accelerators_test.scale", {a}, {a.shape(), f32}, {{"by", 3.0f}}) + 1.0f;
  });
  EXPECT_EQ(floats(f(device_put(counting({8, 2}), rows())))[15], 46);
  const Device d = plugin_devices()[1];
  const Array noise = sin(square(counting({3, 5, 5}, 0.3f)));
  const auto g = jit([](Array a) { return sort(abs(linalg::eigvals(a)), -1); });
  expect_close(g(device_put(noise, d)), g(noise), 1e-4f);
  const auto s = jit([](Array a) { return linalg::svdvals(a); });
  expect_close(s(device_put(noise, d)), s(noise), 1e-4f);
}

/// A plugin without extensions, as one that can't read what its devices hold.
class WithoutHostCalls : public FaultyPlugins {};

TEST_F(WithoutHostCalls, CallsAreRefusedByName) {
  const Device d = load("no extensions")[0];
  const auto f = jit([](Array a) {
    return pure_callback([](const Array& x) { return x; }, shape_dtype_struct({4}, f32), a);
  });
  expect_has(
      message_of<NotImplementedError>([&] { (void)floats(f(device_put(counting({4}), d))); }),
      {"'failing", "PureCallback", "host_calls_test.cc"});
  const auto g = jit([](Array a) { return abs(linalg::eigvals(a)); });
  expect_has(message_of<NotImplementedError>([&] {
               (void)floats(g(device_put(counting({4, 4}), d)));
             }),
             {"geev", "host_calls_test.cc", "devices(\"cpu\")"});
}

}  // namespace
}  // namespace tessera::testing
