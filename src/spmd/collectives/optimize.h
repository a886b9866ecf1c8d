// SPDX-License-Identifier: Apache-2.0
// Collectives of a device program made fewer and smaller. Nothing changes what a device computes,
// but for the order in which floats are summed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "src/ir/limits.h"
#include "src/ir/module.h"

namespace tessera::spmd {

/// Sums, moves and elementwise ops change places with collectives, where that leaves fewer of them:
/// reductions over one axis and then over another; the sum of reductions; what is computed of
/// gathered arrays, before they are gathered; two gathers, scatters or permutes in a row.
std::size_t reassociate_collectives(ir::Module* module);
/// A reduction of which each device then takes its own part is a reduce-scatter; of what was
/// gathered, its own part was there before.
std::size_t create_reduce_scatters(ir::Module* module);
/// Loops: collectives of what does not change from trip to trip happen once, before the loop; what
/// is reduced and added up in each trip is reduced once, after it.
std::size_t move_collectives_out_of_loops(ir::Module* module);

/// Loops whose predicate is whether any row of any device has work left, and whose rows without
/// work keep what they carry: each device looks at its own rows only. `removed`, if set, is called
/// with each all-reduce that goes.
std::size_t localize_loop_exits(ir::Module* module,
                                const std::function<void(const ir::Instruction&)>& removed = {});

struct CombineOptions {
  /// What one combined collective gives at most.
  std::int64_t max_bytes = std::int64_t(1) << 20;
  /// The same for those whose arrays must first be copied into one.
  std::int64_t max_copied_bytes = std::int64_t(1) << 14;
};
/// Independent collectives of the same kind and groups become one: all-reduces and all-gathers with
/// several results, the others of one array in which theirs are side by side.
std::size_t combine_collectives(ir::Module* module, const CombineOptions& options = {});
/// Dots of what is gathered for them alone, or whose sum is scattered, become loops in which the
/// parts travel around a ring, where the full array has `from_bytes` or more.
std::size_t expand_collective_matmuls(ir::Module* module, std::int64_t from_bytes);
/// Each instruction when its user is computed, that of the operands first that needs most memory.
/// `shrink_early`: what leaves less than it takes away as soon as it can be. Computations with side
/// effects stay as they are. Returns how many change.
std::size_t schedule_for_memory(ir::Module* module, bool shrink_early = false);
/// Each collective as early as its operands are there.
std::size_t schedule_collectives_early(ir::Module* module);

/// Thrown on request only, see below.
struct StepTakenBack {};

struct CollectiveOptions {
  CombineOptions combine;
  /// See expand_collective_matmuls.
  std::int64_t collective_matmul_from_bytes = std::int64_t(64) << 20;
  /// Leave them one by one: each belongs to one op in a report.
  bool combine_any = true;
  /// Peak memory of a device; nothing is kept that raises it. About (peak_memory.h) if
  /// not set.
  std::function<double(const ir::Module&)> peak;
  /// Orders as well; without, what is received is the same.
  bool order = true;
  /// No copies are kept to go back to: StepTakenBack is thrown where a step would be taken back,
  /// and the module is lost. For those who measure many programs, and can begin again.
  bool keep_no_copies = false;
  /// Told of collectives that were found needless, if set.
  std::function<void(const ir::Instruction&)> removed;
  /// Makes instructions that compute the same one, if set, and says how many went: what comes out
  /// of a loop may have been computed before it. Collectives are left to dedupe_collectives.
  std::function<std::size_t(ir::Module*)> merge_equal;
  /// Of a program of more instructions nothing is tried and taken back: less is tried.
  std::size_t max_tried = ir::kMostTried;
};
/// Those of the above that change how much is received, quickly: for a program that is only
/// measured.
void reduce_collectives(std::unique_ptr<ir::Module>* module);
/// All of the above; of a program that doesn't communicate, the order alone. The module is taken as
/// one of this program's own devices' programs.
void optimize_collectives(std::unique_ptr<ir::Module>* module, const CollectiveOptions& options);

}  // namespace tessera::spmd
