// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: a static argument can.t hold arrays
#include <tessera/jit.h>

using namespace tessera;

// Static arguments are compared by value: arrays have none while tracing.
#ifdef TESSERA_OK
Array call(Array x) {
  return jit([](Array a, int n) { return n ? a : Array(0); }, static_argnums<1>)(x, 2);
}
#else
Array call(Array x) {
  return jit([](Array a, int n) { return n ? a : Array(0); }, static_argnums<0>)(x, 2);
}
#endif
