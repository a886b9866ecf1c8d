// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: cond.s branches return the same type
#include <tessera/control_flow.h>
#include <tessera/jit.h>

using namespace tessera;

// One result type, whichever branch is taken.
#ifdef TESSERA_OK
Array call(Array x) {
  return cond(
      true, [](Array v) { return v; }, [](Array v) { return v; }, x);
}
#else
auto call(Array x) {
  return cond(
      true, [](Array v) { return v; },
      [](Array v) {
        return std::pair{v, v};
      },
      x);
}
#endif
