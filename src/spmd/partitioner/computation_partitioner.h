// SPDX-License-Identifier: Apache-2.0
// The device program of one computation: its parameters, each instruction's, its results.
#pragma once

#include "src/ir/module.h"
#include "src/spmd/partitioner/context.h"

namespace tessera::spmd {

/// Owns the parts that the handlers of op families work with, and calls those.
class ComputationPartitioner {
 public:
  ComputationPartitioner(ModulePartitioner& module, const ir::Computation& source,
                         ir::Computation* target);
  ComputationPartitioner(const ComputationPartitioner&) = delete;
  ComputationPartitioner& operator=(const ComputationPartitioner&) = delete;
  void run(bool is_entry);

 private:
  void partition_parameter(const ir::Instruction& parameter, bool is_entry);
  /// An argument that only one device has, on all of them.
  ir::Instruction* broadcast_from(const TensorSharding& given, ir::Instruction* x);
  void emit_results(bool is_entry);

  ModulePartitioner& module_;
  SourceComputation source_;
  ShardBuilder emit_;
  CommunicationReporter report_;
  RowExchangeEmitter rows_;
  ReshardEmitter reshards_;
  Values values_;
  LayoutChooser layouts_;
  PartitionContext context_;
};

}  // namespace tessera::spmd
