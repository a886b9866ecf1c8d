// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: no match for .operator[+].|invalid operands to binary expression
#include <tessera/partition_spec.h>

using namespace tessera;

const PartitionSpec parts = P("x").with_unreduced({"y"});
const std::vector<SpecEntry> more{"z"};

#ifdef TESSERA_OK
const PartitionSpec sum = parts + PartitionSpec::from_entries(more);
#else
const PartitionSpec sum = parts + more;
#endif
