// SPDX-License-Identifier: Apache-2.0
// Finds updates that stand in front of other readers of what they could overwrite.
#include "src/codegen/steps/in_place_updates.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "src/base/contains.h"
#include "src/codegen/steps/steps_peak.h"
#include "src/runtime/plan_walk.h"

namespace tessera::codegen {
namespace {

using namespace runtime;

/// Steps that are looked at behind an update.
constexpr std::size_t kStepsBehind = 64;

/// The last step that step `n` is to stand behind; n if it stays.
std::size_t place_of(const Block& block, std::size_t n) {
  const KernelTask* task = task_of(block.steps[n]);
  if (task == nullptr || task->has_effects) return n;
  std::size_t last = n;
  const std::size_t end = std::min(block.steps.size(), n + 1 + kStepsBehind);
  for (std::size_t k = n + 1; k < end; ++k) {
    const std::optional<StepOperands> operands = operands_of(block.steps[k]);
    if (!operands) break;
    const auto reads = [&](SlotId s) { return contains(operands->inputs, s); };
    if (std::any_of(task->outputs.begin(), task->outputs.end(), reads)) break;
    for (const KernelTask::Reuse& r : task->reuse) {
      if (reads(task->inputs[std::size_t(r.input)])) last = k;
    }
  }
  return last;
}

void order(Block* block) {
  const auto at = [&](std::size_t k) { return block->steps.begin() + std::ptrdiff_t(k); };
  for (std::size_t n = block->steps.size(); n-- > 0;) {
    const std::size_t last = place_of(*block, n);
    if (last > n) std::rotate(at(n), at(n + 1), at(last + 1));
  }
}

}  // namespace

void schedule_in_place_updates(Plan* plan) {
  for_each_inner_block(plan->entry, [&](Block& block, bool in_loop) {
    if (in_loop) order(&block);
  });
}

}  // namespace tessera::codegen
