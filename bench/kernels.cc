// SPDX-License-Identifier: Apache-2.0
// Single kernels next to what the machine can do: bytes per second against a copy, and operations
// per second against a large product of matrices, all measured here in one run.
// usage: bench_kernels [--only REGEX]
#include <cstdio>
#include <regex>

#include "bench/call_time.h"

namespace tessera::bench {
namespace {

/// What one call reads and writes, and multiplies and adds.
struct Kernel {
  std::string name;
  Arrays inputs;
  std::function<Array(const Arrays&)> run;
  double bytes = 0, flops = 0;
};

Array normal(std::int64_t seed, std::vector<std::int64_t> shape) {
  return random::normal(random::key(seed), std::move(shape));
}

std::vector<Kernel> kernels() {
  const std::int64_t n = 4096;
  const double mega = double(n * n) * 4;  // bytes of an array
  const Array x = normal(0, {n, n}), y = normal(1, {n, n});
  const Array a = normal(2, {2048, 2048}), b = normal(3, {2048, 2048});
  const double product = 2 * 2048.0 * 2048 * 2048;
  const Array table = normal(4, {65536, 64});
  const Array rows = random::randint(random::key(5), {262144}, 0, 65536);
  const Array image = normal(6, {8, 56, 56, 64}), filter = normal(7, {3, 3, 64, 64});
  const double taken = 262144.0 * 64 * 4;
  return {
      // The limits: what others are compared with.
      {"copy", {x}, [](const Arrays& v) { return -v[0]; }, 2 * mega, 0},
      {"product", {a, b}, [](const Arrays& v) { return matmul(v[0], v[1]); }, 0, product},
      // Bound by memory.
      {"add", {x, y}, [](const Arrays& v) { return v[0] + v[1]; }, 3 * mega, 0},
      {"exp", {x}, [](const Arrays& v) { return exp(v[0]); }, 2 * mega, 0},
      {"sum", {x}, [](const Arrays& v) { return sum(v[0]); }, mega, 0},
      {"sum of rows", {x}, [](const Arrays& v) { return sum(v[0], {1}); }, mega, 0},
      {"sum of columns", {x}, [](const Arrays& v) { return sum(v[0], {0}); }, mega, 0},
      {"softmax", {x}, [](const Arrays& v) { return softmax(v[0], -1); }, 2 * mega, 0},
      {"transpose", {x}, [](const Arrays& v) { return transpose(v[0]); }, 2 * mega, 0},
      {"rows taken",
       {table, rows},
       [](const Arrays& v) { return take(v[0], v[1], 0); },
       2 * taken,
       0},
      {"rows summed by segment",
       {normal(11, {1 << 20, 16}), random::randint(random::key(12), {1 << 20}, 0, 10000)},
       [](const Arrays& v) { return segment_sum(v[0], v[1], 10000); },
       double(1 << 20) * 17 * 4,
       0},
      {"numbers summed by segment",
       {normal(13, {1 << 22}), random::randint(random::key(14), {1 << 22}, 0, 10000)},
       [](const Arrays& v) { return segment_sum(v[0], v[1], 10000); },
       double(1 << 22) * 2 * 4,
       0},
      {"cumulative sum", {x}, [](const Arrays& v) { return cumsum(v[0], 1); }, 2 * mega, 0},
      {"matrix by vector",
       {x, normal(8, {n})},
       [](const Arrays& v) { return matmul(v[0], v[1]); },
       mega,
       0},
      // Bound by multiplying and adding.
      {"product, transposed",
       {a, b},
       [](const Arrays& v) { return matmul(v[0], transpose(v[1])); },
       0,
       product},
      {"products, 64 of 256",
       {normal(9, {64, 256, 256}), normal(10, {64, 256, 256})},
       [](const Arrays& v) { return matmul(v[0], v[1]); },
       0,
       64 * 2 * 256.0 * 256 * 256},
      {"product of bf16",
       {astype(a, bf16), astype(b, bf16)},
       [](const Arrays& v) { return matmul(v[0], v[1]); },
       0,
       product},
      {"convolution",
       {image, filter},
       [](const Arrays& v) { return conv2d(v[0], v[1]); },
       0,
       2 * 8.0 * 56 * 56 * 64 * 64 * 9},
  };
}

int run_all(const std::regex& only) {
  double copy = 0, product = 0;
  std::printf("%-26s %10s %10s %10s %8s\n", "kernel", "ms", "GB/s", "GFLOP/s", "of limit");
  for (const Kernel& k : kernels()) {
    const bool limit = k.name == "copy" || k.name == "product";
    if (!limit && !std::regex_search(k.name, only)) continue;
    const double seconds = seconds_of(k.name, k.inputs, k.run);
    const double rate = (k.bytes > 0 ? k.bytes : k.flops) / seconds;
    if (k.name == "copy") copy = rate;
    if (k.name == "product") product = rate;
    std::printf("%-26s %10.3f ", k.name.c_str(), seconds * 1e3);
    if (k.bytes > 0) {
      std::printf("%10.1f %10s %7.0f%%\n", rate / 1e9, "", 100 * rate / copy);
    } else {
      std::printf("%10s %10.1f %7.0f%%\n", "", rate / 1e9, 100 * rate / product);
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace tessera::bench

int main(int count, char** arguments) {
  const std::string flag = count == 3 ? arguments[1] : "";
  if (count != 1 && flag != "--only") {
    std::fprintf(stderr, "usage: bench_kernels [--only REGEX]\n");
    return 2;
  }
  try {
    return tessera::bench::run_all(std::regex(count == 3 ? arguments[2] : "."));
  } catch (const std::regex_error& e) {
    std::fprintf(stderr, "bench_kernels: --only: %s\n", e.what());
    return 2;
  }
}
