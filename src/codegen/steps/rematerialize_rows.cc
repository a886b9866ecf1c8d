// SPDX-License-Identifier: Apache-2.0
// Copies the steps that make what is read far behind them.
#include "src/codegen/steps/rematerialize_rows.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "src/codegen/kernels/prices.h"
#include "src/codegen/steps/joined_steps.h"
#include "src/codegen/steps/plan_readers.h"

namespace tessera::codegen {
namespace {

using namespace runtime;

/// Steps that make one array.
constexpr std::size_t kMostRematerialized = 8;

class Rematerializer {
 public:
  Rematerializer(Plan* plan, const KernelTable& kernels, const std::vector<JoinedChain>& chains)
      : plan_(*plan), kernels_(kernels), chains_(chains), readers_(*plan) {}

  const std::set<SlotId>& made() const { return made_; }

  void run(Block* block) {
    uses_.clear();
    for (std::size_t n = 0; n < block->steps.size(); ++n) {
      const KernelTask* task = task_of(block->steps[n]);
      if (task == nullptr) continue;
      for (const SlotId s : task->inputs) uses_[s].readers.push_back(n);
      for (const SlotId s : task->outputs) uses_[s].maker = n;
    }
    std::map<std::size_t, std::vector<Step>> added;  // in front of a step
    for (const JoinedChain& chain : chains_) rematerialize(block, chain, &added);
    std::vector<Step> steps;
    for (std::size_t n = 0; n < block->steps.size(); ++n) {
      if (const auto it = added.find(n); it != added.end()) {
        std::move(it->second.begin(), it->second.end(), std::back_inserter(steps));
      }
      steps.push_back(std::move(block->steps[n]));
    }
    block->steps = std::move(steps);
  }

 private:
  std::int64_t bytes(SlotId s) const { return plan_.slots[std::size_t(s)].bytes; }

  /// The steps that make `s` again, or nothing if that takes too long.
  std::optional<std::set<std::size_t>> slice(Block* block, const JoinedChain& chain,
                                             SlotId s) const {
    std::set<std::size_t> out;
    std::vector<SlotId> wanted = {s};
    double nanoseconds = 0;
    while (!wanted.empty()) {
      const std::size_t n = *uses_.at(wanted.back()).maker;
      wanted.pop_back();
      if (!out.insert(n).second) continue;
      const KernelTask& task = *task_of(block->steps[n]);
      nanoseconds += task.nanoseconds;
      if (out.size() > kMostRematerialized || !kernels_.at(task.kernel).access.makes_own() ||
          !may_be_joined(task, plan_, kernels_) ||
          nanoseconds > prices::rematerialized::kOfByte * double(bytes(s))) {
        return std::nullopt;
      }
      for (const SlotId input : task.inputs) {
        const bool large = bytes(input) >= prices::rematerialized::kHeldBytes &&
                           bytes(input) > bytes(s) / prices::rematerialized::kMuchSmaller;
        if (large && chain.made.count(input) != 0) wanted.push_back(input);
      }
    }
    return out;
  }

  /// Adds the steps that make what steps behind the chain read of it.
  void rematerialize(Block* block, const JoinedChain& chain,
                     std::map<std::size_t, std::vector<Step>>* added) {
    std::set<std::size_t> again, readers;
    std::set<SlotId> rematerialized;
    for (const SlotId s : chain.made) {
      const auto it = bytes(s) < prices::rematerialized::kHeldBytes ? uses_.end() : uses_.find(s);
      if (it == uses_.end() || !it->second.maker) continue;
      std::set<std::size_t> behind;
      for (const std::size_t n : it->second.readers) {
        const KernelTask& task = *task_of(block->steps[n]);
        if (task.outputs.empty() || chain.links.count(task.outputs[0]) == 0) behind.insert(n);
      }
      // Results, and what loops carry, are held anyway.
      if (behind.empty() || int(it->second.readers.size()) != readers_.of(s)) continue;
      const auto steps = slice(block, chain, s);
      if (!steps) continue;
      again.insert(steps->begin(), steps->end());
      readers.insert(behind.begin(), behind.end());
      rematerialized.insert(s);
    }
    if (rematerialized.empty()) return;
    std::vector<Step> copies;
    std::map<SlotId, SlotId> now;
    for (const std::size_t n : again) {
      copies.push_back(block->steps[n]);
      KernelTask& task = *task_of(copies.back());
      for (SlotId& s : task.inputs) replace(now, &s);
      for (SlotId& s : task.outputs) {
        plan_.slots.push_back(Slot(plan_.slots[std::size_t(s)]));
        s = now[s] = SlotId(plan_.slots.size() - 1);
        made_.insert(s);
      }
    }
    for (const std::size_t n : readers) {
      for (SlotId& s : task_of(block->steps[n])->inputs) {
        if (rematerialized.count(s) != 0) replace(now, &s);
      }
    }
    auto& there = (*added)[*readers.begin()];
    std::move(copies.begin(), copies.end(), std::back_inserter(there));
  }

  static void replace(const std::map<SlotId, SlotId>& now, SlotId* s) {
    if (const auto it = now.find(*s); it != now.end()) *s = it->second;
  }

  /// Of a slot, in one block.
  struct Uses {
    std::optional<std::size_t> maker;
    std::vector<std::size_t> readers;
  };

  Plan& plan_;
  const KernelTable& kernels_;
  const std::vector<JoinedChain>& chains_;
  const PlanReaders readers_;
  std::map<SlotId, Uses> uses_;
  std::set<SlotId> made_;
};

}  // namespace

std::set<SlotId> rematerialize_rows(Plan* plan, const KernelTable& kernels,
                                    const std::vector<JoinedChain>& chains) {
  Rematerializer rematerializer(plan, kernels, chains);
  for_each_inner_block(plan->entry, [&](Block& block, bool) { rematerializer.run(&block); });
  return rematerializer.made();
}

}  // namespace tessera::codegen
