// SPDX-License-Identifier: Apache-2.0
// Propagates, solves, and keeps the cheaper of the two programs.
#include "src/spmd/auto_sharding/auto_sharding.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/log.h"
#include "src/cost/count.h"
#include "src/cost/peak_memory.h"
#include "src/ir/auto_sharding.h"
#include "src/spmd/auto_sharding/argument_views.h"
#include "src/spmd/auto_sharding/sharding_model.h"
#include "src/spmd/collectives/optimize.h"
#include "src/spmd/partitioner/compile_context.h"
#include "src/spmd/propagation/propagate.h"

namespace tessera::spmd {
namespace {

/// In passes over memory, one after the other.
std::vector<double> prices_of_memory(const cost::Machine& machine) {
  std::vector<double> out(std::begin(cost::kPassesOfHeld), std::end(cost::kPassesOfHeld));
  // Where steps of collectives take their time, it is a long way to what memory must be worth.
  constexpr int kMore = 8;
  for (int k = 0; k < kMore && !machine.is_uniform(); ++k) out.push_back(4 * out.back());
  return out;
}

bool chooses_arguments(const ir::Module& module) {
  const std::vector<ir::Instruction*>& parameters = module.entry()->parameters();
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const ir::Instruction* p) { return ir::has_auto_sharding(*p); });
}

/// A propagated module as one device runs it.
struct Partitioned {
  ExplicitProgram reshards;
  std::unique_ptr<ir::Module> device;
  PartitionReport report;
  ProgramCost cost;
};

Partitioned partitioned(const ir::Module& module, const PartitionOptions& options) {
  Partitioned out;
  out.reshards = insert_reshards(module, options);
  optimize_reshards(&out.reshards, options);
  out.device = lower_reshards(out.reshards, options, &out.report);
  std::unique_ptr<ir::Module> reduced = out.device->clone();
  reduce_collectives(&reduced);
  const cost::CommunicationCount count = cost::count_communication(*reduced, options.machine);
  out.cost = {count.total_bytes, count.executed, count.dot_flops,
              cost::estimated_peak_bytes(*reduced),
              count.seconds + options.machine.work(count.dot_flops)};
  return out;
}

/// The solved program at one price of memory.
struct Attempt {
  std::vector<Propagation::Pin> pins;
  std::vector<ShardingDecision> decisions;
  std::optional<Partitioned> program;  ///< unless the shardings can't be had
};

/// Solves one module, which must outlive this, at several prices of memory.
class Solver {
 public:
  Solver(ir::Module* module, const AutoShardingOptions& options)
      : module_(module), options_(options), propagation_(module) {
    propagation_.run();
    choice_ = std::make_unique<auto_sharding::ShardingModel>(*module, propagation_,
                                                             options.partition.machine);
  }

  /// The solution, not partitioned yet.
  Attempt solve(double passes) {
    auto_sharding::ShardingModel& choice = *choice_;
    choice.restart(passes);
    Attempt out;
    if (choice.groups() == 0) return out;
    double cost = 0, bound = 0;
    for (const std::vector<std::size_t>& block : auto_sharding::blocks(choice.groups())) {
      const auto_sharding::PairwiseModel& model = choice.build(block);
      const auto_sharding::Assignment found =
          minimize(model, std::vector<int>(model.nodes.size(), 0));
      choice.take(found);
      cost += found.cost;
      bound += found.bound;
    }
    out.pins = choice.pins();
    if (options_.decisions && !out.pins.empty()) {
      out.decisions = sharding_decisions(propagation_, &choice);
    }
    log(LogLevel::debug,
        fmt::format("solved at {:.3g} passes a byte held: {:.4g} us, no less than {:.4g} us",
                    passes, cost * 1e6, bound * 1e6));
    return out;
  }

  void partition(double passes, Attempt* attempt) {
    try {
      propagation_.run(attempt->pins);
      attempt->program = partitioned(*module_, options_.partition);
    } catch (const InternalError&) {
      throw;
    } catch (const Error& e) {
      // What the program states elsewhere rules it out.
      log(LogLevel::debug, fmt::format("the solved shardings can't be had: {}", e.what()));
      return;
    }
    const ProgramCost& cost = attempt->program->cost;
    log(LogLevel::debug, fmt::format("auto-sharding at {:.3g} passes a byte held: {:.4g} us, "
                                     "peak {:.0f}",
                                     passes, cost.total * 1e6, cost.peak_bytes));
  }

