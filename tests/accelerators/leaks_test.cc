// SPDX-License-Identifier: Apache-2.0
// Compilations and calls leave nothing behind. ACCELERATORS_LEAKS=long for the long form.
#include <unistd.h>

#include <fstream>

#include "tests/accelerators/plugin_testing.h"

namespace tessera::testing {
namespace {

double megabytes_in_use() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  file >> all >> resident;
  return resident * double(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

bool is_long() { return std::getenv("ACCELERATORS_LEAKS") != nullptr; }

void compile(int from, int count) {
  const Mesh mesh({plugin_devices()[0], plugin_devices()[1]}, {2}, {"x"});
  const Array x = device_put(counting({8, 4}), NamedSharding(mesh, P("x")));
  for (int k = from; k < from + count; ++k) {
    const auto f = jit([k](Array a) { return sum(tanh(a * float(k)), 0); });
    (void)floats(f(x));
  }
}

TEST(Leaks, OfCompilations) {
  // In rounds: what programs take that are there at the same time isn't given back to the system.
  const int count = is_long() ? 1000 : 80;
  compile(0, count / 4);
  clear_caches();
  const double before = megabytes_in_use();
  for (int round = 1; round <= 4; ++round) {
    compile(round * count, count / 4);
    clear_caches();
  }
  const double grown = megabytes_in_use() - before;
  std::cout << count << " compilations: " << grown << " MB more\n";
  EXPECT_LT(grown, is_long() ? 4 : 3);
}

TEST(Leaks, OfCalls) {
  const int count = is_long() ? 10000 : 1000;
  const Mesh mesh(plugin_devices(), {8}, {"x"});
  const auto f = jit([](Array a, Array b) { return std::pair(a + 1.0f, sum(a * b)); },
                     {.donate_argnums = {0}});
  const Array b = device_put(ones({8, 1024}), NamedSharding(mesh, P("x")));
  const auto call = [&](int n) {
    Array a = device_put(ones({8, 1024}), NamedSharding(mesh, P("x")));
    for (int k = 0; k < n; ++k) {
      const auto [next, total] = f(a, b);
      a = next;
      if (k % 100 == 0) (void)floats(total);
    }
    a.block_until_ready();
  };
  call(count / 4);
  const double before = megabytes_in_use();
  call(count);
  const double grown = megabytes_in_use() - before;
  std::cout << count << " calls: " << grown << " MB more\n";
  EXPECT_LT(grown, 4);
}

}  // namespace
}  // namespace tessera::testing
