// SPDX-License-Identifier: Apache-2.0
// Finds scatters of rows behind loops that make their updates.
#include "src/codegen/steps/made_updates.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "src/base/contains.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/steps/joined_steps.h"
#include "src/codegen/steps/plan_readers.h"
#include "src/runtime/plan_walk.h"

namespace tessera::codegen {
namespace {

using namespace runtime;
using RowUpdates = KernelBody::RowUpdates;

/// Where a scatter has what it changes, and its updates.
constexpr std::size_t kArray = 0, kUpdates = 2;

class UpdateMaker {
 public:
  UpdateMaker(Plan* plan, KernelTable* kernels)
      : plan_(*plan), kernels_(*kernels), readers_(*plan) {}

  void run(Block* block) {
    for (std::size_t n = 0; n < block->steps.size(); ++n) {
      const std::optional<std::size_t> maker = maker_for(*block, n);
      if (!maker) continue;
      join(block, *maker, n);
      --n;
    }
  }

 private:
  const Slot& slot(SlotId s) const { return plan_.slots[std::size_t(s)]; }

  /// The number of the step in front of scatter `n` that can make its updates there.
  std::optional<std::size_t> maker_for(const Block& block, std::size_t n) const {
    const KernelTask* scatter = task_of(block.steps[n]);
    if (scatter == nullptr) return std::nullopt;
    const auto* rows = kernels_.at(scatter->kernel).body.as<RowUpdates>();
    if (rows == nullptr || scatter->inputs.size() != kUpdates + 1) return std::nullopt;
    const SlotId updates = scatter->inputs[kUpdates];
    if (readers_.of(updates) != 1 || slot(updates).bytes < prices::made_updates::kLeastBytes ||
        rows->row_bytes < prices::made_updates::kLeastRow ||
        rows->row_bytes > prices::made_updates::kLongestRow ||
        slot(updates).classes != slot(scatter->outputs[0]).classes) {
      return std::nullopt;
    }
    std::set<SlotId> written;  // behind the step that is looked at
    for (std::size_t k = n; k-- > 0;) {
      const KernelTask* task = task_of(block.steps[k]);
      if (task != nullptr && contains(task->outputs, updates)) {
        const bool fits = makes_rows(*task, *scatter, *rows) &&
                          std::none_of(task->inputs.begin(), task->inputs.end(),
                                       [&](SlotId s) { return written.count(s) != 0; });
        return fits ? std::optional(k) : std::nullopt;
      }
      for_each_write(block.steps[k], [&](SlotId s) { written.insert(s); });
    }
    return std::nullopt;
  }

  bool makes_rows(const KernelTask& maker, const KernelTask& scatter,
                  const RowUpdates& rows) const {
    const KernelDescriptor& kernel = kernels_.at(maker.kernel);
    return maker.outputs.size() == 1 && kernel.body.loop() != nullptr &&
           kernel.access.makes_own() &&
           may_be_joined(maker, plan_, kernels_, slot(scatter.outputs[0]).memory) &&
           !changes_a_part(maker) && maker.units > 0 && maker.units % rows.rows == 0 &&
           maker.nanoseconds <= prices::made_updates::kMostTime * scatter.nanoseconds &&
           // What it reads isn't to be changed while it is read.
           !contains(maker.inputs, scatter.inputs[kArray]) && holds_no_more(maker);
  }

  /// What is read later than before takes no more memory than the updates did.
  bool holds_no_more(const KernelTask& maker) const {
    std::int64_t bytes = 0;
    for (const SlotId s : std::set<SlotId>(maker.inputs.begin(), maker.inputs.end())) {
      if (!contains(plan_.parameters, s)) bytes += slot(s).bytes;
    }
    return bytes <= slot(maker.outputs[0]).bytes;
  }

  void join(Block* block, std::size_t maker_at, std::size_t scatter_at) {
    const KernelTask maker = *task_of(block->steps[maker_at]);
    KernelTask joined = *task_of(block->steps[scatter_at]);
    KernelDescriptor kernel = kernels_.at(joined.kernel);
    const KernelDescriptor made = kernels_.at(maker.kernel);
    const RowUpdates rows = *kernel.body.as<RowUpdates>();
    const std::int64_t units_of_row = maker.units / rows.rows;
    kernel.key = kernel_key("made-updates", kernel.key, made.key, units_of_row);
    kernel.make = [rows, made, units_of_row] { return rows.make(made.make(), units_of_row); };
    kernel.units = joined.units;
    kernel.nanoseconds = joined.nanoseconds + maker.nanoseconds;
    kernel.access = {};
    kernel.body = {};
    joined.inputs.pop_back();
    joined.inputs.insert(joined.inputs.end(), maker.inputs.begin(), maker.inputs.end());
    kernels_.set(&joined, kernel);
    block->steps[scatter_at].what = std::move(joined);
    block->steps.erase(block->steps.begin() + std::ptrdiff_t(maker_at));
  }

  Plan& plan_;
  KernelTable& kernels_;
  PlanReaders readers_;
};

}  // namespace

void join_made_updates(Plan* plan, KernelTable* kernels) {
  UpdateMaker maker(plan, kernels);
  for_each_inner_block(plan->entry, [&](Block& block, bool) { maker.run(&block); });
}

}  // namespace tessera::codegen
