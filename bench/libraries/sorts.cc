// SPDX-License-Identifier: Apache-2.0
// Sorts, by vqsort of Highway. It sorts in place, on one thread: a copy of the numbers is part of
// what is timed, as ours leave their operand alone, and threads share rows. Ours are stable, and
// order -0.0 and NaN as JAX does.
#include <hwy/contrib/sort/vqsort.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <thread>

#include "bench/libraries/case.h"

namespace tessera::bench {
namespace {

/// Distinct enough that an order by them says something.
template <class T>
std::vector<T> keys(std::int64_t count) {
  std::uint64_t state = 88172645463325252;
  std::vector<T> out(static_cast<std::size_t>(count));
  for (T& x : out) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    // 52 bits: numbers that doubles have.
    if constexpr (std::is_same_v<T, float>) {
      x = float(std::int64_t(state >> 40) - (1 << 23)) / float(1 << 20);
    } else {
      x = static_cast<T>(state >> (sizeof(T) == 8 ? 12 : 33));
    }
  }
  return out;
}

/// f(row) for all rows, by so many threads.
template <class F>
void for_rows(std::int64_t rows, int threads, const F& f) {
  const auto share = [&](std::int64_t part) {
    for (std::int64_t r = rows * part / threads; r < rows * (part + 1) / threads; ++r) f(r);
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(share, i);
  share(0);
}

template <class T>
Problem sorted(std::int64_t rows, std::int64_t n, int threads) {
  const auto in = std::make_shared<const std::vector<T>>(keys<T>(rows * n));
  Problem out;
  out.inputs = {rows == 1 ? array(*in) : array(*in, {rows, n})};
  out.ours = [](const Arrays& v) { return sort(v[0]); };
  if (rows == 1 && threads > 1) return out;
  const auto made = std::make_shared<std::vector<T>>(in->size());
  const auto sorter = std::make_shared<std::vector<hwy::Sorter>>(std::size_t(threads));
  out.peers.push_back({"vqsort",
                       [=] {
                         for_rows(rows, threads, [&](std::int64_t r) {
                           T* row = made->data() + r * n;
                           std::memcpy(row, in->data() + r * n, std::size_t(n) * sizeof(T));
                           const auto who = std::size_t(r * threads / rows);
                           (*sorter)[who](row, std::size_t(n), hwy::SortAscending());
                         });
                       },
                       [=] { return as_doubles(made->data(), rows * n); }});
  return out;
}

/// The order that sorts f32: pairs of the number's bits, as an integer of the same order, and its
/// place. They are made and taken apart within what is timed.
Problem ordered(std::int64_t rows, std::int64_t n, int threads) {
  const auto in = std::make_shared<const std::vector<float>>(keys<float>(rows * n));
  Problem out;
  out.inputs = {rows == 1 ? array(*in) : array(*in, {rows, n})};
  out.ours = [](const Arrays& v) { return argsort(v[0]); };
  if (rows == 1 && threads > 1) return out;
  const auto pairs = std::make_shared<std::vector<std::uint64_t>>(in->size());
  const auto made = std::make_shared<std::vector<std::int32_t>>(in->size());
  const auto sorter = std::make_shared<std::vector<hwy::Sorter>>(std::size_t(threads));
  const auto sort_row = [=](std::int64_t r) {
    std::uint64_t* row = pairs->data() + r * n;
    const float* from = in->data() + r * n;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(from[i]);
      const std::uint32_t key = bits ^ (std::uint32_t(-std::int32_t(bits >> 31)) | 0x80000000u);
      row[i] = std::uint64_t(key) << 32 | std::uint64_t(i);
    }
    (*sorter)[std::size_t(r * threads / rows)](row, std::size_t(n), hwy::SortAscending());
    std::int32_t* to = made->data() + r * n;
    for (std::int64_t i = 0; i < n; ++i) to[i] = std::int32_t(row[i]);
  };
  out.peers.push_back({"vqsort", [=] { for_rows(rows, threads, sort_row); },
                       [=] { return as_doubles(made->data(), rows * n); }});
  return out;
}

}  // namespace

std::vector<Case> sorts() {
  std::vector<Case> out;
  const auto add = [&](const char* type, auto make) {
    constexpr std::int64_t kShapes[][2] = {{1, 1000},     {1, 100000}, {1, 1000000},
                                           {1, 10000000}, {10000, 64}, {1000, 1000}};
    for (const auto& [rows, n] : kShapes) {
      out.push_back({"sorts " + std::string(type) + "/" +
                         (rows > 1 ? std::to_string(rows) + " rows of " : std::string()) +
                         std::to_string(n),
                     [=, rows = rows, n = n](int threads) { return make(rows, n, threads); }});
    }
  };
  add("f32", sorted<float>);
  add("s32", sorted<std::int32_t>);
  add("s64", sorted<std::int64_t>);
  add("u64", sorted<std::uint64_t>);
  add("order of f32", ordered);
  return out;
}

}  // namespace tessera::bench
