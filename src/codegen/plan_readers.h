// SPDX-License-Identifier: Apache-2.0
// Who reads the slots of a plan.
#pragma once

#include <cstddef>
#include <variant>
#include <vector>

#include "src/runtime/plan.h"

namespace tessera::codegen {

/// How often each slot is read.
class PlanReaders {
 public:
  explicit PlanReaders(const runtime::Plan& plan) : count_(plan.slots.size()) {
    for (const runtime::SlotId s : plan.results) read(s);
    block(plan.entry);
  }
  /// By one loop of the plan.
  PlanReaders(const runtime::Plan& plan, const runtime::While& loop) : count_(plan.slots.size()) {
    visit(loop);
  }
  /// For a new slot of the plan.
  void add_slot(int readers) { count_.push_back(readers); }
  int of(runtime::SlotId s) const { return count_[std::size_t(s)]; }

 private:
  void read(runtime::SlotId s) { ++count_[std::size_t(s)]; }
  void read(const std::vector<runtime::Move>& moves) {
    for (const runtime::Move& m : moves) {
      read(m.from);
      read(m.to);  // a carried slot is nobody's temporary
    }
  }
  void block(const runtime::Block& b) {
    for (const runtime::Step& step : b.steps) {
      std::visit([&](const auto& what) { visit(what); }, step.what);
    }
  }
  void visit(const runtime::KernelTask& task) {
    for (const runtime::SlotId s : task.inputs) read(s);
  }
  void visit(const runtime::Exchange& exchange) {
    for (const auto& p : exchange.parts) read(p.input);
  }
  void visit(const runtime::While& loop) {
    read(loop.init);
    block(loop.condition);
    read(loop.predicate);
    block(loop.body);
    read(loop.next);
  }
  void visit(const runtime::Conditional& conditional) {
    read(conditional.selector);
    for (const runtime::Branch& b : conditional.branches) {
      read(b.parameters);
      block(b.block);
      read(b.results);
    }
  }

  std::vector<int> count_;
};

}  // namespace tessera::codegen
