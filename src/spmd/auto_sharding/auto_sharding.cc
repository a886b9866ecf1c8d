// SPDX-License-Identifier: Apache-2.0
// Propagates, solves, and keeps the cheaper of the two programs.
#include "src/spmd/auto_sharding/auto_sharding.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/log.h"
#include "src/cost/count.h"
#include "src/cost/peak_memory.h"
#include "src/ir/auto_sharding.h"
#include "src/ir/constraint.h"
#include "src/spmd/auto_sharding/argument_views.h"
#include "src/spmd/auto_sharding/halo_prices.h"
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

/// What such an instruction holds besides its operands isn't less where these are.
bool runs_programs(const ir::Module& module) {
  const auto& all = module.entry()->instructions();
  return std::any_of(all.begin(), all.end(),
                     [](const auto& i) { return ir::runs_program(i->opcode); });
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

/// The solution at one price of memory, by the model.
struct Solution {
  std::vector<Propagation::Pin> pins;
  std::vector<ShardingDecision> decisions;
  double seconds = 0;        ///< without what more is paid for marked bytes
  std::vector<double> held;  ///< bytes by node of the model
  double peak = 0;           ///< bytes, without what is resharded
};

/// One that fits, as one device runs it.
struct SolvedProgram {
  Solution solution;
  Partitioned program;
};

/// Solves one module, which must outlive this, at several prices of memory.
class Solver {
 public:
  Solver(ir::Module* module, const AutoShardingOptions& options, bool halos)
      : module_(module), options_(options), propagation_(module) {
    propagation_.run();
    choice_ = std::make_unique<auto_sharding::ShardingModel>(*module, propagation_,
                                                             options.partition.machine, halos);
  }

  bool has_halos() const { return choice_->has_halos(); }

  /// The solution where marked bytes cost so much more, in passes over memory.
  Solution solve(double more) {
    auto_sharding::ShardingModel& choice = *choice_;
    choice.restart(cost::kPassesOfHeld, more);
    Solution out;
    if (choice.groups() == 0) return out;
    auto_sharding::Assignment found;
    const std::vector<std::vector<std::size_t>> blocks = auto_sharding::blocks(choice.groups());
    in_one_block_ = blocks.size() == 1;
    for (const std::vector<std::size_t>& block : blocks) {
      const auto_sharding::PairwiseModel& model = choice.build(block);
      found = minimize(model, std::vector<int>(model.nodes.size(), 0));
      choice.take(found);
    }
    out.held = choice.held_bytes(found);
    out.seconds = found.cost - options_.partition.machine.pass(more) * marked_bytes(out.held);
    out.pins = choice.pins();
    out.peak = cost::peak_bytes_where(*module_, shard_bytes());
    if (options_.decisions && !out.pins.empty()) {
      out.decisions = sharding_decisions(propagation_, &choice);
    }
    log(LogLevel::debug, fmt::format("solved at {:.3g} passes more a byte: {:.4g} us, no less than "
                                     "{:.4g} us",
                                     more, found.cost * 1e6, found.bound * 1e6));
    return out;
  }

  double marked_bytes(const std::vector<double>& held) const { return choice_->marked_bytes(held); }

  /// What no solution has less than at its peak, by the model; 0: not known.
  double least_peak() const {
    if (!in_one_block_ || runs_programs(*module_)) return 0;
    return cost::peak_bytes_where(*module_, shard_bytes(/*least=*/true));
  }

  /// Marks what is live wherever the last solution has more than that, by the model.
  void mark(double bytes) {
    const propagation::Graph& graph = propagation_.graph();
    std::vector<char> values(graph.values.size(), 0), ops;
    std::unordered_set<const ir::Instruction*> live;
    for (const ir::Instruction* i : cost::live_above(*module_, bytes, shard_bytes())) {
      if (!graph.has(*i)) continue;
      live.insert(i);
      for (std::size_t k = 0; k < graph.leaf_count(i); ++k) {
        values[std::size_t(graph.value_of(i, k))] = 1;
      }
    }
    for (const propagation::Op& op : graph.ops) ops.push_back(live.count(op.instruction) > 0);
    choice_->mark(values, ops);
  }

  /// Nothing if it shards nothing, or if what the program states rules it out.
  std::optional<Partitioned> partition(const Solution& solution) {
    if (solution.pins.empty()) return std::nullopt;
    try {
      propagation_.run(solution.pins);
      Partitioned out = partitioned(*module_, options_.partition);
      log(LogLevel::debug, fmt::format("auto-sharding: {:.4g} us, peak {:.0f}, by the model {:.0f}",
                                       out.cost.total * 1e6, out.cost.peak_bytes, solution.peak));
      return out;
    } catch (const InternalError&) {
      throw;
    } catch (const Error& e) {
      log(LogLevel::debug, fmt::format("the solved shardings can't be had: {}", e.what()));
      return std::nullopt;
    }
  }

  std::vector<ShardingDecision> decisions_as_propagated() {
    choice_->restart(0);
    return sharding_decisions(propagation_, choice_.get());
  }

 private:
  /// What a device has of an instruction's result in the last solution, or in that which leaves it
  /// least.
  std::function<double(const ir::Instruction&)> shard_bytes(bool least = false) const {
    const auto bytes_in = [](const Shape& leaf, const TensorSharding& s) {
      const bool is_split = leaf.is_array() && s.mesh && s.kind == TensorSharding::Kind::axes;
      return double((is_split ? local_shape(leaf, s) : leaf).byte_count());
    };
    return [this, bytes_in, least](const ir::Instruction& i) {
      if (!propagation_.graph().has(i)) return double(i.shape.byte_count());
      double bytes = 0;
      const std::vector<Shape> leaves = flatten(i.shape);
      for (std::size_t k = 0; k < leaves.size(); ++k) {
        const int value = propagation_.graph().value_of(&i, k);
        double of_leaf = bytes_in(leaves[k], choice_->sharding_of(value));
        if (least) {
          for (const TensorSharding& s : choice_->choices_of(value)) {
            of_leaf = std::min(of_leaf, bytes_in(leaves[k], s));
          }
        }
        bytes += of_leaf;
      }
      return bytes;
    };
  }

  ir::Module* module_;
  const AutoShardingOptions& options_;
  Propagation propagation_;
  std::unique_ptr<auto_sharding::ShardingModel> choice_;
  bool in_one_block_ = false;  ///< all axes are chosen at once: the choices of arrays are all
};

/// Costs that differ by this much of them are the same.
constexpr double kSame = 1e-6;

/// The cheapest solution that has no more than `limit`, by the model, where `large` has more. Bytes
/// cost more and more until one fits. What a solution costs at a price is a line over that price,
/// and the lines of all that are the best at some price bound a convex region. That of one that
/// doesn't fit and that of one that does meet at some price: there another one is better than both,
/// or there is none between them.
std::optional<Solution> cheapest_within(Solver* solver, const cost::Machine& machine, double limit,
                                        Solution large) {
  constexpr int kRounds = 5, kTries = 2;
  constexpr double kAnyPrice = 1e8;  // steps of collectives take their time on some machines
  Solution small;
  double more = cost::kPassesOfScarce;
  for (int k = 0; small.pins.empty(); ++k, more *= 4) {
    // One round in vain is usual; after it, a look at whether others can be otherwise.
    if (k == kRounds || (k == 1 && solver->least_peak() > limit)) return std::nullopt;
    Solution now = solver->solve(more);
    if (now.peak <= limit) {
      small = std::move(now);
    } else {
      if (now.pins == large.pins && !machine.is_uniform()) more = std::max(more, kAnyPrice);
      solver->mark(limit);
      large = std::move(now);
    }
  }
  Solution best = small;
  for (int k = 0; k < kTries; ++k) {
    const double bytes = solver->marked_bytes(large.held) - solver->marked_bytes(small.held);
    const double price = (small.seconds - large.seconds) / bytes;
    if (!(price > 0)) break;
    Solution now = solver->solve(price / machine.pass(1));
    const double cost = now.seconds + price * solver->marked_bytes(now.held);
    const double bound = small.seconds + price * solver->marked_bytes(small.held);
    if (cost >= bound * (1 - kSame)) break;
    if (now.peak > limit) {
      solver->mark(limit);
      large = std::move(now);
      continue;
    }
    small = std::move(now);
    if (small.seconds < best.seconds) best = small;
  }
  return best;
}

/// The cheapest solution that fits. What the model doesn't know of its memory is made up for by a
/// lower limit.
std::optional<SolvedProgram> best_that_fits(Solver* solver, const cost::Machine& machine,
                                            double budget, double most_seconds, bool any_seconds) {
  const Solution large = solver->solve(0);
  Solution best = large;
  constexpr int kLimits = 3;
  for (int k = 0; k <= kLimits; ++k) {
    std::optional<Partitioned> program = solver->partition(best);
    if (!program || (!any_seconds && program->cost.total >= most_seconds)) break;
    if (program->cost.peak_bytes <= budget)
      return SolvedProgram{std::move(best), std::move(*program)};
    const double limit = best.peak * budget / program->cost.peak_bytes;
    if (k == 0) solver->mark(limit);
    std::optional<Solution> found = cheapest_within(solver, machine, limit, large);
    if (!found) break;
    best = std::move(*found);
  }
  return std::nullopt;
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
  // Of stencils there are two models: exchanges of rows are shared by all ops that are computed by
  // windows, or each op moves what it must. Which is nearer, only the program itself tells.
  constexpr std::size_t kFewInstructions = 256;
  const bool halos = std::size_t(open->instruction_count()) <= kFewInstructions ||
                     auto_sharding::has_shifts(*open);
  std::unique_ptr<ir::Module> apart = halos ? open->clone() : nullptr;
  const double worthwhile = out.propagated.total * (1 - cost::kWorthwhile);
  Solver solver(open.get(), options, halos);
  std::optional<SolvedProgram> best =
      best_that_fits(&solver, options.partition.machine, budget, worthwhile, /*any_seconds=*/!fits);
  if (solver.has_halos()) {
    Solver other(apart.get(), options, /*halos=*/false);
    const double least = best ? best->program.cost.total : worthwhile;
    std::optional<SolvedProgram> second =
        best_that_fits(&other, options.partition.machine, budget, least,
                       /*any_seconds=*/!fits && !best);
    if (second && (!best || second->program.cost.total < least)) {
      best = std::move(second);
      open.swap(apart);
    }
  }
  if (!best) {
    if (options.decisions) out.decisions = solver.decisions_as_propagated();
    return out;
  }
  for (CommunicationRecord& r : best->program.report.records) {
    r.op = without_view(r.op);
    r.value = without_view(r.value);
  }
  drop_views(open.get());
  out.module = std::move(open);
  out.solved = true;
  out.chosen = best->program.cost;
  out.reshards = std::move(best->program.reshards);
  out.device = std::move(best->program.device);
  out.report = std::move(best->program.report);
  out.decisions = std::move(best->solution.decisions);
  return out;
}

}  // namespace tessera::spmd
