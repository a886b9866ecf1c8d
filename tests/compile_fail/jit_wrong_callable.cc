// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: the callable given to jit or shard_map can.t be called
#include <tessera/jit.h>

using namespace tessera;

// A generic callable is checked with the arguments of the call.
#ifdef TESSERA_OK
Array call(Array x) {
  return jit([](auto a) { return a; })(x);
}
#else
auto call(Array x) {
  return jit([](auto a) { return a; })(x, x);
}
#endif
