// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: the function is called with a different number of arguments than it takes
#include <tessera/shard_map.h>

using namespace tessera;

Array call(Array x) {
  auto f = shard_map([](Array a) { return a; }, {.in_specs = P("x"), .out_specs = P("x")});
#ifdef TESSERA_OK
  return f(x);
#else
  return f(x, x);
#endif
}
