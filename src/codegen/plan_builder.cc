// SPDX-License-Identifier: Apache-2.0
// Plans a program in several ways, and makes the kernels of the one that is settled.
#include "src/codegen/plan_builder.h"

#include <algorithm>
#include <set>

#include "src/codegen/emitter.h"
#include "src/codegen/liveness.h"
#include "src/codegen/multi_axis_gathers.h"

namespace tessera::codegen {
namespace {

/// One way to run a program.
struct Variant {
  std::unique_ptr<ir::Module> fused;
  BuiltPlan built;
};

/// `options`: which way to build it; afterwards, which of them made a difference.
Variant build(const ir::Module& module, const passes::UniformityFacts& facts,
              const passes::ClassesTable& table, KernelTable* kernels, FusionOptions* options) {
  Variant out;
  FusedModule fused = fuse_module(module, facts, *options);
  *options = fused.mattered;
  PlanState state;
  state.module = fused.module.get();
  state.built = &out.built;
  state.kernels = kernels;
  runtime::Plan& plan = out.built.plan;
  plan.num_devices = table.num_devices();
  plan.classes = table.list();
  const ir::Computation& entry = *fused.module->entry();
  std::vector<std::vector<SlotId>> parameters;
  for (const ir::Instruction* p : entry.parameters()) {
    std::vector<SlotId> slots;
    const std::vector<Shape> leaves = flatten(p->shape);
    for (std::size_t k = 0; k < leaves.size(); ++k) {
      const auto& of_leaf = fused.facts.leaves[std::size_t(p->index)][k];
      slots.push_back(state.add_slot(leaves[k].byte_count(), of_leaf.classes));
      plan.parameters.push_back(slots.back());
    }
    parameters.push_back(std::move(slots));
  }
  Emitter emitter(&state, entry, fused.facts, &plan.entry);
  plan.results = emitter.run(parameters);
  merge_all_gathers(&plan);
  out.fused = std::move(fused.module);
  return out;
}

std::int64_t peak_of(runtime::Plan plan) {
  plan_memory(&plan);
  runtime::finalize(&plan);
  return estimate_memory(plan, {}).peak;
}

/// Larger modules are not built once more for what seldom helps.
constexpr std::size_t kMaxTried = 1500;
/// What is computed again must not take so much more time.
constexpr double kMaxSlower = 1.5, kHardlySlower = 1.02, kAnyTime = 1e9;
/// Of the memory, what is less at all.
constexpr double kAnyLess = 0.99;

/// Estimate, in nanoseconds; loops as often as if they ran so many times.
double time_of(const runtime::Block& block) {
  constexpr double kTrips = 16;
  double sum = 0;
  for (const runtime::Step& s : block.steps) {
    if (const auto* task = std::get_if<runtime::KernelTask>(&s.what)) {
      sum += task->nanoseconds;
    } else if (const auto* loop = std::get_if<runtime::While>(&s.what)) {
      sum += kTrips * (time_of(loop->condition) + time_of(loop->body));
    } else if (const auto* conditional = std::get_if<runtime::Conditional>(&s.what)) {
      double longest = 0;
      for (const runtime::Branch& b : conditional->branches) {
        longest = std::max(longest, time_of(b.block));
      }
      sum += longest;
    }
  }
  return sum;
}

Variant build_best(const ir::Module& module, std::int64_t devices, KernelTable* kernels) {
  passes::ClassesTable table(devices);
  const passes::UniformityFacts facts = passes::analyze_uniformity(module, &table);
  FusionOptions mattered;
  Variant best = build(module, facts, table, kernels, &mattered);
  if (!mattered.any()) return best;
  // Reading through views is fast, but may keep an array for longer; making values twice takes
  // time: it has to be worth it.
  std::int64_t peak = peak_of(best.built.plan);
  std::int64_t least = 0;
  for (const SlotId s :
       std::set<SlotId>(best.built.plan.results.begin(), best.built.plan.results.end())) {
    const auto& all = best.built.plan.parameters;
    if (std::find(all.begin(), all.end(), s) == all.end()) {
      least += best.built.plan.slots[std::size_t(s)].bytes;
    }
  }
  for (const SlotId s : best.built.plan.parameters)
    least += best.built.plan.slots[std::size_t(s)].bytes;
  const auto attempt = [&](FusionOptions options, double worth, double most_slower) {
    if (double(least) >= kAnyLess * double(peak)) return false;
    Variant other = build(module, facts, table, kernels, &options);
    const std::int64_t its_peak = peak_of(other.built.plan);
    const double less = double(its_peak) / double(peak);
    const double slower = time_of(other.built.plan.entry) / time_of(best.built.plan.entry);
    const bool for_little = less < kAnyLess && slower <= kHardlySlower;
    if (!for_little && (less >= worth || slower > most_slower)) return false;
    peak = its_peak;
    best = std::move(other);
    return true;
  };
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
  if (mattered.recompute) attempt(options, 0.95, kAnyTime);
  if (module.instruction_count() <= kMaxTried) {
    FusionOptions widely = options;
    widely.recompute_widely = true;
    if (mattered.recompute_widely) attempt(widely, 0.95, kMaxSlower);
    options.recompute_expensive = true;
    if (mattered.recompute_expensive) attempt(options, 0.9, kMaxSlower);
    options.recompute_long = true;
    if (mattered.recompute_long) attempt(options, 0.9, kMaxSlower);
    options.recompute_widely = true;
    const bool expensive = mattered.recompute_expensive || mattered.recompute_long;
    if (mattered.recompute_widely && expensive) attempt(options, 0.9, kMaxSlower);
  }
  if (mattered.views) attempt(FusionOptions::none(), kAnyLess, kAnyTime);
  return best;
}

}  // namespace

PlannedProgram plan_program(const ir::Module& module) {
  PlannedProgram out;
  Variant best = build_best(module, module.num_partitions, &out.kernels);
  out.fused = std::move(best.fused);
  out.built = std::move(best.built);
  return out;
}

BuiltPlan materialize(PlannedProgram planned) {
  planned.kernels.materialize(&planned.built.plan);
  return std::move(planned.built);
}

BuiltPlan build_plan(const ir::Module& module) { return materialize(plan_program(module)); }

PlannedProgram plan_program_of_one_device(const ir::Module& module) {
  PlannedProgram out;
  Variant best = build_best(module, 1, &out.kernels);
  out.fused = std::move(best.fused);
  out.built = std::move(best.built);
  return out;
}

}  // namespace tessera::codegen
