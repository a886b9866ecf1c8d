// SPDX-License-Identifier: Apache-2.0
// Propagates, solves, and keeps the cheaper of the two programs.
#include "src/spmd/auto_sharding/auto_sharding.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/log.h"
#include "src/cost/count.h"
#include "src/cost/peak_memory.h"
#include "src/ir/auto_sharding.h"
#include "src/ir/constraint.h"
#include "src/spmd/auto_sharding/argument_views.h"
#include "src/spmd/auto_sharding/sharding_model.h"
#include "src/spmd/collectives/optimize.h"
#include "src/spmd/partitioner/compile_context.h"
#include "src/spmd/partitioner/emit/shard_builder.h"
#include "src/spmd/propagation/graph.h"
#include "src/spmd/propagation/propagate.h"

namespace tessera::spmd {
namespace {

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

/// What a device has of an instruction's result, in a program with explicit reshards.
double shard_bytes(const ir::Instruction& i) {
  double bytes = 0;
  const std::vector<Shape> leaves = flatten(i.shape);
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    const bool is_split = leaves[k].is_array() && k < i.sharding.size() && i.sharding[k].mesh &&
                          i.sharding[k].kind == TensorSharding::Kind::axes;
    const Shape shard = is_split ? local_shape(leaves[k], i.sharding[k]) : leaves[k];
    bytes += double(shard.byte_count());
  }
  return bytes;
}

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
  double seconds = 0;                  ///< by the model, without what more is paid for marked bytes
  std::vector<double> held;            ///< bytes by node of the model
  std::optional<Partitioned> program;  ///< unless the shardings can't be had

  /// All but the program.
  Attempt line() const { return {pins, {}, seconds, held, std::nullopt}; }
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

  /// The solution where marked bytes cost so much more, in passes over memory. Not partitioned yet.
  Attempt solve(double more) {
    auto_sharding::ShardingModel& choice = *choice_;
    choice.restart(cost::kPassesOfHeld, more);
    Attempt out;
    if (choice.groups() == 0) return out;
    auto_sharding::Assignment found;
    for (const std::vector<std::size_t>& block : auto_sharding::blocks(choice.groups())) {
      const auto_sharding::PairwiseModel& model = choice.build(block);
      found = minimize(model, std::vector<int>(model.nodes.size(), 0));
      choice.take(found);
    }
    out.held = choice.held_bytes(found);
    out.seconds = found.cost - options_.partition.machine.pass(more) * marked_bytes(out.held);
    out.pins = choice.pins();
    if (options_.decisions && !out.pins.empty()) {
      out.decisions = sharding_decisions(propagation_, &choice);
    }
    log(LogLevel::debug, fmt::format("solved at {:.3g} passes more a byte: {:.4g} us, no less than "
                                     "{:.4g} us",
                                     more, found.cost * 1e6, found.bound * 1e6));
    return out;
  }

  double marked_bytes(const std::vector<double>& held) const { return choice_->marked_bytes(held); }

  /// Marks what is live wherever an attempt has more than the budget.
  void mark(const Attempt& attempt, double budget) {
    const propagation::Graph& graph = propagation_.graph();
    const ExplicitProgram& program = attempt.program->reshards;
    std::unordered_map<const ir::Instruction*, std::vector<std::size_t>> ops;
    for (std::size_t o = 0; o < graph.ops.size(); ++o) {
      ops[graph.ops[o].instruction].push_back(o);
    }
    std::vector<char> values(graph.values.size(), 0), marked_ops(graph.ops.size(), 0);
    const double part = budget / attempt.program->cost.peak_bytes;
    for (const ir::Instruction* i : cost::live_at_peaks(*program.module, part, shard_bytes)) {
      const auto origin = program.origins.find(i);
      if (origin == program.origins.end()) continue;
      const ir::Instruction* op = origin->second;
      for (const std::size_t o : ops[op]) marked_ops[o] = 1;
      // A reshard is the op's for which it is.
      if (ir::is_reshard(*i)) continue;
      for (std::size_t k = 0; k < graph.leaf_count(op); ++k) {
        values[std::size_t(graph.value_of(op, k))] = 1;
      }
    }
    choice_->mark(values, marked_ops);
  }

