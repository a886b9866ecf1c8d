// SPDX-License-Identifier: Apache-2.0
// What bench_libraries compares: one operation by Tessera and by libraries, on the same numbers.
#pragma once

#include <tessera/tessera.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tessera::bench {

using Arrays = std::vector<Array>;

/// A library's function, with all that is prepared ahead: plans, constant filters in its own order.
struct Peer {
  std::string name;
  std::function<void()> run;
  std::function<std::vector<double>()> result;  ///< of the last run, in the order of ours
};

/// The operands of one operation, for all who compute it.
struct Problem {
  Arrays inputs;
  std::function<Array(const Arrays&)> ours;
  std::vector<Peer> peers;
  double tolerance = 0;  ///< of differences, as a part of the largest number
};

struct Case {
  std::string name;                          ///< "group/what"
  std::function<Problem(int threads)> make;  ///< no peers: no library does it with so many threads
};

std::vector<Case> products();
std::vector<Case> convolutions();
std::vector<Case> sorts();
std::vector<Case> transforms();

/// Numbers in [-1, 1) with few digits, so that bf16 has them, too.
template <class T>
std::vector<T> some_numbers(std::uint64_t seed, std::int64_t count) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  std::vector<T> out(static_cast<std::size_t>(count));
  for (T& x : out) {
    state = state * 6364136223846793005 + 1442695040888963407;
    x = static_cast<T>(double(std::int64_t(state >> 56) - 128) / 128);
  }
  return out;
}

template <class T>
std::vector<double> as_doubles(const T* from, std::int64_t count) {
  return std::vector<double>(from, from + count);
}

}  // namespace tessera::bench
