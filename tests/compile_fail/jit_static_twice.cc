// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: no matching function for call to .jit
#include <tessera/jit.h>

using namespace tessera;

#ifdef TESSERA_OK
auto f = jit([](Array x, int n) { return n == 0 ? x : Array(0); }, static_argnames<"n">,
             arg_names<"x", "n">);
#else
auto f = jit([](Array x, int n) { return n == 0 ? x : Array(0); }, static_argnums<1>,
             static_argnames<"n">, arg_names<"x", "n">);
#endif
