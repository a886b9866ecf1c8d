// SPDX-License-Identifier: Apache-2.0
// Finds short steps that can stand together, and joins them.
#include "src/codegen/steps/short_steps.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "src/codegen/kernels/chains/step_program.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/steps/joined_steps.h"
#include "src/codegen/steps/steps_peak.h"

namespace tessera::codegen {
namespace {

using namespace runtime;

/// Steps that are looked at behind the first one.
constexpr std::size_t kMostSteps = 256;

class Joiner {
 public:
  Joiner(Plan* plan, KernelTable* kernels) : plan_(*plan), kernels_(*kernels), readers_(*plan) {}

  void run(Block* block) {
    for (std::size_t n = 0; n < block->steps.size(); ++n) n = join_from(block, n);
  }

 private:
  struct Chain {
    std::vector<std::size_t> links;
    std::set<SlotId> made, read;
    std::set<SlotId> overwritten;  ///< a link may write its result over these, but for a part
    std::int64_t scratch = 0;
  };

  const Slot& slot(SlotId s) const { return plan_.slots[std::size_t(s)]; }

  bool add(const Block& block, std::size_t n, Chain* chain) const {
    const KernelTask* task = task_of(block.steps[n]);
    if (task == nullptr || !may_be_joined(*task, plan_, kernels_) ||
        task->nanoseconds > prices::short_steps::kStep) {
      return false;
    }
    const auto classes = [&](SlotId s) { return slot(s).classes; };
    if (!chain->links.empty() && classes(task->outputs[0]) != classes(*chain->made.begin())) {
      return false;
    }
    std::int64_t bytes = 0;
    for (const SlotId s : task->outputs) bytes += slot(s).bytes;
    for (const SlotId s : task->inputs) {
      if (chain->overwritten.count(s) != 0) return false;
    }
    std::set<SlotId> overwritten;
    for (const KernelTask::Reuse& r : task->reuse) {
      if (!r.copy) continue;
      // Such results aren't made in scratch memory: they are as large as what they change.
      const SlotId s = task->inputs[std::size_t(r.input)];
      if (chain->made.count(s) != 0 || chain->read.count(s) != 0 ||
          std::count(task->inputs.begin(), task->inputs.end(), s) != 1) {
        return false;
      }
      overwritten.insert(s);
    }
    if (overwritten.empty()) {
      if (chain->scratch + bytes > prices::short_steps::kMostScratch) return false;
      chain->scratch += bytes;
    }
    chain->links.push_back(n);
    chain->made.insert(task->outputs.begin(), task->outputs.end());
    chain->read.insert(task->inputs.begin(), task->inputs.end());
    chain->overwritten.insert(overwritten.begin(), overwritten.end());
    return true;
  }

  /// Joins what can stand with step `n`; returns the step to go on from.
  std::size_t join_from(Block* block, std::size_t n) {
    Chain chain;
    if (!add(*block, n, &chain)) return n;
    // What isn't joined stands in front, or behind if it needs what is made here.
    std::set<SlotId> late;
    Region region{n, n + 1, {}, {}};
    const std::size_t end = std::min(block->steps.size(), n + kMostSteps);
    for (; region.end < end; ++region.end) {
      const std::size_t k = region.end;
      const KernelTask* task = task_of(block->steps[k]);
      if (task == nullptr || task->has_effects) break;
      const StepOperands operands = *operands_of(block->steps[k]);
      if (!operands.reads_any(late)) {
        if (add(*block, k, &chain)) continue;
        if (!operands.reads_any(chain.made)) {
          region.before.push_back(k);
          continue;
        }
      }
      late.insert(task->outputs.begin(), task->outputs.end());
      region.behind.push_back(k);
    }
    if (chain.links.size() < 2) return n;
    return region.replace(block, {joined(Links(*block, chain.links, readers_))});
  }

  Step joined(const Links& links) {
    StepProgram steps;
    OperandPlaces places(plan_);
    double nanoseconds = 0;
    for (std::size_t l = 0; l < links.size(); ++l) {
      const KernelTask& t = links.task(l);
      StepProgram::Link link{places.link(kernels_, t)};
      for (const SlotId s : t.outputs) {
        const bool inside = !changes_a_part(t) && links.is_inside(s);
        link.outputs.push_back(
            places.put(s, inside ? places.scratch(slot(s).bytes) : places.output(s)));
      }
      nanoseconds += t.nanoseconds;
      steps.steps.emplace_back().what = std::move(link);
    }
    places.add_reuse(links, [](SlotId, std::size_t) { return true; });
    steps.inputs = places.input_sizes();
    steps.outputs = places.output_sizes();
    steps.scratch = places.scratch_sizes();
    return links.joined(places.take(step_program_kernel(std::move(steps), nanoseconds), &kernels_));
  }

  Plan& plan_;
  KernelTable& kernels_;
  const PlanReaders readers_;
};

}  // namespace

void join_short_steps(Plan* plan, KernelTable* kernels) {
  Joiner joiner(plan, kernels);
  for_each_inner_block(plan->entry, [&](Block& block, bool in_loop) {
    if (in_loop) joiner.run(&block);
  });
}

}  // namespace tessera::codegen
