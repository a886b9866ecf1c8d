// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: static_argnums names a position that the function doesn.t have
#include <tessera/jit.h>

using namespace tessera;

// Positions count from 0.
#ifdef TESSERA_OK
Array call(Array x) {
  return jit([](Array a, int) { return a; }, static_argnums<1>)(x, 2);
}
#else
Array call(Array x) {
  return jit([](Array a, int) { return a; }, static_argnums<1, 2>)(x, 2);
}
#endif
