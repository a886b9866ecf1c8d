// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: the function is called with a different number of arguments than it takes
#include <tessera/jit.h>

using namespace tessera;

// lower takes what the function takes.
#ifdef TESSERA_OK
Lowered call(Array x) {
  return jit([](Array a, Array b) { return b.valid() ? a : b; }).lower(x, x);
}
#else
auto call(Array x) {
  return jit([](Array a, Array b) { return b.valid() ? a : b; }).lower(x);
}
#endif
