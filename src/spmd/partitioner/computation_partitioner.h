// SPDX-License-Identifier: Apache-2.0
// What a stage of the partitioner makes of one computation: its parameters, each instruction, its
// results.
#pragma once

#include <cstddef>

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
  /// The root of a program with explicit reshards, which is annotated as `root` is.
  void set_annotated_root(ir::Instruction* local, const ir::Instruction& root);
  /// What was emitted since the last time is for `op`, unless it is known to be for another.
  void note_origins(const ir::Instruction& op);

  ModulePartitioner& module_;
  SourceComputation source_;
  ShardBuilder emit_;
  CommunicationReporter report_;
  RowExchangeEmitter rows_;
  ReshardEmitter reshards_;
  Values values_;
  LayoutChooser layouts_;
  PartitionContext context_;
  std::size_t noted_ = 0;  ///< instructions whose origins are known
};

}  // namespace tessera::spmd
