// SPDX-License-Identifier: Apache-2.0
// What a call costs when there is nearly nothing to compute: x + 1 on 1 KB, on one device and on
// eight, through jit and as a compiled program. Medians, in microseconds.
#include <tessera/tessera.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

using namespace tessera;

namespace {

template <class F>
double median_microseconds(F&& call) {
  std::vector<double> times(20000);
  for (double& t : times) {
    const auto start = std::chrono::steady_clock::now();
    call();
    t = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  }
  std::nth_element(times.begin(), times.begin() + 10000, times.end());
  return times[10000];
}

bool measure(const char* what, Array x, double limit) {
  const auto add_one = jit([](Array a) { return a + 1.0f; });
  x = add_one(x);
  const double traced = median_microseconds([&] { x = add_one(x); });
  const auto compiled = add_one.lower(x).compile();
  const double direct = median_microseconds([&] { x = compiled(x); });
  std::printf("%-13s jit %6.2f us   compiled %6.2f us   (at most %.0f)\n", what, traced, direct,
              limit);
  return direct <= limit;
}

}  // namespace

int main() {
  const Array x = zeros({256});
  const Mesh mesh = make_mesh({{"x", 8}});
  const bool one = measure("one device", x, 1);
  const bool eight = measure("eight devices", device_put(x, NamedSharding(mesh, P("x"))), 2);
  return one && eight ? 0 : 1;
}
