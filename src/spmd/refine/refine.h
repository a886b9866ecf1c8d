// SPDX-License-Identifier: Apache-2.0
// Search for better intermediate shardings than propagation alone gives.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "src/ir/module.h"
#include "src/spmd/partitioner/partition.h"
#include "src/spmd/refine/score.h"

namespace tessera::spmd {

struct RefineOptions {
  PartitionOptions partition;
  /// Partitionings that may be tried from each place that the search starts from; 0: it only
  /// propagates. Fewer in large modules, where `instructions` are shared among them; if that leaves
  /// but a few, only other places to start from are, and in the largest, or on thousands of
  /// devices, nothing.
  int trials = 24;
  std::int64_t instructions = 12000;
  /// The same where the bytes are not few against the work of dots.
  std::int64_t max_instructions = 24000;
  /// Size (search_size.h) of the program as it was written, if more: where dots are most of what it
  /// costs, its search may take as long as before.
  std::int64_t size = 0;
  /// What comes of a propagated program that is partitioned at this cost. It is asked about the few
  /// programs that the search ends with; if null, they are compared as the search sees them.
  std::function<Outcome(const ir::Module& propagated, const CostModel& cost)> judge;
};

struct Refined {
  std::unique_ptr<ir::Module> module;
  CostModel cost;                  ///< with which it is to be partitioned
  double price = 0;                ///< as the search sees it; 0 if it only propagated
  std::optional<Outcome> outcome;  ///< if the judge was asked
  std::optional<Outcome> asked;    ///< what the program asks for as it is propagated
  /// What partitioning it makes, and its report, where a large module's search has them at hand.
  std::unique_ptr<ir::Module> device;
  PartitionReport report;
};

/// Whether functions of the user's own partition some of its calls: such a program is only
/// propagated, since they are not to be asked over and over.
bool calls_back(const ir::Module& module);

/// Propagation, then a search for shardings of intermediate arrays with which the whole program
/// receives less: where data moves, what would save that is tried by propagating and partitioning
/// again, array by array and all at once, and kept if the program as a whole gets cheaper and no
/// device computes more, or hardly more for many bytes. Dots are tried with higher prices, too: one
/// is kept if that saves work and few bytes are paid for it. What the program states stays, and so
/// do its arguments; results that it leaves open wholly may lie otherwise. Ends with every
/// instruction's sharding set, as propagate does.
///
/// Starting points: the module as propagated; one argument propagated before all others; all that
/// ops ask for at once; and the same programs with other prices (CostModel::share_copies,
/// steady_moves_once, dearer dots). From each, one array at a time is given another sharding: those
/// that move first, then what several of them are computed from.
///
/// Work is measured against what the shardings divide as they stand (given_dot.h, given_ways.h),
/// and a trial is kept if price.h says that it improves: fewer bytes, with dots at most a tenth and
/// other work at most two fifths above that of the module as propagated.
///
/// Fewer trials are made of larger programs (search_size.h, RefineOptions, and the constants in
/// refine.cc): above 2,000 instructions none where dots are most of the cost; above 4,000 only
/// other starting points; above 10,000, or on more than 1,024 devices, none at all. Where searches
/// end with different programs, `judge` compiles each of them, and the best by score.h is taken.
Refined propagate_and_refine(std::unique_ptr<ir::Module> module, const RefineOptions& options = {});

}  // namespace tessera::spmd
