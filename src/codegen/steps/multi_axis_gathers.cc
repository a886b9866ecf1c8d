// SPDX-License-Identifier: Apache-2.0
// Merges two all-gathers in a row, in a finished plan, into one exchange step.
#include "src/codegen/steps/multi_axis_gathers.h"

#include <algorithm>
#include <map>

#include "src/codegen/steps/plan_readers.h"
#include "src/runtime/plan_walk.h"

namespace tessera::codegen {
namespace {

using namespace runtime;

bool is_gather(const Exchange* x) {
  return x != nullptr && x->kind == Exchange::Kind::all_gather && x->parts.size() == 1 &&
         !x->groups.empty();
}

void join(const PlanReaders& readers, Block* block) {
  std::map<SlotId, std::size_t> made_by;  // results of gathers that one step reads
  std::vector<bool> gone(block->steps.size());
  for (std::size_t n = 0; n < block->steps.size(); ++n) {
    Step& step = block->steps[n];
    auto* x = std::get_if<Exchange>(&step.what);
    if (!is_gather(x)) continue;
    const auto it = made_by.find(x->parts[0].input);
    if (it != made_by.end()) {
      Exchange& first = std::get<Exchange>(block->steps[it->second].what);
      x->before = std::move(first.before);
      x->before.push_back(
          {std::move(first.groups), first.parts[0].outer, first.parts[0].chunk, {}});
      x->parts[0].input = first.parts[0].input;
      gone[it->second] = true;
    }
    if (readers.of(x->parts[0].output) == 1) made_by[x->parts[0].output] = n;
  }
  std::size_t kept = 0;
  for (std::size_t n = 0; n < block->steps.size(); ++n) {
    if (gone[n]) continue;
    if (kept != n) block->steps[kept] = std::move(block->steps[n]);
    ++kept;
  }
  block->steps.resize(kept);
}

}  // namespace

void merge_multi_axis_gathers(Plan* plan) {
  const PlanReaders readers(*plan);
  for_each_inner_block(plan->entry, [&](Block& block, bool) { join(readers, &block); });
}

}  // namespace tessera::codegen
