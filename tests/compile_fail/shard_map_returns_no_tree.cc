// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: a function under jit or shard_map must return a tree of Array
#include <tessera/shard_map.h>

using namespace tessera;

#ifdef TESSERA_OK
Array call(Array x) {
  return shard_map([](Array a) { return a; }, {.in_specs = P("x"), .out_specs = P("x")})(x);
}
#else
void call(Array x) {
  shard_map([](Array a) { return a.size(); }, {.in_specs = P("x"), .out_specs = P("x")})(x);
}
#endif
