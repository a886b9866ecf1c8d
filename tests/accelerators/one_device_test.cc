// SPDX-License-Identifier: Apache-2.0
// What one device of any platform must do: of our own plugin, or of the platform that
// PJRT_TEST_PLATFORM names, a GPU's say. Expected values are those of virtual devices.
#include <tessera/precision.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "tests/accelerators/plugin_testing.h"

namespace tessera::testing {
namespace {

const Device& device() {
  static const Device d = [] {
    const char* platform = std::getenv("PJRT_TEST_PLATFORM");
    return platform == nullptr || *platform == 0 ? plugin_devices()[0] : devices(platform)[0];
  }();
  return d;
}
/// The host's own device, whatever the platform of the environment is.
const Device& host() { return devices("cpu")[0]; }
Array there(const Array& a) { return device_put(a, device()); }
Array noise(const std::vector<std::int64_t>& dims) {
  return device_put(sin(square(counting(dims, 0.3f)) + 1.0f), host());
}

/// The same on the device as on the host's, products as exact as those are.
template <class F>
void check(const char* what, const F& f, const Array& a, float tolerance = 1e-5f) {
  SCOPED_TRACE(what);
  const PrecisionScope exact(Precision::highest);
  const auto g = jit(f);
  const Array got = g(there(a));
  EXPECT_EQ(got.sharding().device_list()[0], device());
  expect_close(got, g(a), tolerance);
}

TEST(OneDevice, IsKnown) {
  std::cout << device().to_string() << ": " << device_kind(device());
  try {
    const std::int64_t bytes = memory_stats(device()).current;
    std::cout << ", " << bytes << " bytes in use";
  } catch (const NotImplementedError&) {
    std::cout << ", bytes in use unknown";  // XLA for CPUs doesn't count them
  }
  std::cout << '\n';
}

TEST(OneDevice, Operations) {
  const Array a = noise({8, 12});
  check(
      "elementwise", [](Array x) { return tanh(exp(x) - sqrt(abs(x))) / (1.0f + x * x); }, a);
  check(
      "product", [](Array x) { return matmul(x, transpose(x)); }, a);
  check(
      "reductions", [](Array x) { return max(x, 1) + sum(x, 1) - mean(x, 1); }, a);
  check(
      "sums", [](Array x) { return cumsum(x); }, noise({64}));
  check(
      "sort", [](Array x) { return sort(x); }, noise({64}));
  check(
      "loop",
      [](Array x) {
        return scan([](Array c, Array row) { return std::pair(c * 0.5f + row, sum(c)); },
                    zeros({12}), x)
            .second;
      },
      a);
  check(
      "gather", [](Array x) { return take(x, astype(arange(3.0f) * 2.0f, s32), 0); }, a);
}

TEST(OneDevice, ElementTypes) {
  for (const DType t : {pred, s8, u8, s32, u32, s64, f16, bf16, f32, f64}) {
    const Array here = device_put(astype(arange(12.0f), t), host());
    const auto f = jit([](Array a) { return concatenate({a, a}, 0); });
    EXPECT_EQ(to_string(f(there(here))), to_string(f(here))) << name(t);
  }
}

TEST(OneDevice, RandomBitsAreThoseOfTheHost) {
  const Array key = device_put(random::key(5), host());
  const auto f = jit([](Array k) { return random::uniform(k, {1000}); });
  EXPECT_EQ(floats(f(there(key))), floats(f(key)));
}

TEST(OneDevice, Training) {
  const auto step = [](Array w, Array x) {
    const auto loss = [](Array v, Array rows) {
      return mean(square(tanh(matmul(rows, v)) - 0.5f));
    };
    return w - grad(loss)(w, x) * 0.5f;
  };
  const auto f = jit(step, {.donate_argnums = {0}});
  const PrecisionScope exact(Precision::highest);
  const Array x = noise({32, 16}), x_there = there(x);
  Array here = noise({16, 16}) * 0.1f, w = there(here);
  for (int k = 0; k < 20; ++k) {
    here = f(here, x);
    w = f(w, x_there);
  }
  expect_close(w, here, 1e-4f);
}

TEST(OneDevice, Matrices) {
  const Array a = noise({3, 8, 8}) + eye(8) * 2.0f, s = a + swapaxes(a, -1, -2);
  const Array spd = matmul(a, swapaxes(a, -1, -2)) + eye(8) * 3.0f;
  check(
      "cholesky", [](Array x) { return linalg::cholesky(x); }, spd, 2e-4f);
  check(
      "inv", [](Array x) { return linalg::inv(x); }, a, 2e-4f);
  check(
      "eigvalsh", [](Array x) { return linalg::eigvalsh(x); }, s, 2e-4f);
  check(
      "qr", [](Array x) { return abs(linalg::qr(x).r); }, a, 2e-4f);
}

TEST(OneDevice, MemoriesAndFiles) {
  const Array x = there(noise({64, 8}));
  const SingleDeviceSharding pinned(device(), "pinned_host");
  const Array in_host = device_put(x, pinned);
  EXPECT_EQ(floats(in_host), floats(x));
  EXPECT_EQ(floats(device_put(in_host, device())), floats(x));
  const auto folder =
      std::filesystem::temp_directory_path() / ("tessera_one_device" + std::to_string(getpid()));
  save_checkpoint(folder.string(), x, 1);
  EXPECT_EQ(floats(restore_checkpoint(folder.string(), zeros({64, 8}))), floats(x));
  std::filesystem::remove_all(folder);
}

TEST(OneDevice, TooMuchMemoryIsAnError) {
  const auto f = jit([](Array a) { return broadcast_to(a, {std::int64_t(1) << 30, 1 << 22}); });
  // More than there are addresses.
  EXPECT_THROW(f(there(ones({1}))).block_until_ready(), Error);
  EXPECT_EQ(floats(there(ones({3})) + 1.0f)[2], 2);
}

TEST(OneDevice, CallsLeaveNothing) {
  const auto f = jit([](Array a) { return a + 1.0f; }, {.donate_argnums = {0}});
  Array y = f(there(zeros({1024})));
  y.block_until_ready();
  using Clock = std::chrono::steady_clock;
  constexpr int kCalls = 5000;
  std::int64_t before = 0;
  try {
    before = memory_stats(device()).current;
  } catch (const NotImplementedError&) {
  }
  const auto begin = Clock::now();
  for (int k = 0; k < kCalls; ++k) y = f(y);
  y.block_until_ready();
  const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  std::cout << us / kCalls << " us a call\n";
  EXPECT_EQ(floats(y)[7], kCalls + 1);
  if (before > 0) {
    EXPECT_LE(memory_stats(device()).current, before + (1 << 20));
  }
}

TEST(OneDevice, Products) {
  const std::int64_t n = device().platform == "cuda" ? 8192 : 512;
  const auto f = jit([](Array a, Array b) { return matmul(a, b); });
  const Array a = there(astype(noise({n, n}), bf16));
  Array c = f(a, a);
  c.block_until_ready();
  using Clock = std::chrono::steady_clock;
  constexpr int kTimes = 10;
  const auto begin = Clock::now();
  for (int k = 0; k < kTimes; ++k) c = f(a, a);
  c.block_until_ready();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count() / kTimes;
  std::cout << "products of " << n << "x" << n
            << " in bf16: " << 2.0 * double(n) * double(n) * double(n) / seconds * 1e-12
            << " Tflop/s\n";
}

}  // namespace
}  // namespace tessera::testing
