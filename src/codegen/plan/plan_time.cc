// SPDX-License-Identifier: Apache-2.0
// The roofline estimate of a plan's time.
#include "src/codegen/plan/plan_time.h"
#include "src/codegen/kernels/prices.h"

#include <algorithm>
#include <set>

namespace tessera::codegen {
namespace {

using namespace runtime;

class TimeEstimate {
 public:
  explicit TimeEstimate(const Plan& plan) : plan_(plan) {}

  double of(const Block& block) const {
    double sum = 0;
    for (const Step& s : block.steps) {
      if (const auto* task = std::get_if<KernelTask>(&s.what)) {
        sum += of(*task);
      } else if (const auto* loop = std::get_if<While>(&s.what)) {
        sum += loop->likely_trips() * (of(loop->condition) + of(loop->body));
      } else if (const auto* conditional = std::get_if<Conditional>(&s.what)) {
        double longest = 0;
        for (const Branch& b : conditional->branches) longest = std::max(longest, of(b.block));
        sum += longest;
      }
    }
    return sum;
  }

 private:
  double of(const KernelTask& task) const {
    std::set<SlotId> arrays(task.inputs.begin(), task.inputs.end());
    arrays.insert(task.outputs.begin(), task.outputs.end());
    double moved = 0;
    for (const SlotId s : arrays) {
      const std::int64_t bytes = plan_.slots[std::size_t(s)].bytes;
      moved += double(bytes) * (bytes > prices::plans::kCached ? prices::byte::kFromMemory
                                                               : prices::byte::kFromCache);
    }
    const SlotId made = task.outputs.empty() ? -1 : task.outputs[0];
    const std::int64_t classes =
        made < 0 ? 1 : plan_.classes[std::size_t(plan_.slots[std::size_t(made)].classes)].count();
    return double(classes) * std::max(task.nanoseconds, moved);
  }

  const Plan& plan_;
};

}  // namespace

double estimate_time(const Plan& plan) { return TimeEstimate(plan).of(plan.entry); }

}  // namespace tessera::codegen
