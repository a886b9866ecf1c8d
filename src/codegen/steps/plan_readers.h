// SPDX-License-Identifier: Apache-2.0
// Who reads the slots of a plan.
#pragma once

#include <cstddef>
#include <map>
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

/// How often some steps read each slot, by number, and which of them is the last to do so.
class StepReads {
 public:
  /// Steps come in order.
  void add(const runtime::Step& step, std::size_t n) {
    runtime::for_each_step(step, [&](const runtime::Step& inner) {
      runtime::for_each_read(inner, [&](runtime::SlotId s) {
        Reads& reads = of_[s];
        ++reads.count;
        reads.last = n;
      });
    });
  }

  struct Reads {
    int count = 0;
    std::size_t last = 0;
  };
  /// Null if none does.
  const Reads* find(runtime::SlotId s) const {
    const auto it = of_.find(s);
    return it == of_.end() ? nullptr : &it->second;
  }
  /// All that are read, by slot.
  auto begin() const { return of_.begin(); }
  auto end() const { return of_.end(); }

 private:
  std::map<runtime::SlotId, Reads> of_;
};

}  // namespace tessera::codegen
