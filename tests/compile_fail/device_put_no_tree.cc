// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: TreeLike|constraints not satisfied
#include <tessera/jit.h>
#include <tessera/placement.h>

using namespace tessera;

// Only trees of arrays can be placed on devices.
#ifdef TESSERA_OK
void call(Array x) { device_put(x, devices()[0]); }
#else
void call(std::string x) { device_put(x, devices()[0]); }
#endif
