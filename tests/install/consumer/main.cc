// SPDX-License-Identifier: Apache-2.0
// What a user writes first: a function jitted over eight devices.
#include <iostream>

#include <tessera/tessera.h>

int main() {
  using namespace tessera;
  const Mesh mesh = make_mesh({{"x", 2}, {"y", 4}});
  const Array a = device_put(reshape(arange(8 * 16), {8, 16}), NamedSharding(mesh, P("x", "y")));
  const auto f = jit([](Array v) { return matmul(v, transpose(v)) + 1; },
                     {.out_shardings = NamedSharding(mesh, P("y", "x"))});
  const Array c = f(a);
  std::cout << c.sharding().to_string() << "\n";
  const auto values = c.to_vector<std::int32_t>();
  bool right = c.addressable_shards().size() == 8 && values.size() == 64;
  for (int i = 0; i < 8 && right; ++i) {
    for (int j = 0; j < 8; ++j) {
      int sum = 1;
      for (int k = 0; k < 16; ++k) sum += (16 * i + k) * (16 * j + k);
      right = right && values[std::size_t(8 * i + j)] == sum;
    }
  }
  std::cout << (right ? "right\n" : "wrong numbers\n");
  return right ? 0 : 1;
}
