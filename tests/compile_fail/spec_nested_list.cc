// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: axes.*takes names of axes
#include <tessera/partition_spec.h>

using namespace tessera;

#ifdef TESSERA_OK
P spec(axes("x", "y", "z"));
#else
P spec(axes(axes("x", "y"), "z"));
#endif
