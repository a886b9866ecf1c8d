// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: a per-device function must return a tree of Array
#include <tessera/custom_partitioning.h>
#include <tessera/jit.h>

using namespace tessera;

// Per-device results are arrays.
#ifdef TESSERA_OK
PerDeviceFunction f = [](Array x) { return x; };
#else
PerDeviceFunction f = [](Array) { return 1; };
#endif
