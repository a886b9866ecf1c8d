// SPDX-License-Identifier: Apache-2.0
// Plans a program in several ways, and makes the kernels of the one that is settled.
#include "src/codegen/plan/plan_builder.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/base/contains.h"
#include "src/codegen/emit/emitter.h"
#include "src/codegen/fusion/fused_module.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/plan/liveness.h"
#include "src/codegen/plan/memory_kinds.h"
#include "src/codegen/plan/plan_time.h"
#include "src/codegen/steps/in_place_updates.h"
#include "src/codegen/steps/made_updates.h"
#include "src/codegen/steps/multi_axis_gathers.h"
#include "src/codegen/steps/rematerialize_rows.h"
#include "src/codegen/steps/short_loops.h"
#include "src/codegen/steps/short_steps.h"
#include "src/codegen/steps/stencil_chains.h"
#include "src/codegen/steps/tile_chains.h"
#include "src/ir/analysis/memory_kinds.h"
#include "src/ir/limits.h"
#include "src/runtime/plan_walk.h"

namespace tessera::codegen {
namespace {

/// The kernels that the steps of a plan run, and how often each.
std::map<std::int32_t, int> kernels_of(const runtime::Block& block) {
  std::map<std::int32_t, int> runs;
  runtime::for_each_step(block, [&](const runtime::Step& step) {
    if (const auto* task = runtime::task_of(step)) ++runs[task->kernel];
  });
  return runs;
}

/// Joins steps that go through the same rows.
void tile(BuiltPlan* built, KernelTable* kernels, bool rematerialize) {
  runtime::Plan& plan = built->plan;
  runtime::Block steps = plan.entry;
  std::vector<runtime::Slot> slots = plan.slots;
  const std::vector<JoinedChain> chains = tile_chains(&plan, kernels);
  if (chains.empty()) return;
  std::swap(plan.entry, steps);
  std::swap(plan.slots, slots);
  const std::set<SlotId> rematerialized = rematerialize_rows(&plan, *kernels, chains);
  built->could_rematerialize_rows = !rematerialized.empty();
  if (built->could_rematerialize_rows && rematerialize) {
    tile_chains(&plan, kernels, rematerialized);
  } else {
    std::swap(plan.entry, steps);
    std::swap(plan.slots, slots);
  }
}

/// What is known of a program before ways to run it are tried.
struct Analysis {
  Analysis(const ir::Module& module, std::int64_t devices)
      : table(devices), facts(passes::analyze_uniformity(module, &table)) {}

  passes::ClassesTable table;
  const passes::UniformityFacts facts;
};

/// `rematerialize`: large arrays that chains would materialise for later steps are rematerialised
/// there.
BuiltPlan build(const ir::Module& module, const Analysis& known, const FusionPlan& fusions,
                KernelTable* kernels, bool rematerialize) {
  BuiltPlan built;
  PlanState state;
  state.module = &module;
  state.fusions = &fusions;
  state.built = &built;
  state.kernels = kernels;
  runtime::Plan& plan = built.plan;
  plan.num_devices = known.table.num_devices();
  plan.classes = known.table.list();
  const ir::Computation& entry = *module.entry();
  std::vector<std::vector<SlotId>> parameters;
  std::vector<MemoryKind> memory;
  for (const ir::Instruction* p : entry.parameters()) {
    std::vector<SlotId> slots;
    const std::vector<Shape> leaves = flatten(p->shape);
    for (std::size_t k = 0; k < leaves.size(); ++k) {
      slots.push_back(state.add_slot(leaves[k].byte_count(),
                                     known.facts.leaves[std::size_t(p->index)][k].classes));
      plan.parameters.push_back(slots.back());
      memory.push_back(ir::memory_of_parameter(*p));
    }
    parameters.push_back(std::move(slots));
  }
  Emitter emitter(&state, entry, known.facts, &plan.entry);
  plan.results = emitter.run(parameters);
  assign_memory(&plan, memory);
  merge_multi_axis_gathers(&plan);
  schedule_in_place_updates(&plan);
  built.kernels = kernels_of(plan.entry);
  join_stencil_chains(&plan, kernels);
  tile(&built, kernels, rematerialize);
  join_made_updates(&plan, kernels);
  compile_short_loops(&plan, kernels);
  join_short_steps(&plan, kernels);
  return built;
}

/// Times as long: whatever it takes.
constexpr double kAnyTime = 1e9;

/// Bytes of arguments and results in device memory, which no plan does without.
std::int64_t least_bytes(const runtime::Plan& plan) {
  std::int64_t out = 0;
  const auto add = [&](SlotId s) {
    const runtime::Slot& slot = plan.slots[std::size_t(s)];
    if (!is_host(slot.memory)) out += slot.bytes;
  };
  const auto& all = plan.parameters;
  for (const SlotId s : std::set<SlotId>(plan.results.begin(), plan.results.end())) {
    if (!contains(all, s)) add(s);
  }
  for (const SlotId s : all) add(s);
  return out;
}

/// Ways to run a program: decided and measured, each without making the module that has its
/// fusions.
class Trials {
 public:
  Trials(const ir::Module& module, std::int64_t devices)
      : module_(module),
        known_(std::make_shared<Analysis>(module, devices)),
        planner_(module, known_->facts) {}

