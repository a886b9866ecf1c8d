// SPDX-License-Identifier: Apache-2.0
// Chooses the shardings that a program leaves open, so that the whole costs little.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "src/ir/module.h"
#include "src/spmd/auto_sharding/decisions.h"
#include "src/spmd/partitioner/partition.h"

namespace tessera::spmd {

struct AutoShardingOptions {
  PartitionOptions partition;
  /// Bytes that one device may hold, by cost::estimated_peak_bytes. If unset, hardly more than the
  /// propagated program.
  std::optional<double> memory_budget;
  /// For a report: also what each choice costs.
  bool decisions = false;
};

/// What one device does and holds, by the partitioned program.
struct ProgramCost {
  double bytes = 0;        ///< received
  double collectives = 0;  ///< started
  double flops = 0;        ///< of dots and convolutions
  double peak_bytes = 0;
  /// Seconds of all that is received and of these flops, one after the other.
  double total = 0;
};

struct AutoSharding {
  /// Every instruction's sharding is set, as propagate does.
  std::unique_ptr<ir::Module> module;
  /// Whether they are the solver's; else those of propagation alone.
  bool solved = false;
  ProgramCost propagated, chosen;
  /// What partitioning makes of the module, with explicit reshards and of one device, and its
  /// report.
  ExplicitProgram reshards;
  std::unique_ptr<ir::Module> device;
  PartitionReport report;
  /// If asked for, and if there was anything to solve: of the module, as it is kept.
  std::vector<ShardingDecision> decisions;
};

/// Whether functions of the user's own partition some of its calls: such a program is only
/// propagated, since they are not to be asked over and over.
bool calls_back(const ir::Module& module);

/// Propagates, then solves for the shardings of what the program leaves open (sharding_model.h):
/// all arrays but arguments, stated results and constraints. Both programs are partitioned and
/// priced, and the cheaper one within the budget is kept, the propagated one if none is within it.
/// If a solution needs more memory than allowed, another is sought at a higher price of memory.
AutoSharding propagate_and_solve(std::unique_ptr<ir::Module> module,
                                 const AutoShardingOptions& options = {});

}  // namespace tessera::spmd
