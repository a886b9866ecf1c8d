// SPDX-License-Identifier: Apache-2.0
// In which kind of memory each slot of a plan is: kinds flow along steps and moves to a fixed
// point.
#include "src/codegen/plan/memory_kinds.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "src/runtime/plan_walk.h"

namespace tessera::codegen {
namespace {

using namespace runtime;

/// Numbers are read from any memory, and say nothing of where an array is made.
constexpr std::int64_t kNumberBytes = 16;

bool transfers(const Block& block) {
  bool any = false;
  for_each_step(block, [&](const Step& step) {
    const KernelTask* task = task_of(step);
    any = any || (task != nullptr && task->transfers_to);
  });
  return any;
}

class Assignment {
 public:
  explicit Assignment(Plan* plan)
      : plan_(*plan),
        kinds_(plan->slots.size()),
        readers_(plan->slots.size()),
        constant_(plan->slots.size()) {
    // They are there before the program runs, and made for nobody in particular.
    for (const Plan::Constant& c : plan->constants) constant_[std::size_t(c.slot)] = true;
  }

  void run(const std::vector<MemoryKind>& parameters) {
    for (std::size_t i = 0; i < plan_.parameters.size(); ++i) {
      kinds_[std::size_t(plan_.parameters[i])] = parameters[i];
    }
    const auto read = [&](SlotId s) { ++readers_[std::size_t(s)]; };
    for (const SlotId s : plan_.results) read(s);
    for_each_step(plan_.entry, [&](const Step& step) { for_each_read(step, read); });
    // A slot gets a kind once, so this ends.
    settle();
    sink();
    settle();
    for (std::size_t s = 0; s < kinds_.size(); ++s) {
      plan_.slots[s].memory = kinds_[s].value_or(MemoryKind::device);
    }
  }

 private:
  std::optional<MemoryKind>& kind(SlotId s) { return kinds_[std::size_t(s)]; }
  std::int64_t bytes(SlotId s) const { return plan_.slots[std::size_t(s)].bytes; }
  void set(SlotId s, std::optional<MemoryKind> to) {
    if (!to || kind(s) || constant_[std::size_t(s)]) return;
    kind(s) = to;
    changed_ = true;
  }
  void same(SlotId a, SlotId b) {
    set(a, kind(b));
    set(b, kind(a));
  }
  void same(const std::vector<Move>& moves) {
    for (const Move& m : moves) same(m.from, m.to);
  }

  void settle() {
    do {
      changed_ = false;
      block(plan_.entry);
    } while (changed_);
  }
  void block(Block& b) {
    for (Step& step : b.steps) {
      std::visit([&](auto& what) { visit(what); }, step.what);
    }
  }

  /// What can be made anywhere, and is only made to be transferred, is made at the other end.
  void sink() {
    for_each_step(plan_.entry, [&](const Step& step) {
      const KernelTask* task = task_of(step);
      if (task == nullptr || !task->transfers_to) return;
      const SlotId in = task->inputs[0];
      if (readers_[std::size_t(in)] == 1) set(in, task->transfers_to);
    });
  }
  std::optional<MemoryKind> of_inputs(const KernelTask& task) {
    // What is updated in part stays where it is.
    for (const KernelTask::Reuse& r : task.reuse) {
      const SlotId in = task.inputs[std::size_t(r.input)];
      if (r.copy && kind(in)) return kind(in);
    }
    const bool number = bytes(task.outputs.at(0)) <= kNumberBytes;
    for (const SlotId s : task.inputs) {
      if (kind(s) && (number || bytes(s) > kNumberBytes)) return kind(s);
    }
    return std::nullopt;
  }
  void visit(KernelTask& task) {
    const std::optional<MemoryKind> to = task.transfers_to ? task.transfers_to : of_inputs(task);
    for (const SlotId s : task.outputs) set(s, to);
  }
  void visit(Exchange& exchange) {
    for (const auto& p : exchange.parts) same(p.input, p.output);
  }
  void visit(While& loop) {
    same(loop.init);
    block(loop.condition);
    block(loop.body);
    same(loop.next);
  }
  void visit(Conditional& conditional) {
    for (Branch& b : conditional.branches) {
      same(b.parameters);
      block(b.block);
      same(b.results);
    }
  }

  Plan& plan_;
  std::vector<std::optional<MemoryKind>> kinds_;
  std::vector<int> readers_;
  std::vector<bool> constant_;
  bool changed_ = false;
};

/// Takes out the transfers that change nothing: who reads the result reads the operand.
class NoOpTransfers {
 public:
  explicit NoOpTransfers(Plan* plan) : plan_(*plan), instead_(plan->slots.size()) {
    std::iota(instead_.begin(), instead_.end(), SlotId(0));
  }

  void run() {
    find(&plan_.entry);
    if (!any_) return;
    // Operands come before what reads them, in the order of steps: one look is enough.
    const auto replace = [&](SlotId& s) { s = instead_[std::size_t(s)]; };
    for_each_step(plan_.entry, [&](Step& step) { for_each_read(step, replace); });
    for (SlotId& s : plan_.results) replace(s);
  }

 private:
  const Slot& slot(SlotId s) const { return plan_.slots[std::size_t(s)]; }

  void find(Block* block) {
    std::erase_if(block->steps, [&](Step& step) {
      for_each_block(step, [&](Block& b) { find(&b); });
      const KernelTask* task = task_of(step);
      if (task == nullptr || !task->transfers_to) return false;
      const SlotId in = task->inputs[0], out = task->outputs[0];
      if (slot(in).memory != slot(out).memory || slot(in).classes != slot(out).classes) {
        return false;
      }
      instead_[std::size_t(out)] = instead_[std::size_t(in)];
      return any_ = true;
    });
  }

  Plan& plan_;
  std::vector<SlotId> instead_;
  bool any_ = false;
};

}  // namespace

void assign_memory(Plan* plan, const std::vector<MemoryKind>& parameters) {
  if (std::none_of(parameters.begin(), parameters.end(), is_host) && !transfers(plan->entry)) {
    return;
  }
  Assignment(plan).run(parameters);
  NoOpTransfers(plan).run();
}

}  // namespace tessera::codegen
