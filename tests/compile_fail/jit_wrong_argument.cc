// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: an argument of the call doesn.t convert to the function.s parameter
#include <tessera/jit.h>

using namespace tessera;

// An array is no vector of arrays.
#ifdef TESSERA_OK
Array call(Array x) {
  return jit([](std::vector<Array> a) { return a[0]; })({x});
}
#else
auto call(Array x) {
  return jit([](std::vector<Array> a) { return a[0]; })(x);
}
#endif
