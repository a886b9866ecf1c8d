// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/ir/module.h"
#include "src/spmd/cost.h"

namespace tessera::spmd {

/// One communication that the partitioner put in, for the report.
struct CommunicationRecord {
  std::string kind;           ///< "all-gather", ...
  std::string instruction;    ///< name in the partitioned module
  std::string for_op;         ///< the user's op: "dot", op path
  Location location;          ///< the user's line
  std::string from, to;       ///< specs in axis names
  double bytes_received = 0;  ///< per execution, by one device
  bool full_gather = false;   ///< a device comes to hold all of the tensor without need
  std::string reason;         ///< "operand 1 of dot", "result", "no rule for custom-call foo", ...
  /// With PartitionOptions::tag_collectives only, and good while the source module is: the op that
  /// needs it, the array that moves (leaf `leaf` of `value`; null: what an op moves of its own),
  /// and both layouts.
  const ir::Instruction* op = nullptr;
  const ir::Instruction* value = nullptr;
  std::size_t leaf = 0;
  Shape shape;  ///< global, of what moves: an op's own intermediates may have another than `value`
  std::optional<TensorSharding> from_sharding, to_sharding;
};

struct PartitionReport {
  std::vector<CommunicationRecord> records;
  /// Ops computed from gathered operands since no partitioned form is known, with file:line.
  std::vector<std::string> replicated_ops;
};

/// A sharding of one array with which less might move.
struct LayoutAlternative {
  const ir::Instruction* instruction = nullptr;  ///< in the propagated module
  std::size_t leaf = 0;
  TensorSharding sharding;
  double bytes = 0;  ///< that move for want of it, per execution
  /// Not this array would move less, but what is made of it, or it would in a loop's trips.
  bool indirect = false;
};

struct PartitionOptions {
  CostModel cost;
  /// If set, filled with what is worth trying.
  std::vector<LayoutAlternative>* alternatives = nullptr;
  /// Each collective carries the number of its record in its metadata, under kCollectiveTag, and
  /// the report has all records, also of collectives that were dropped later. So they are found
  /// again after other passes.
  bool tag_collectives = false;
};
inline constexpr const char* kCollectiveTag = "tessera_record";

/// From a propagated module (every instruction has a closed sharding on module.mesh) to the program
/// of one device: shard shapes, collectives, partition-id arithmetic. num_partitions is set;
/// parameter and root shardings stay as annotations.
std::unique_ptr<ir::Module> partition(const ir::Module& module, const PartitionOptions& options,
                                      PartitionReport* report);

}  // namespace tessera::spmd