  /// Nothing if it shards nothing, or if what the program states rules it out.
  void partition(Attempt* attempt) {
    if (attempt->pins.empty()) return;
    try {
      propagation_.run(attempt->pins);
      attempt->program = partitioned(*module_, options_.partition);
    } catch (const InternalError&) {
      throw;
    } catch (const Error& e) {
      log(LogLevel::debug, fmt::format("the solved shardings can't be had: {}", e.what()));
      return;
    }
    const ProgramCost& cost = attempt->program->cost;
    log(LogLevel::debug,
        fmt::format("auto-sharding: {:.4g} us, peak {:.0f}", cost.total * 1e6, cost.peak_bytes));
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

/// Costs that differ by this much of them are the same.
constexpr double kSame = 1e-6;

/// The cheapest solution that fits. Bytes cost more and more where the solutions have too many of
/// them. By the model, what a solution costs at a price is a line over that price, and the lines of
/// all that are the best at some price bound a convex region. That of one that doesn't fit and that
/// of one that does meet at some price: there another one is better than both, or there is none
/// between them.
std::optional<Attempt> best_that_fits(Solver* solver, const cost::Machine& machine, double budget,
                                      double most_seconds, bool any_seconds) {
  const auto total = [](const Attempt& a) { return a.program->cost.total; };
  const auto fits = [&](const Attempt& a) { return a.program->cost.peak_bytes <= budget; };
  const auto is_worthwhile = [&](const Attempt& a) {
    return any_seconds || total(a) < most_seconds;
  };
  Attempt large = solver->solve(0);
  solver->partition(&large);
  if (!large.program || !is_worthwhile(large)) return std::nullopt;
  if (fits(large)) return large;
  solver->mark(large, budget);
  // Higher prices, and more of what is marked, until one fits.
  constexpr int kRounds = 4;
  constexpr double kAnyPrice = 1e8;  // steps of collectives take their time on some machines
  Attempt best;
  double more = cost::kPassesOfScarce;
  std::vector<Propagation::Pin> tried = large.pins;
  for (int k = 0; k < kRounds; ++k, more *= 4) {
    best = solver->solve(more);
    if (best.pins == tried) {
      if (machine.is_uniform() || more >= kAnyPrice) break;
      more = kAnyPrice;
      continue;
    }
    tried = best.pins;
    solver->partition(&best);
    if (!best.program) return std::nullopt;
    if (fits(best)) break;
    solver->mark(best, budget);
  }
  if (!best.program || !fits(best)) return std::nullopt;
  constexpr int kTries = 2;
  bool applied = true;
  Attempt small = best.line();  // the last one that fits
  for (int k = 0; k < kTries && total(best) > total(large); ++k) {
    const double bytes = solver->marked_bytes(large.held) - solver->marked_bytes(small.held);
    const double price = (small.seconds - large.seconds) / bytes;
    if (!(price > 0)) break;
    Attempt now = solver->solve(price / machine.pass(1));
    const double cost = now.seconds + price * solver->marked_bytes(now.held);
    const double bound = small.seconds + price * solver->marked_bytes(small.held);
    if (cost >= bound * (1 - kSame)) break;
    solver->partition(&now);
    applied = false;
    if (!now.program) break;
    if (!fits(now)) {
      solver->mark(now, budget);
      large = std::move(now);
      continue;
    }
    small = now.line();
    if (total(now) >= total(best)) continue;
    best = std::move(now);
    applied = true;
  }
  if (!is_worthwhile(best)) return std::nullopt;
  if (!applied) solver->apply(best);
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
