// SPDX-License-Identifier: Apache-2.0
// How long a compiled function takes.
#pragma once

#include <tessera/tessera.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace tessera::bench {

using Arrays = std::vector<Array>;

/// Seconds of a call: the median of many, or of five if they are long.
inline double seconds_of(const std::string& name, const Arrays& inputs,
                         const std::function<Array(const Arrays&)>& function) {
  using Clock = std::chrono::steady_clock;
  const auto run = jit([&](Arrays a) { return function(a); }, {.name = name});
  const auto compiled = run.lower(inputs).compile();
  std::vector<double> times;
  double total = 0;
  Array result;
  while (times.size() < 5 || (total < 0.4 && times.size() < 200)) {
    result = Array();
    const auto start = Clock::now();
    result = compiled(inputs);
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    total += times.back();
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace tessera::bench
