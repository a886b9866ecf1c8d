// SPDX-License-Identifier: Apache-2.0
// SPMD partitioning: a propagated module becomes one device's program.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "src/ir/module.h"
#include "src/spmd/communication_report.h"
#include "src/spmd/partitioner/emit/communication_log.h"
#include "src/spmd/partitioner/partition_options.h"

namespace tessera::spmd {

/// A propagated program in which every op is in the layout that it is computed in, and all that is
/// brought from one layout to another is an instruction: a reshard (ir/constraint.h) with its
/// reason. Shapes are global still.
struct ExplicitProgram {
  std::unique_ptr<ir::Module> module;
  Origins origins;  ///< instructions of the propagated module, which must outlive this
};

/// Chooses the layout of each op, and puts in the reshards between them.
ExplicitProgram insert_reshards(const ir::Module& module, const PartitionOptions& options);

/// Merges equal reshards, joins those in a row and moves out of loops what these don't change.
/// Returns how many were changed.
std::size_t optimize_reshards(ExplicitProgram* program, const PartitionOptions& options);

/// About what one device receives for the reshards in one run, by their plans: neither what ops
/// move within themselves is in it, nor that collectives are made fewer later.
double bytes_of_reshards(ExplicitProgram* program, const PartitionOptions& options);

/// The program of one device.
std::unique_ptr<ir::Module> lower_reshards(const ExplicitProgram& program,
                                           const PartitionOptions& options,
                                           PartitionReport* report);

/// All of that: from a propagated module (every instruction has a closed sharding on module.mesh)
/// to the program of one device: shard shapes, collectives, partition-id arithmetic. num_partitions
/// is set; parameter and root shardings stay as annotations.
std::unique_ptr<ir::Module> partition(const ir::Module& module, const PartitionOptions& options,
                                      PartitionReport* report);

}  // namespace tessera::spmd
