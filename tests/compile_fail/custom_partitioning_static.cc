// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: with static_argnums the function must state its parameter types
#include <tessera/custom_partitioning.h>
#include <tessera/jit.h>

using namespace tessera;

// Callbacks get the static arguments by their types.
#ifdef TESSERA_OK
auto f = custom_partitioning([](int n, Array x) { return n ? x : Array(0); }, static_argnums<0>);
#else
auto f = custom_partitioning([](auto n, Array x) { return n ? x : Array(0); }, static_argnums<0>);
#endif
