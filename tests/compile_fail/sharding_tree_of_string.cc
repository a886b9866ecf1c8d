// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: deleted
#include <tessera/jit.h>

using namespace tessera;

// The name of an axis alone is no spec.
#ifdef TESSERA_OK
ShardingTree shardings = tree(P("x"), nullptr);
#else
ShardingTree shardings = tree("x", nullptr);
#endif
