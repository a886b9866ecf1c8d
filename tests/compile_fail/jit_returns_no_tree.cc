// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: a function under jit or shard_map must return a tree of Array
#include <tessera/jit.h>

using namespace tessera;

// Results are arrays, or containers and structs of them.
#ifdef TESSERA_OK
Array call(Array x) {
  return jit([](Array a) { return a; })(x);
}
#else
auto call(Array x) {
  return jit([](Array) { return 1.5; })(x);
}
#endif
