// SPDX-License-Identifier: Apache-2.0
// What the partitioner says of the communication that it put in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/ir/module.h"

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

/// The number of the record that tells of a collective, which goes with its metadata through all
/// passes; -1: none does.
std::int64_t record_id(const ir::Instruction& collective);
void set_record_id(ir::Instruction* collective, std::int64_t id);
/// Takes the numbers off again: the text of programs has no use for them.
void drop_record_ids(ir::Module* module);

/// What the report calls an op: "dot", "custom-call TopK".
std::string op_label(const ir::Instruction& source);

}  // namespace tessera::spmd
