// SPDX-License-Identifier: Apache-2.0
// The memory that some steps of a plan hold, whichever order they stand in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "src/codegen/steps/plan_readers.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

/// A set of slots, most of which come in order.
class SlotSet {
 public:
  bool count(runtime::SlotId s) const {
    return !slots_.empty() && s <= slots_.back() &&
           std::binary_search(slots_.begin(), slots_.end(), s);
  }
  void insert(std::span<const runtime::SlotId> slots) {
    for (const runtime::SlotId s : slots) {
      const auto at = slots_.empty() || slots_.back() < s
                          ? slots_.end()
                          : std::lower_bound(slots_.begin(), slots_.end(), s);
      if (at == slots_.end() || *at != s) slots_.insert(at, s);
    }
  }
  void clear() { slots_.clear(); }

 private:
  std::vector<runtime::SlotId> slots_;
};

/// What a kernel or an exchange reads and makes.
struct StepOperands {
  std::span<const runtime::SlotId> inputs, outputs;  ///< of the step, or of `own`
  std::vector<runtime::SlotId> own;

  /// Of a set.
  template <class Slots>
  bool reads_any(const Slots& slots) const {
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](runtime::SlotId s) { return slots.count(s) != 0; });
  }

  StepOperands() = default;
  StepOperands(StepOperands&&) = default;
  StepOperands& operator=(StepOperands&&) = default;
};
/// Nothing of other steps.
std::optional<StepOperands> operands_of(const runtime::Step& step);

/// Slots that nothing but these steps reads, all kernels or exchanges.
std::set<runtime::SlotId> dying(const runtime::Plan& plan, const PlanReaders& readers,
                                const std::vector<const runtime::Step*>& steps);
/// The most bytes that these steps hold at once on a device, next to what is there before and after
/// them. The plan has no releases yet, and the steps may be no part of it: hence another count than
/// `estimate_memory`'s, which walks a whole plan.
std::int64_t device_peak(const runtime::Plan& plan, const std::vector<const runtime::Step*>& steps,
                         const std::set<runtime::SlotId>& dying);

}  // namespace tessera::codegen