  /// Leaves the module with the shardings of an attempt.
  void apply(const Attempt& attempt) { propagation_.run(attempt.pins); }

  std::vector<ShardingDecision> decisions_as_propagated() {
    choice_->restart(0);
    return sharding_decisions(propagation_, choice_.get());
  }

 private:
  ir::Module* module_;
  const AutoShardingOptions& options_;
  Propagation propagation_;
  std::unique_ptr<auto_sharding::ShardingModel> choice_;
};

/// The solution at the least price of memory at which it fits; none if that isn't worthwhile.
std::optional<Attempt> best_that_fits(Solver* solver, const cost::Machine& machine, double budget,
                                      double most_seconds, bool any_seconds) {
  std::optional<Attempt> best;
  std::vector<Propagation::Pin> too_large;
  double too_low = 0, enough = 0, least_seconds = 0;
  for (const double passes : prices_of_memory(machine)) {
    Attempt now = solver->solve(passes);
    if (now.pins.empty()) return std::nullopt;
    if (now.pins == too_large) {
      too_low = passes;
      continue;
    }
    solver->partition(passes, &now);
    if (!now.program) return std::nullopt;
    if (!any_seconds && now.program->cost.total >= most_seconds) return std::nullopt;
    if (now.program->cost.peak_bytes > budget) {
      too_low = passes;
      least_seconds = now.program->cost.total;
      too_large = std::move(now.pins);
      continue;
    }
    best = std::move(now);
    enough = passes;
    break;
  }
  // The steps are long: a solution between them may fit as well, and cost less.
  constexpr int kSolved = 4, kPartitioned = 2;
  constexpr double kHopeful = 1.1;
  bool stands = true;
  for (int k = 0, tried = 0; best && too_low > 0 && k < kSolved && tried < kPartitioned; ++k) {
    if (best->program->cost.total < kHopeful * least_seconds) break;
    const double passes = std::sqrt(too_low * enough);
    Attempt now = solver->solve(passes);
    stands = false;
    if (now.pins == too_large) {
      too_low = passes;
      continue;
    }
    if (now.pins != best->pins) {
      ++tried;
      solver->partition(passes, &now);
      if (!now.program) break;
      if (now.program->cost.peak_bytes > budget) {
        too_low = passes;
        too_large = std::move(now.pins);
        continue;
      }
      if (now.program->cost.total < best->program->cost.total) {
        best = std::move(now);
      }
    }
    enough = passes;
  }
  if (best && !stands) solver->apply(*best);
  return best;
}

}  // namespace

bool calls_back(const ir::Module& module) {
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      const auto* call = i->attrs.get_if<ir::CustomPartitioningAttrs>();
      if (call && call->partitioner) return true;
    }
  }
  return false;
}

AutoSharding propagate_and_solve(std::unique_ptr<ir::Module> module,
                                 const AutoShardingOptions& given) {
  CompileContext own;
  AutoShardingOptions options = given;
  if (!options.partition.context) options.partition.context = &own;
  AutoSharding out;
  if (calls_back(*module)) {
    propagate(module.get());
    out.module = std::move(module);
    return out;
  }
  std::unique_ptr<ir::Module> open = module->clone();
  propagate(module.get());
  Partitioned now = partitioned(*module, options.partition);
  out.module = std::move(module);
  out.propagated = out.chosen = now.cost;
  out.reshards = std::move(now.reshards);
  out.device = std::move(now.device);
  out.report = std::move(now.report);
  const double budget = options.memory_budget.value_or(cost::kMemoryGrowth * now.cost.peak_bytes);
  const bool fits = now.cost.peak_bytes <= budget;
  // Where the program states its arguments, nothing is moved to repeat less work.
  if (now.cost.bytes == 0 && fits && !chooses_arguments(*open)) return out;

  add_views(open.get());
  Solver solver(open.get(), options);
  std::optional<Attempt> best =
      best_that_fits(&solver, options.partition.machine, budget,
                     out.propagated.total * (1 - cost::kWorthwhile), /*any_seconds=*/!fits);
  if (!best) {
    if (options.decisions) out.decisions = solver.decisions_as_propagated();
    return out;
  }
  drop_views(open.get());
  out.module = std::move(open);
  out.solved = true;
  out.chosen = best->program->cost;
  out.reshards = std::move(best->program->reshards);
  out.device = std::move(best->program->device);
  out.report = std::move(best->program->report);
  out.decisions = std::move(best->decisions);
  return out;
}

}  // namespace tessera::spmd
