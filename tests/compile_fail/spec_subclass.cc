// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: cannot derive from .final. base|is marked .final.
#include <tessera/partition_spec.h>

using namespace tessera;

#ifdef TESSERA_OK
struct Spec {
  PartitionSpec spec;
};
#else
struct Spec : PartitionSpec {};
#endif
