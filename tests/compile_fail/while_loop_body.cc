// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: while_loop.s body takes the carried value and returns one of that type
#include <tessera/control_flow.h>
#include <tessera/jit.h>

using namespace tessera;

// The carried value keeps its type.
#ifdef TESSERA_OK
Array call(Array x) {
  return while_loop([](Array v) { return v; }, [](Array v) { return v; }, x);
}
#else
Array call(Array x) {
  return while_loop([](Array v) { return v; }, [](Array v) { return std::pair{v, v}; }, x);
}
#endif
