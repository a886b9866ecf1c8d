// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: no matching function|no matching constructor
// EXPECT-ERROR: SpecEntryLike|constraints not satisfied
#include <tessera/partition_spec.h>

// The entries of a spec are names of axes, not positions.
#ifdef TESSERA_OK
tessera::PartitionSpec spec("x", nullptr);
#else
tessera::PartitionSpec spec("x", 1.5);
#endif
