// SPDX-License-Identifier: Apache-2.0
// In which kind of memory each slot of a plan is: kinds flow along steps and moves to a fixed
// point.
#include "src/codegen/memory_kinds.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace tessera::codegen {
namespace {

using namespace runtime;

/// Numbers are read from any memory, and say nothing of where an array is made.
constexpr std::int64_t kNumberBytes = 16;

bool transfers(const Block& block) {
  return std::any_of(block.steps.begin(), block.steps.end(), [](const Step& step) {
    if (const auto* task = std::get_if<KernelTask>(&step.what)) {
      return task->transfers_to.has_value();
    }
    if (const auto* loop = std::get_if<While>(&step.what)) {
      return transfers(loop->condition) || transfers(loop->body);
    }
    if (const auto* conditional = std::get_if<Conditional>(&step.what)) {
      const auto& all = conditional->branches;
      return std::any_of(all.begin(), all.end(),
                         [](const Branch& b) { return transfers(b.block); });
    }
    return false;
  });
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
    read(plan_.results);
    count_readers(plan_.entry);
    // A slot gets a kind once, so this ends.
    settle();
    sink(plan_.entry);
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

  void read(SlotId s) { ++readers_[std::size_t(s)]; }
  void read(const std::vector<SlotId>& slots) {
    for (const SlotId s : slots) read(s);
  }
  void read(const std::vector<Move>& moves) {
    for (const Move& m : moves) read(m.from);
  }
  void count_readers(const Block& b) {
    for (const Step& step : b.steps) {
      if (const auto* task = std::get_if<KernelTask>(&step.what)) {
        read(task->inputs);
      } else if (const auto* exchange = std::get_if<Exchange>(&step.what)) {
        for (const auto& p : exchange->parts) read(p.input);
      } else if (const auto* loop = std::get_if<While>(&step.what)) {
        read(loop->init);
        read(loop->next);
        read(loop->predicate);
        count_readers(loop->condition);
        count_readers(loop->body);
      } else {
        const auto& conditional = std::get<Conditional>(step.what);
        read(conditional.selector);
        for (const Branch& branch : conditional.branches) {
          read(branch.parameters);
          read(branch.results);
          count_readers(branch.block);
        }
      }
    }
  }
  /// What can be made anywhere, and is only made to be transferred, is made at the other end.
  void sink(Block& b) {
    for (Step& step : b.steps) {
      if (auto* loop = std::get_if<While>(&step.what)) {
        sink(loop->condition);
        sink(loop->body);
      } else if (auto* conditional = std::get_if<Conditional>(&step.what)) {
        for (Branch& branch : conditional->branches) sink(branch.block);
      }
      const auto* task = std::get_if<KernelTask>(&step.what);
      if (task == nullptr || !task->transfers_to) continue;
      const SlotId in = task->inputs[0];
      if (readers_[std::size_t(in)] == 1) set(in, task->transfers_to);
    }
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
class Idle {
 public:
  explicit Idle(Plan* plan) : plan_(*plan), instead_(plan->slots.size()) {
    std::iota(instead_.begin(), instead_.end(), SlotId(0));
  }

  void run() {
    find(&plan_.entry);
    if (!any_) return;
    replace(&plan_.entry);
    replace(&plan_.results);
  }

 private:
  const Slot& slot(SlotId s) const { return plan_.slots[std::size_t(s)]; }

  void find(Block* block) {
    std::erase_if(block->steps, [&](Step& step) {
      if (auto* loop = std::get_if<While>(&step.what)) {
        find(&loop->condition);
        find(&loop->body);
      } else if (auto* conditional = std::get_if<Conditional>(&step.what)) {
        for (Branch& b : conditional->branches) find(&b.block);
      }
      const auto* task = std::get_if<KernelTask>(&step.what);
      if (task == nullptr || !task->transfers_to) return false;
      const SlotId in = task->inputs[0], out = task->outputs[0];
      if (slot(in).memory != slot(out).memory || slot(in).classes != slot(out).classes) {
        return false;
      }
      instead_[std::size_t(out)] = instead_[std::size_t(in)];
      return any_ = true;
    });
  }
  // Operands come before what reads them, in the order of steps: one look is enough.
  void replace(SlotId* s) const { *s = instead_[std::size_t(*s)]; }
  void replace(std::vector<SlotId>* slots) const {
    for (SlotId& s : *slots) replace(&s);
  }
  void replace(std::vector<Move>* moves) const {
    for (Move& m : *moves) replace(&m.from);
  }
  void replace(Block* block) {
    for (Step& step : block->steps) {
      if (auto* task = std::get_if<KernelTask>(&step.what)) {
        replace(&task->inputs);
      } else if (auto* exchange = std::get_if<Exchange>(&step.what)) {
        for (auto& p : exchange->parts) replace(&p.input);
      } else if (auto* loop = std::get_if<While>(&step.what)) {
        replace(&loop->init);
        replace(&loop->condition);
        replace(&loop->predicate);
        replace(&loop->body);
        replace(&loop->next);
      } else {
        auto& conditional = std::get<Conditional>(step.what);
        replace(&conditional.selector);
        for (Branch& b : conditional.branches) {
          replace(&b.parameters);
          replace(&b.block);
          replace(&b.results);
        }
      }
    }
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
  Idle(plan).run();
}

}  // namespace tessera::codegen
