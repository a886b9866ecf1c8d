// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: a parameter of arithmetic, string or enum type must be listed in
// static_argnums
#include <tessera/jit.h>

using namespace tessera;

// A number that is no Array is part of the program: it must be named as static.
#ifdef TESSERA_OK
Array call(Array x) {
  return jit([](Array a, double) { return a; }, static_argnums<1>)(x, 2.0);
}
#else
Array call(Array x) {
  return jit([](Array a, double) { return a; })(x, 2.0);
}
#endif
