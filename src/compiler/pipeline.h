// SPDX-License-Identifier: Apache-2.0
// The stages from a module to one device's program with its collectives, the same for all targets.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/compiler/compile.h"
#include "src/compiler/stages.h"
#include "src/compiler/target.h"
#include "src/spmd/auto_sharding/decisions.h"
#include "src/spmd/partitioner/compile_context.h"
#include "src/spmd/partitioner/partition.h"

namespace tessera::compiler {

/// Groups of stages, in order.
enum class Phase : std::uint8_t {
  prepare,      ///< calls, derivatives, scans and layouts are put in terms of plain ops
  partition,    ///< shardings are chosen, and each device gets its program
  simplify,     ///< of one device's program, as the target wants it
  collectives,  ///< are made fewer, combined and moved
  select,       ///< what the target does last
  done,
};

/// What a program is compiled for: to run it, unless one of the constants below says otherwise.
struct Purpose {
  /// Collectives are tagged, the propagated module stays in Compilation::source, and nothing is
  /// said about full gathers.
  bool report = false;
  /// What the solver's choices cost is kept, too.
  bool decisions = false;
  /// What moves and what is computed are all that matters: nothing is put into another order for
  /// its own sake.
  bool figures = false;
  /// In place of planning it.
  bool estimates_memory = false;
  /// Without checks of the compiler's own work, and without copies to go back to:
  /// spmd::StepTakenBack is thrown where one would be needed.
  bool quick = false;
};
/// For a report on the program.
inline constexpr Purpose kExplaining = {.report = true, .decisions = true};
/// The same program, of which no more is asked than its collectives.
inline constexpr Purpose kComparing = {.report = true};
/// What it receives, computes and holds; a sum of bytes may be rounded otherwise.
inline constexpr Purpose kMeasuring = {.report = true, .figures = true};
/// The same of many programs, fast.
inline constexpr Purpose kEstimating = {.report = true, .figures = true, .estimates_memory = true};
inline constexpr Purpose kEstimatingQuickly = {
    .report = true, .figures = true, .estimates_memory = true, .quick = true};

/// Thrown on request only, see Compilation.
struct NotWorthwhile {};

/// A module on its way through the stages, and what they leave behind.
struct Compilation {
  Options options;
  const Target* target = &cpu_target();
  /// What comes next.
  Phase next = Phase::prepare;
  spmd::PartitionOptions partition;
  std::unique_ptr<ir::Module> module;  ///< what the next stage takes
  std::unique_ptr<ir::Module> input, propagated;
  std::vector<TensorSharding> parameter_shardings, result_shardings;
  std::vector<TensorSharding> root_sharding;  ///< as the partitioner left it
  std::vector<Shape> parameter_shapes, result_shapes;
  DeviceAssignment assignment;
  /// What the stages so far guarantee (guarantees.h), and what the module as given can't: checked
  /// after each stage with TESSERA_VERIFY.
  unsigned guarantees = 0, not_guaranteed = 0;
  spmd::PartitionReport report;
  Purpose purpose;
  /// Asked with what the reshards receive (spmd::bytes_of_reshards); if it says no, NotWorthwhile
  /// is thrown: for those who look for a program that receives less.
  std::function<bool(double bytes)> is_worthwhile;
  /// For FullGathers::error: throws if the report has full gathers.
  std::function<void(const Compilation&)> refuse_full_gathers;
  /// The propagated module, while it is partitioned and for a report.
  std::unique_ptr<ir::Module> source;
  /// For Purpose::decisions.
  std::vector<spmd::ShardingDecision> decisions;
  /// The reshards of `module`, between the stages that find and lower them.
  spmd::ExplicitProgram reshards;
  /// Solving for shardings partitions the program that it chooses, to price it. The stages that
  /// would do this again take what it made.
  struct Tried {
    spmd::ExplicitProgram reshards;
    std::unique_ptr<ir::Module> device;
    spmd::PartitionReport report;
  };
  std::optional<Tried> tried;
  /// From propagation to partitioning: what they work out once.
  std::shared_ptr<spmd::CompileContext> context;
};

/// Runs the phases that are left, up to and with `last`.
void run_through(Compilation* c, Phase last, StageRecorder* stages);
/// The same, without times and dumps.
void run_through(Compilation* c, Phase last);

/// A line for each stage of all phases, "phase stage: passes", for documents and tests.
std::vector<std::string> describe_stages(const Target& target);

}  // namespace tessera::compiler
