// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: scan.s function returns a pair
#include <tessera/control_flow.h>
#include <tessera/jit.h>

using namespace tessera;

// The carried value, and what is stacked.
#ifdef TESSERA_OK
Array call(Array x) {
  return scan([](Array c, Array v) { return std::pair{c, v}; }, x, x).first;
}
#else
auto call(Array x) {
  return scan([](Array c, Array) { return c; }, x, x);
}
#endif
