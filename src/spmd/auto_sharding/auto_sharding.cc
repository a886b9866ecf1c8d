// SPDX-License-Identifier: Apache-2.0
// Propagates, solves, and keeps the cheaper of the two programs.
#include "src/spmd/auto_sharding/auto_sharding.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
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

std::vector<Propagation::Pin> solve(auto_sharding::ShardingModel* choice) {
  if (choice->groups() == 0) return {};
  for (const std::vector<std::size_t>& block : auto_sharding::blocks(choice->groups())) {
    const auto_sharding::PairwiseModel& model = choice->build(block);
    choice->take(minimize(model, std::vector<int>(model.nodes.size(), 0)));
  }
  return choice->pins();
}

bool chooses_arguments(const ir::Module& module) {
  const std::vector<ir::Instruction*>& parameters = module.entry()->parameters();
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const ir::Instruction* p) { return ir::has_auto_sharding(*p); });
}

/// A propagated module as one device runs it.
struct Partitioned {
  std::unique_ptr<ir::Module> device;
  PartitionReport report;
  ProgramCost cost;
};

Partitioned partitioned(const ir::Module& module, const PartitionOptions& options) {
  Partitioned out;
  out.device = partition(module, options, &out.report);
  std::unique_ptr<ir::Module> reduced = out.device->clone();
  reduce_collectives(&reduced);
  const cost::CommunicationCount count = cost::count_communication(*reduced, options.machine);
  out.cost = {count.total_bytes, count.executed, count.dot_flops,
              cost::estimated_peak_bytes(*reduced),
              count.seconds + options.machine.work(count.dot_flops)};
  return out;
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
  out.device = std::move(now.device);
  out.report = std::move(now.report);
  const double budget = options.memory_budget.value_or(cost::kMemoryGrowth * now.cost.peak_bytes);
  const bool fits = now.cost.peak_bytes <= budget;
  // Where the program states its arguments, nothing is moved to repeat less work.
  if (now.cost.bytes == 0 && fits && !chooses_arguments(*open)) return out;

  const ArgumentViews views = add_views(open.get());
  Propagation propagation(open.get());
  std::vector<Propagation::Pin> last;
  for (const double passes : prices_of_memory(options.partition.machine)) {
    propagation.run();
    auto_sharding::ShardingModel choice(*open, propagation, options.partition.machine);
    choice.set_price_of_memory(passes);
    const std::vector<Propagation::Pin> pins = solve(&choice);
    if (pins.empty()) break;
    // The same as at a lower price of memory: too large.
    if (pins == last) continue;
    last = pins;
    std::vector<ShardingDecision> decisions;
    if (options.decisions) decisions = sharding_decisions(propagation, &choice);
    try {
      propagation.run(pins);
      now = partitioned(*open, options.partition);
    } catch (const InternalError&) {
      throw;
    } catch (const Error& e) {
      // What the program states elsewhere rules it out.
      log(LogLevel::debug, fmt::format("the solved shardings can't be had: {}", e.what()));
      break;
    }
    log(LogLevel::debug,
        fmt::format("auto-sharding at {} passes a byte held: {:.4g} us (propagated {:.4g} us), "
                    "peak {:.0f} (allowed {:.0f})",
                    passes, now.cost.total * 1e6, out.propagated.total * 1e6, now.cost.peak_bytes,
                    budget));
    if (fits && now.cost.total >= out.propagated.total * (1 - cost::kWorthwhile)) break;
    if (now.cost.peak_bytes > budget) continue;
    out.decisions = std::move(decisions);
    drop_views(open.get(), views);
    out.module = std::move(open);
    out.solved = true;
    out.chosen = now.cost;
    out.device = std::move(now.device);
    out.report = std::move(now.report);
    break;
  }
  if (options.decisions && !out.solved) {
    propagation.run();
    auto_sharding::ShardingModel choice(*open, propagation, options.partition.machine);
    out.decisions = sharding_decisions(propagation, &choice);
  }
  return out;
}

}  // namespace tessera::spmd
