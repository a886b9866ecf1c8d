// SPDX-License-Identifier: Apache-2.0
// Programs of several replicas as programs of as many more partitions.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// One device's program for R replicas of P partitions becomes that for one replica of R * P:
/// device r * P + p is partition p of replica r. Groups name these devices, replica-id and
/// partition-id are taken from their numbers, and arguments of different replicas may differ.
/// `partitioned`: collectives with a channel are the partitioner's, whose groups name partitions.
/// @code
///   replica_count=2, num_partitions=2                     num_partitions=4
///   all-reduce(x), replica_groups={{0,1}}         ->      all-reduce(x), {{0,2},{1,3}}
///   replica-id()                                  ->      partition-id() / 2
/// @endcode
/// In a program of one replica, replica-id is 0. Returns how many instructions changed.
std::size_t flatten_replicas(ir::Module* module, bool partitioned = false);

}  // namespace tessera::passes
