// SPDX-License-Identifier: Apache-2.0
// What the executor tells the profiler of.
#include <utility>
#include <variant>

#include "src/base/profiler.h"
#include "src/runtime/plan_executor.h"

namespace tessera::runtime {

void PlanExecutor::record_kernel(const Step& step, std::int32_t device, std::int64_t begin,
                                 std::uint64_t call, std::int64_t tile, std::int64_t tiles) const {
  const auto& task = std::get<KernelTask>(step.what);
  std::int64_t bytes = 0;
  for (const SlotId s : task.inputs) bytes += slot(s).bytes;
  for (const SlotId s : task.outputs) bytes += slot(s).bytes;
  // The tiles' shares add up to all of it.
  const auto until = [&](std::int64_t t) { return bytes / tiles * t + bytes % tiles * t / tiles; };
  profiler::Event event{
      profiler::Kind::kernel,        step.op, step.name, step.location, begin, profiler::now(),
      until(tile + 1) - until(tile), device,  call};
  if (task.label != nullptr) {
    event.kernel = task.label->name;
    event.reason = task.label->reason;
  }
  profiler::record(std::move(event));
}

void PlanExecutor::run_profiled(const Step& step, const Exchange& exchange,
                                const ActiveSet& active) {
  RunCounters mine;
  RunCounters* const counters = counters_;
  counters_ = &mine;
  const std::int64_t begin = profiler::now();
  run_exchange(step, exchange, active);
  const std::int64_t end = profiler::now();
  counters_ = counters;
  const auto k = std::size_t(exchange.kind);
  if (counters_ != nullptr) {
    counters_->bytes[k] += mine.bytes[k];
    counters_->count[k] += mine.count[k];
  }
  profiler::record({profiler::Kind::exchange, runtime::name(exchange.kind), step.name,
                    step.location, begin, end, mine.bytes[k]});
}

}  // namespace tessera::runtime
