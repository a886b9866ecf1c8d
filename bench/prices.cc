// SPDX-License-Identifier: Apache-2.0
// The main prices of kernels, measured on this machine by one thread, next to those by which plans
// are compared (src/codegen/kernels/prices.h). It is their ratios that matter, to a factor of two:
// the last column is each one's ratio to what the header has, in terms of that of a product in f32.
// usage: bench_prices [--only REGEX]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <regex>

#include "bench/call_time.h"
#include "src/codegen/kernels/elementwise/half_conversions.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/products/narrow/narrow_gemm.h"

namespace tessera::bench {
namespace {

namespace prices = codegen::prices;

/// A price, and a call that pays it so many times.
struct Price {
  std::string name;  ///< in the header
  double nanoseconds = 0;
  double times = 1;
  Arrays inputs;
  std::function<Array(const Arrays&)> run;
};

Array normal(std::int64_t seed, std::vector<std::int64_t> shape, DType type = f32) {
  return astype(random::normal(random::key(seed), std::move(shape)), type);
}

Price product(std::string name, double price, DType type, std::int64_t n) {
  return {"product::" + std::move(name),
          price,
          double(n) * double(n) * double(n),
          {normal(1, {n, n}, type), normal(2, {n, n}, type)},
          [](const Arrays& v) { return matmul(v[0], v[1]); }};
}

/// What a call of `bytes` takes by the byte; both what is read and what is written count.
Price of_bytes(std::string name, double price, std::int64_t rows, double arrays,
               std::function<Array(const Arrays&)> run) {
  return {"byte::" + std::move(name),
          price,
          arrays * double(rows) * 1024 * 4,
          {normal(3, {rows, 1024})},
          std::move(run)};
}

std::vector<Price> moves() {
  const std::int64_t rows = 1 << 16, taken = 1 << 17;
  const auto negated = [](const Arrays& v) { return -v[0]; };
  const double row_bytes = 16 * 4;
  const Array table = normal(4, {rows, 16});
  const Array indices = random::randint(random::key(5), {taken}, 0, rows);
  return {
      of_bytes("kFromMemory", prices::byte::kFromMemory, 16384, 2, negated),
      of_bytes("kFromCache", prices::byte::kFromCache, 64, 2, negated),
      of_bytes("kCopied", prices::byte::kCopied, 1024, 1,
               [](const Arrays& v) { return transpose(v[0]); }),
      of_bytes("kReduced", prices::byte::kReduced, 256, 1,
               [](const Arrays& v) { return sum(v[0], {1}); }),
      {"index::kRow, and its bytes",
       prices::index::kRow + row_bytes * prices::byte::kCopied,
       double(taken),
       {table, indices},
       [](const Arrays& v) { return take(v[0], v[1], 0); }},
      {"index::kScatteredRow, and its bytes",
       prices::index::kScatteredRow + row_bytes * prices::byte::kScattered,
       double(taken),
       {normal(6, {taken, 16}), indices},
       [rows](const Arrays& v) { return segment_sum(v[0], v[1], rows); }},
      {"element::kTaken, compiled",
       prices::element::kTaken * prices::element::kCompiled,
       double(taken),
       {normal(7, {1 << 14}), random::randint(random::key(8), {taken}, 0, 1 << 14)},
       [](const Arrays& v) { return take(v[0], v[1], 0); }},
  };
}

std::vector<Price> others() {
  const std::int64_t n = 1 << 16, line = 1024;
  const double elements = double(n), levels = std::log2(double(line));
  const Array x = normal(9, {n}), lines = normal(10, {n / line, line});
  using namespace prices::other;
  return {
      {"element::kSimple, compiled",
       prices::element::kSimple * prices::element::kCompiled,
       32 * elements,
       {x},
       [](const Arrays& v) {
         Array y = v[0];
         for (int k = 0; k < 16; ++k) y = y * v[0] + float(k);
         return y;
       }},
      {"element::kDivision, compiled",
       prices::element::kDivision * prices::element::kCompiled,
       8 * elements,
       {x},
       [](const Arrays& v) {
         Array y = v[0];
         for (int k = 0; k < 8; ++k) y = v[0] / y;
         return y;
       }},
      {"element::kFunction, compiled",
       prices::element::kFunction * prices::element::kCompiled,
       elements,
       {x},
       [](const Arrays& v) { return exp(v[0]); }},
      {"other::kScanned",
       kScanned,
       elements,
       {lines},
       [](const Arrays& v) { return cumsum(v[0], 1); }},
      {"other::kKeyCompared, of a row of 1024",
       kKeyCompared * levels,
       elements,
       {lines},
       [](const Arrays& v) { return sort(v[0]); }},
      {"other::kFft, of 1024",
       2 * (kFft + kFftLevel * levels),
       elements,
       {astype(lines, c64)},
       [](const Arrays& v) { return fft(v[0]); }},
      {"other::kRandomBlock",
       kRandomBlock,
       elements / 4,
       {random::key(11)},
       [n](const Arrays& v) { return random::bits(v[0], {n}); }},
  };
}

int run_all(const std::regex& only) {
  const Array few = normal(12, {8});
  const double call = seconds_of("call", {few}, [](const Arrays& v) { return -v[0]; });
  const Price f32_product = product("kF32", prices::product::kF32, f32, 1024);
  using namespace prices::product;
  // Those that the processor has no instructions for are widened.
  const bool bf16s = codegen::has_bf16_gemm(), halves = codegen::lifts_halves_fast();
  std::vector<Price> all = {
      product("kF64", kF64, f64, 512),
      product(bf16s ? "kBf16" : "kBlas, of bf16", bf16s ? kBf16 : kBlas, bf16, 1024),
      product(halves ? "kF16" : "kBlas, of f16", halves ? kF16 : kBlas, f16, 512)};
  for (std::vector<Price>& more : std::vector<std::vector<Price>>{moves(), others()}) {
    std::move(more.begin(), more.end(), std::back_inserter(all));
  }
  const auto measure = [&](const Price& p) {
    return std::max(0.0, seconds_of("price", p.inputs, p.run) - call) * 1e9 / p.times;
  };
  std::printf("a call takes %.2f us, which is taken off\n", call * 1e6);
  std::printf("%-36s %12s %12s %8s %16s\n", "price", "header, ns", "here, ns", "ratio",
              "to that of kF32");
  double machine = 1;
  const auto print = [&](const Price& p) {
    const double here = measure(p), ratio = here / p.nanoseconds;
    if (p.name == f32_product.name) machine = ratio;
    std::printf("%-36s %12.4f %12.4f %8.2f %16.2f\n", p.name.c_str(), p.nanoseconds, here, ratio,
                ratio / machine);
    std::fflush(stdout);
  };
  print(f32_product);
  for (const Price& p : all) {
    if (std::regex_search(p.name, only)) print(p);
  }
  return 0;
}

}  // namespace
}  // namespace tessera::bench

int main(int count, char** arguments) {
  const std::string flag = count == 3 ? arguments[1] : "";
  if (count != 1 && flag != "--only") {
    std::fprintf(stderr, "usage: bench_prices [--only REGEX]\n");
    return 2;
  }
  // Prices are of one thread. Kernels as they will be, not quick ones.
  setenv("TESSERA_NUM_THREADS", "1", 1);
  setenv("TESSERA_TIERED_COMPILATION", "off", 1);
  try {
    return tessera::bench::run_all(std::regex(count == 3 ? arguments[2] : "."));
  } catch (const std::regex_error& e) {
    std::fprintf(stderr, "bench_prices: --only: %s\n", e.what());
    return 2;
  }
}