  /// The one that others are compared with.
  BuiltPlan first() {
    decided_ = planner_.plan(FusionOptions());
    return build_way(decided_);
  }

  /// Settles on one.
  PlannedProgram run() {
    best_.built = first();
    if (decided_.mattered.any() || best_.built.could_rematerialize_rows) compare();
    best_.fused = [module = &module_, known = known_, decided = std::move(decided_)] {
      return fuse_module(*module, known->facts, decided);
    };
    return std::move(best_);
  }

 private:
  struct Measured {
    std::int64_t peak = 0;
    double nanoseconds = 0;
    std::int64_t least = 0;
  };

  static Measured measure(runtime::Plan* plan) {
    Measured out;
    out.nanoseconds = estimate_time(*plan);
    out.least = least_bytes(*plan);
    out.peak = settle_memory(plan);
    return out;
  }

  BuiltPlan build_way(const FusionPlan& decided, bool rematerialize = false) {
    return build(module_, *known_, decided, &best_.kernels, rematerialize);
  }

  bool attempt(const FusionOptions& options, double worth, double most_slower) {
    using namespace prices::plans;
    const bool least = double(measured_.least) >= kAnyLess * double(measured_.peak);
    if (least && measured_.nanoseconds < kShort) return false;
    FusionPlan other = planner_.plan(options);
    if (other.runs == decided_.runs || contains(failed_, other.runs)) return false;
    if (!settle(build_way(other), worth, most_slower)) {
      failed_.push_back(std::move(other.runs));
      return false;
    }
    decided_ = std::move(other);
    return true;
  }

  /// Takes another plan if it is better.
  bool settle(BuiltPlan its_plan, double worth, double most_slower) {
    using namespace prices::plans;
    const Measured its = measure(&its_plan.plan);
    const double less = double(its.peak) / double(measured_.peak);
    const double slower = its.nanoseconds / measured_.nanoseconds;
    const bool for_little = less < kAnyLess && slower <= kHardlySlower;
    const bool faster = less <= kHardlyMore && slower <= kFaster;
    if (!for_little && !faster && (less >= worth || slower > most_slower)) return false;
    failed_.clear();  // they were compared with another one
    best_.built = std::move(its_plan);
    measured_.peak = its.peak;
    measured_.nanoseconds = its.nanoseconds;
    return true;
  }

  /// Reading through views is fast, but may keep an array for longer; making values twice takes
  /// time: it has to be worth it.
  void compare() {
    using namespace prices::plans;
    measured_ = measure(&best_.built.plan);
    const FusionOptions mattered = decided_.mattered;
    FusionOptions options;
    // What the parts are computed from may be larger than they are.
    if (mattered.parts) options.parts = !attempt({.parts = false}, kAnyLess, kAnyTime);
    // What they are computed from may be read in no other order.
    if (mattered.operand_transposes) {
      FusionOptions apart = options;
      apart.operand_transposes = false;
      options.operand_transposes = !attempt(apart, kAnyLess, kAnyTime);
    }
    options.recompute = true;
    if (mattered.recompute) attempt(options, kCheaplyLess, kAnyTime);
    if (module_.instruction_count() <= ir::kMostTried) {
      FusionOptions widely = options;
      widely.recompute_widely = true;
      if (mattered.recompute_widely) attempt(widely, kCheaplyLess, kMaxSlower);
      options.recompute_expensive = true;
      if (mattered.recompute_expensive) attempt(options, kDearlyLess, kMaxSlower);
      options.recompute_long = true;
      if (mattered.recompute_long) attempt(options, kDearlyLess, kMaxSlower);
      options.recompute_widely = true;
      const bool expensive = mattered.recompute_expensive || mattered.recompute_long;
      if (mattered.recompute_widely && expensive) attempt(options, kDearlyLess, kMaxSlower);
    }
    if (mattered.views) attempt(FusionOptions::none(), kAnyLess, kAnyTime);
    if (best_.built.could_rematerialize_rows && module_.instruction_count() <= ir::kMostTried) {
      best_.rematerializes = settle(build_way(decided_, true), kRematerializedLess, kMaxSlower);
    }
  }

  const ir::Module& module_;
  std::shared_ptr<const Analysis> known_;
  FusionPlanner planner_;
  PlannedProgram best_;
  FusionPlan decided_;  ///< its fusions
  Measured measured_;
  std::vector<decltype(FusionPlan::runs)> failed_;
};

}  // namespace

PlannedProgram plan_program(const ir::Module& module, std::int64_t devices) {
  return Trials(module, devices).run();
}

runtime::Plan first_plan(const ir::Module& module, std::int64_t devices) {
  return Trials(module, devices).first().plan;
}

PlannedProgram plan_program(const ir::Module& module) {
  return plan_program(module, module.num_partitions);
}

PlannedProgram plan_fused_program(const ir::Module& fused, bool rematerializes) {
  PlannedProgram out;
  const UnfusedModule given = unfuse_module(fused);
  const Analysis known(*given.module, fused.num_partitions);
  out.built = build(*given.module, known, given.plan(known.facts), &out.kernels, rematerializes);
  return out;
}

BuiltPlan materialize(PlannedProgram planned) {
  planned.kernels.materialize(&planned.built.plan);
  return std::move(planned.built);
}

BuiltPlan build_plan(const ir::Module& module) { return materialize(plan_program(module)); }

}  // namespace tessera::codegen
