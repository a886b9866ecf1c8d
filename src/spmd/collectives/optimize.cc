// SPDX-License-Identifier: Apache-2.0
// Runs the passes on collectives in order and takes back steps that raise peak memory.
#include "src/spmd/collectives/optimize.h"

#include <algorithm>
#include <utility>

#include "src/cost/peak_memory.h"
#include "src/spmd/collectives/collective_ops.h"
#include "src/spmd/dedupe_collectives.h"

namespace tessera::spmd {
namespace {

/// What a device may hold more for bytes that it needn't receive in each trip of a loop.
constexpr double kWorthOfLoops = 1.05;
/// Another order must save this much.
constexpr double kWorthOrdering = 0.98;
/// Of what a device holds, what one combined collective may give where that can't be tried.
constexpr double kSmallPart = 0.01;
/// Bytes that don't matter: some scalars.
constexpr double kNegligibleBytes = 16;
/// How often a step is tried with less.
constexpr int kAttempts = 4;

bool any_communicates(const ir::Module& module) {
  return std::any_of(module.computations().begin(), module.computations().end(),
                     [](const auto& c) { return communicates(*c); });
}

bool communicates_in_loops(const ir::Module& module) {
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      if (i->is(ir::Opcode::while_) && communicates(*i->called()[1])) return true;
    }
  }
  return false;
}

class Steps {
 public:
  Steps(std::unique_ptr<ir::Module>* module, const CollectiveOptions& options)
      : module_(*module), options_(options) {}

  /// Keeps what a step does, unless a device would hold more than `factor` of what it did.
  template <class F>
  bool attempt(double factor, F&& step) {
    std::unique_ptr<ir::Module> before;
    double peak = peak_;
    if (!options_.keep_no_copies) {
      before = module_->clone();
    } else if (peak < 0) {
      peak = options_.peak(*module_);
    }
    if (step(module_.get()) == 0) return true;
    clean();
    if (peak < 0) peak = options_.peak(*before);
    peak_ = options_.peak(*module_);
    if (peak_ > peak * factor + kNegligibleBytes) {
      if (!before) throw StepTakenBack();
      peak_ = peak;
      module_ = std::move(before);
      return false;
    }
    return true;
  }

  /// Other orders that hold less at a time.
  void order() {
    if (large() || !options_.order) return;
    for (const bool shrink_early : {false, true}) {
      attempt(kWorthOrdering, [&](ir::Module* m) { return schedule_for_memory(m, shrink_early); });
    }
  }

  bool large() const { return module_->instruction_count() > options_.max_tried; }

  /// For steps that, but for how the plan turns out, don't make a device hold more. As `attempt`.
  template <class F>
  bool take(F&& step) {
    if (!large()) return attempt(1, step);
    if (step(module_.get()) > 0) {
      clean();
      peak_ = -1;
    }
    return true;
  }

 private:
  void clean() {
    for (const auto& c : module_->computations()) c->remove_dead();
    module_->remove_dead_computations();
  }

  std::unique_ptr<ir::Module>& module_;
  const CollectiveOptions& options_;
  double peak_ = -1;  ///< not known yet
};

/// What came out of a loop may meet its like there.
void merge_equal(Steps& steps, ir::Module* module, const CollectiveOptions& options) {
  dedupe_collectives(module);
  if (!options.merge_equal) return;
  steps.take([&](ir::Module* m) {
    std::size_t count = options.merge_equal(m);
    for (std::size_t more = count; more > 0 && dedupe_collectives(m); count += more) {
      more = options.merge_equal(m);
    }
    return count;
  });
}

void reduce(Steps& steps, std::unique_ptr<ir::Module>* module, const CollectiveOptions& options) {
  dedupe_collectives(module->get());
  // No device needs more memory for it, though fewer need as much.
  localize_loop_exits(module->get(), options.removed);
  steps.take(reassociate_collectives);
  steps.take(create_reduce_scatters);
  if (communicates_in_loops(**module)) {
    steps.attempt(kWorthOfLoops, move_collectives_out_of_loops);
    merge_equal(steps, module->get(), options);
    steps.take(reassociate_collectives);
  }
}

}  // namespace

void reduce_collectives(std::unique_ptr<ir::Module>* module) {
  CollectiveOptions options;
  options.peak = cost::estimated_peak_bytes;
  options.max_tried = 0;
  Steps steps(module, options);
  if (any_communicates(**module)) reduce(steps, module, options);
}

void optimize_collectives(std::unique_ptr<ir::Module>* module, const CollectiveOptions& given) {
  CollectiveOptions options = given;
  if (!options.peak) options.peak = cost::estimated_peak_bytes;
  Steps steps(module, options);
  if (!any_communicates(**module)) {
    steps.order();
    return;
  }
  reduce(steps, module, options);
  steps.take([&](ir::Module* m) {
    return expand_collective_matmuls(m, options.collective_matmul_from_bytes);
  });
  CombineOptions combine = options.combine;
  if (steps.large()) {
    const auto part = std::int64_t(kSmallPart * cost::estimated_peak_bytes(**module));
    combine.max_bytes = std::min(combine.max_bytes, part);
    combine.max_copied_bytes = std::min(combine.max_copied_bytes, part);
  }
  const auto combined = [&](ir::Module* m) { return combine_collectives(m, combine); };
  if (options.combine_any && steps.large()) steps.take(combined);
  for (int k = 0; options.combine_any && !steps.large() && k < kAttempts; ++k) {
    if (steps.attempt(1, combined)) break;
    combine.max_bytes /= 16;
    combine.max_copied_bytes /= 16;
  }
  if (!options.order) return;
  steps.order();
  steps.take(schedule_collectives_early);
}

}  // namespace tessera::spmd
