// SPDX-License-Identifier: Apache-2.0
// Who reads the slots of a plan.
#pragma once

#include <cstddef>
#include <variant>
#include <vector>

#include "src/runtime/plan_walk.h"

namespace tessera::codegen {

/// How often each slot is read.
class PlanReaders {
 public:
  explicit PlanReaders(const runtime::Plan& plan) : count_(plan.slots.size()) {
    for (const runtime::SlotId s : plan.results) read(s);
    runtime::for_each_step(plan.entry, [&](const runtime::Step& step) { read(step); });
  }
  /// By one step of the plan, and those in it.
  PlanReaders(const runtime::Plan& plan, const runtime::Step& step) : count_(plan.slots.size()) {
    runtime::for_each_step(step, [&](const runtime::Step& inner) { read(inner); });
  }
  /// For a new slot of the plan.
  void add_slot(int readers) { count_.push_back(readers); }
  int of(runtime::SlotId s) const { return count_[std::size_t(s)]; }

 private:
  void read(runtime::SlotId s) { ++count_[std::size_t(s)]; }
  void read(const runtime::Step& step) {
    const auto one = [&](runtime::SlotId s) { read(s); };
    runtime::for_each_read(step, one);
    // A carried slot is nobody's temporary.
    const bool has_blocks = is_loop(step) || std::get_if<runtime::Conditional>(&step.what);
    if (has_blocks) runtime::for_each_write(step, one);
  }

  std::vector<int> count_;
};

}  // namespace tessera::codegen
