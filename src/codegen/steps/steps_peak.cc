// SPDX-License-Identifier: Apache-2.0
// Counts what is there from step to step.
#include "src/codegen/steps/steps_peak.h"

#include <algorithm>
#include <utility>

#include "src/base/contains.h"
#include "src/runtime/plan_walk.h"

namespace tessera::codegen {

using namespace runtime;

std::optional<StepOperands> operands_of(const Step& step) {
  StepOperands out;
  if (const KernelTask* task = task_of(step)) {
    out.inputs = task->inputs;
    out.outputs = task->outputs;
    return out;
  }
  const auto* exchange = std::get_if<Exchange>(&step.what);
  if (exchange == nullptr) return std::nullopt;
  for (const Exchange::Part& p : exchange->parts) out.own.push_back(p.input);
  for (const Exchange::Part& p : exchange->parts) out.own.push_back(p.output);
  out.inputs = std::span(out.own).first(exchange->parts.size());
  out.outputs = std::span(out.own).last(exchange->parts.size());
  return out;
}

namespace {

StepReads reads_of(const std::vector<const Step*>& steps) {
  StepReads out;
  for (std::size_t n = 0; n < steps.size(); ++n) out.add(*steps[n], n);
  return out;
}

}  // namespace

std::set<SlotId> dying(const Plan& plan, const PlanReaders& readers,
                       const std::vector<const Step*>& steps) {
  std::set<SlotId> out;
  for (const auto& [s, reads] : reads_of(steps)) {
    if (reads.count == readers.of(s) && !contains(plan.parameters, s)) out.insert(s);
  }
  return out;
}

std::int64_t device_peak(const Plan& plan, const std::vector<const Step*>& steps,
                         const std::set<SlotId>& dying) {
  const auto device_bytes = [&](SlotId s) {
    const Slot& slot = plan.slots[std::size_t(s)];
    return slot.memory == MemoryKind::device ? slot.bytes : 0;
  };
  const StepReads reads = reads_of(steps);
  std::set<SlotId> made;
  for (const Step* step : steps) {
    for_each_write(*step, [&](SlotId s) { made.insert(s); });
  }
  std::int64_t now = 0;
  for (const auto& [s, read] : reads) {
    if (dying.count(s) != 0 && made.count(s) == 0) now += device_bytes(s);
  }
  std::int64_t most = now;
  for (std::size_t n = 0; n < steps.size(); ++n) {
    const StepOperands task = *operands_of(*steps[n]);
    const KernelTask* kernel = task_of(*steps[n]);
    std::int64_t freed = 0, taken = 0;
    std::set<SlotId> seen;
    for (const SlotId s : task.inputs) {
      if (dying.count(s) == 0 || reads.find(s)->last != n || !seen.insert(s).second) continue;
      freed += device_bytes(s);
      if (kernel != nullptr &&
          std::any_of(kernel->reuse.begin(), kernel->reuse.end(), [&](const auto& r) {
            return task.inputs[std::size_t(r.input)] == s && !r.copy;
          })) {
        taken += device_bytes(s);
      }
    }
    std::int64_t added = 0;
    for (const SlotId s : task.outputs) added += device_bytes(s);
    most = std::max(most, now + std::max<std::int64_t>(added - taken, 0));
    now += added - freed;
  }
  return most;
}

}  // namespace tessera::codegen
