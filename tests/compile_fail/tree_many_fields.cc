// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: .* more than 24 of them can't be found.*TESSERA_TREE
#include <tessera/jit.h>

using namespace tessera;

// Up to 24 fields are found; more are named.
struct Many {
  Array a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20,
      a21, a22, a23, a24, a25;
};
#ifdef TESSERA_OK
TESSERA_TREE(Many, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18,
             a19, a20, a21, a22, a23, a24, a25)
#endif
Many call(Array x) {
  return jit([](Array a) { return Many{a}; })(x);
}
