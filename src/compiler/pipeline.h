// SPDX-License-Identifier: Apache-2.0
// The compiler pipeline, run to the end or up to a stage.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/codegen/plan_builder.h"
#include "src/compiler/compile.h"
#include "src/spmd/auto_sharding/decisions.h"
#include "src/spmd/partitioner/compile_context.h"
#include "src/spmd/partitioner/partition.h"

namespace tessera::compiler {

/// A module on its way through the stages, and what they leave behind.
struct Compilation {
  Options options;
  spmd::PartitionOptions partition;
  std::unique_ptr<ir::Module> module;  ///< what the next stage takes
  std::unique_ptr<ir::Module> input, propagated;
  std::vector<TensorSharding> parameter_shardings, result_shardings;
  std::vector<TensorSharding> root_sharding;  ///< as the partitioner left it
  std::vector<Shape> parameter_shapes, result_shapes;
  spmd::PartitionReport report;
  codegen::BuiltPlan built;
  /// For a report: collectives are tagged, the propagated module stays in `source`, and nothing is
  /// reported about full gathers.
  bool for_report = false;
  /// What moves and what is computed are all that matters: memory is estimated, not planned.
  bool for_figures = false;
  /// For FullGathers::error: throws if the report has full gathers.
  std::function<void(const Compilation&)> refuse_full_gathers;
  /// The propagated module, while it is partitioned and for a report.
  std::unique_ptr<ir::Module> source;
  /// For a report: what the solver's choices cost.
  bool for_decisions = false;
  std::vector<spmd::ShardingDecision> decisions;
  /// What partitioning makes of `module`, where solving for shardings left it; with `report`.
  spmd::ExplicitProgram reshards;
  std::unique_ptr<ir::Module> device;
  /// From propagation to partitioning: what they work out once.
  std::shared_ptr<spmd::CompileContext> context;
  std::size_t next_stage = 0;
};

/// Runs the stages that are left, up to but not including the one named.
void run_until(Compilation* c, const std::string& stage);
/// Goes on at that stage.
void skip_until(Compilation* c, const std::string& stage);
/// Runs all stages.
void run_pipeline(Compilation* c);
/// One line per stage, for documents and tests.
std::vector<std::string> stage_names();

}  // namespace tessera::compiler
