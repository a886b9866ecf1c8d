// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: the function is called with a different number of arguments than it takes
#include <tessera/jit.h>

using namespace tessera;

// As many arguments as parameters.
#ifdef TESSERA_OK
Array call(Array x) {
  return jit([](Array a, Array b) { return b.valid() ? a : b; })(x, x);
}
#else
auto call(Array x) {
  return jit([](Array a, Array b) { return b.valid() ? a : b; })(x);
}
#endif
