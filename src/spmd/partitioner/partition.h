// SPDX-License-Identifier: Apache-2.0
// SPMD partitioning: a propagated module becomes one device's program.
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
  std::int64_t id = -1;       ///< see record_id
  std::string kind;           ///< "all-gather", ...
  std::string instruction;    ///< name in the partitioned module
  std::string for_op;         ///< the user's op: "dot", op path
  Location location;          ///< the user's line
  std::string from, to;       ///< specs in axis names
  double bytes_received = 0;  ///< per execution, by one device
  bool full_gather = false;   ///< a device comes to hold all of the tensor without need
  std::string reason;         ///< "operand 1 of dot", "result", "no rule for custom-call foo", ...
  /// With PartitionOptions::all_records only, and good while the source module is: the op that
  /// needs it, the array that moves (leaf `leaf` of `value`; null: what an op moves of its own),
  /// and both layouts.
  const ir::Instruction* op = nullptr;
  const ir::Instruction* value = nullptr;
  std::size_t leaf = 0;
  Shape shape;  ///< global, of what moves: an op's own intermediates may have another than `value`
  std::optional<TensorSharding> from_sharding, to_sharding;
};

struct PartitionReport {
  std::vector<CommunicationRecord> records;  ///< by ascending id
  /// Ops computed from gathered operands since no partitioned form is known, with file:line.
  std::vector<std::string> replicated_ops;

  /// That of a collective of the device program, whatever passes it has been through; null if it
  /// has none.
  const CommunicationRecord* record_of(const ir::Instruction& collective) const;
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
  /// The report has all records, also of collectives that the partitioner drops again, and each
  /// says which op and which array of the source module it is about.
  bool all_records = false;
};

/// The number of the record that tells of a collective, which goes with its metadata through all
/// passes; -1: none does.
std::int64_t record_id(const ir::Instruction& collective);
/// Takes the numbers off again: the text of programs has no use for them.
void drop_record_ids(ir::Module* module);

/// From a propagated module (every instruction has a closed sharding on module.mesh) to the program
/// of one device: shard shapes, collectives, partition-id arithmetic. num_partitions is set;
/// parameter and root shardings stay as annotations.
std::unique_ptr<ir::Module> partition(const ir::Module& module, const PartitionOptions& options,
                                      PartitionReport* report);

}  // namespace tessera::spmd
