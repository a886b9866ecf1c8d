// SPDX-License-Identifier: Apache-2.0
// The memory that some steps of a plan hold, whichever order they stand in.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "src/codegen/plan_readers.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

/// What a kernel or an exchange reads and makes.
struct StepOperands {
  std::span<const runtime::SlotId> inputs, outputs;  ///< of the step, or of `own`
  std::vector<runtime::SlotId> own;

  bool reads_any(const std::set<runtime::SlotId>& slots) const;

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
/// them.
std::int64_t device_peak(const runtime::Plan& plan, const std::vector<const runtime::Step*>& steps,
                         const std::set<runtime::SlotId>& dying);

}  // namespace tessera::codegen
