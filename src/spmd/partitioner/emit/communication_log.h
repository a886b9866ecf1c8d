// SPDX-License-Identifier: Apache-2.0
// Collects the records of all collectives that are emitted into a module.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/ir/module.h"
#include "src/spmd/communication_report.h"
#include "src/spmd/partitioner/emit/reshard_reason.h"
#include "src/spmd/partitioner/emit/shard_builder.h"

namespace tessera::spmd {

/// By instruction of a program with explicit reshards: the op of the propagated module that it is,
/// or that a reshard is for.
using Origins = std::unordered_map<const ir::Instruction*, const ir::Instruction*>;

/// Of a module. Without a report nothing is recorded.
class CommunicationLog {
 public:
  /// `all_records`: see PartitionOptions. `origins` may be null: reports then name the ops of the
  /// program that is lowered.
  CommunicationLog(PartitionReport* report, bool all_records, const Origins* origins)
      : report_(report), all_records_(all_records), origins_(origins) {}

  bool all_records() const { return all_records_; }
  /// The op that a report names for an instruction.
  const ir::Instruction* origin_of(const ir::Instruction* i) const;
  void add(CommunicationRecord record, ir::Instruction* collective);
  void add_replicated_op(const std::string& line);
  /// Hands over the records of those collectives that are left in the program, or all of them.
  void finish(const ir::Module& program);

 private:
  PartitionReport* report_;
  bool all_records_;
  const Origins* origins_;
  std::vector<CommunicationRecord> records_;
};

/// Of one computation: knows for which op a collective is emitted.
class CommunicationReporter {
 public:
  CommunicationReporter(CommunicationLog& log, const ShardBuilder& emit) : log_(log), emit_(emit) {}

  void note(ir::Instruction* collective, const ReshardReason& reason);
  /// The same of one of several that together move something: `bytes` is its share of what is
  /// received.
  void note(ir::Instruction* collective, const ReshardReason& reason, double bytes);

 private:
  CommunicationLog& log_;
  const ShardBuilder& emit_;
};

}  // namespace tessera::spmd
