// SPDX-License-Identifier: Apache-2.0
// Loops without exchanges: groups of devices go through them at their own pace. Lockstep would
// leave all but one worker idle where steps are too short to be shared out.
#include <algorithm>
#include <deque>
#include <vector>

#include "src/base/profiler.h"
#include "src/base/threads/task_pool.h"
#include "src/runtime/plan_executor.h"

namespace tessera::runtime {
namespace {

/// Finding and passing buffers and calling a kernel, for one class.
constexpr double kStepNanoseconds = 200;
/// Sharing a segment out: waking the workers, and waiting for the last one.
constexpr double kShareNanoseconds = 40000;

/// Setting the groups up.
constexpr double kSetUpNanoseconds = 100000;

/// Adds up the time of loops.
struct LoopTime {
  const ActiveSet& active;
  double workers = 1;  ///< among which segments are shared out that are long enough
  double nanoseconds = 0;

  void add(const While& loop) {
    const double before = nanoseconds;
    add(loop.condition);
    add(loop.body);
    nanoseconds = before + (nanoseconds - before) * loop.likely_trips();
  }
  void add(const Block& block) {
    for (const Segment& segment : block.segments) {
      const Step& step = block.steps[std::size_t(segment.begin)];
      if (segment.classes >= 0) {
        const double steps = double(segment.end - segment.begin);
        const double one = segment.nanoseconds + kStepNanoseconds * steps;
        const double all = one * double(active.of(segment.classes).size());
        // As run_segment has it; one worker is given all.
        const bool shared = workers > 1 && all >= kInlineNanoseconds;
        nanoseconds += shared ? all / workers + kShareNanoseconds : all;
      } else if (const auto* loop = std::get_if<While>(&step.what)) {
        add(*loop);
      } else if (const auto* conditional = std::get_if<Conditional>(&step.what)) {
        for (const Branch& branch : conditional->branches) add(branch.block);
      }
    }
  }
};

/// The classes of the most devices' own values.
ClassesId finest(const Block& block, const ActiveSet& active) {
  ClassesId out = -1;
  std::size_t most = 0;
  for (const Segment& segment : block.segments) {
    if (segment.classes < 0) continue;
    const std::size_t n = active.of(segment.classes).size();
    if (n <= most) continue;
    most = n;
    out = segment.classes;
  }
  return out;
}

}  // namespace

PlanExecutor::PlanExecutor(const PlanExecutor& whole, std::nullptr_t)
    : plan_(whole.plan_),
      local_(whole.local_),
      counters_(nullptr),
      process_(whole.process_),
      all_(whole.all_),
      workers_(1),
      profiled_(whole.profiled_) {
  make_buffers();
}

bool PlanExecutor::run_apart(const Step& step, const While& loop, const ActiveSet& active) {
  if (loop.slots.empty() || workers_ == 1 || must_agree(step)) return false;
  const ClassesId id = finest(loop.body, active);
  if (id < 0) return false;
  const ActiveSet::Classes who = active.of(id);
  const auto count = std::min(std::size_t(workers_), who.size());
  if (count < 2) return false;
  // Devices that compute the same stay together.
  const DeviceClasses& relation = classes(id);
  std::vector<std::size_t> group_of_class(std::size_t(relation.count()));
  for (std::size_t i = 0; i < who.size(); ++i) {
    group_of_class[std::size_t(who.classes[i])] = i * count / who.size();
  }
  std::vector<ActiveSet> parts;
  for (std::size_t g = 0; g < count; ++g) {
    std::vector<std::uint8_t> on(std::size_t(plan_.num_devices));
    for (std::int32_t d = 0; d < plan_.num_devices; ++d) {
      const std::int32_t c = relation.class_of[std::size_t(d)];
      on[std::size_t(d)] = std::uint8_t(active.contains(d) && group_of_class[std::size_t(c)] == g);
    }
    parts.emplace_back(active, std::move(on));
  }
  // What all devices have in common is computed by each group.
  LoopTime together{active, double(workers_)};
  together.add(loop);
  double longest = 0;
  for (const ActiveSet& part : parts) {
    LoopTime apart{part};
    apart.add(loop);
    longest = std::max(longest, apart.nanoseconds);
  }
  constexpr double kGain = 0.9;
  if (longest + kSetUpNanoseconds > kGain * together.nanoseconds) return false;

  std::deque<PlanExecutor> groups;
  for (std::size_t g = 0; g < count; ++g) groups.emplace_back(*this, nullptr);
  for (const SlotId s : loop.slots) {
    for (const std::int32_t c : active.of(slot(s).classes).classes) {
      BufferRef& mine = buffer(s, c);
      if (!mine) continue;
      // A buffer that one group has alone can be written in place.
      PlanExecutor* only = nullptr;
      for (std::size_t g = 0; g < count; ++g) {
        const ActiveSet::Classes its = parts[g].of(slot(s).classes);
        if (std::find(its.classes.begin(), its.classes.end(), c) == its.classes.end()) continue;
        if (only != nullptr) groups[g].buffer(s, c) = only->buffer(s, c);
        if (only == nullptr) groups[g].buffer(s, c) = std::move(mine), only = &groups[g];
      }
    }
  }
  parallel_for(std::int64_t(count), [&](std::int64_t g) {
    const ProcessOfThread::Use use(process_);
    groups[std::size_t(g)].run_while(step, loop, parts[std::size_t(g)]);
  });
  for (const SlotId s : loop.slots) {
    for (std::size_t g = 0; g < count; ++g) {
      for (const std::int32_t c : parts[g].of(slot(s).classes).classes) {
        BufferRef& made = groups[g].buffer(s, c);
        if (made && !buffer(s, c)) buffer(s, c) = std::move(made);
      }
    }
  }
  return true;
}

}  // namespace tessera::runtime
