// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: deleted
#include <tessera/sharding.h>

using namespace tessera;

// A sharding needs a spec; P() replicates.
#ifdef TESSERA_OK
Sharding on(const Mesh& mesh) { return NamedSharding(mesh, P()); }
#else
Sharding on(const Mesh& mesh) { return NamedSharding(mesh, nullptr); }
#endif
