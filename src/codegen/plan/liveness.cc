// SPDX-License-Identifier: Apache-2.0
// Liveness of plan slots: where storage is freed or moved from, and an estimate of peak memory.
#include "src/codegen/plan/liveness.h"

#include <algorithm>
#include <array>
#include <map>

namespace tessera::codegen {
namespace {

using namespace runtime;

using Live = std::set<SlotId>;

/// Backward liveness analysis of a plan's slots, as compilers do it for registers (Appel, Modern
/// Compiler Implementation, ch. 10), over structured control flow: a loop's carried slots are live
/// at its condition, and what a branch reads is live before the conditional.
///
/// Example: slots a (argument), b, c, d of one size, d is the result. From the last step up:
///   step             live after   release   may write into
///   3: d = h(c)      d            c         c
///   2: c = g(a, b)   c            a, b      a or b
///   1: b = f(a)      a, b         -         nothing: a is read by step 2
/// "May write into" are the KernelTask::Reuse entries that stay, with `dies` set; the executor
/// takes one if no handle outside holds that memory. So a device holds two arrays at most, a and b.
/// If the argument is donated, c is written into a, and d into c: the result needs no memory of its
/// own.
class Planner {
 public:
  explicit Planner(Plan* plan) : plan_(*plan) {
    for (const Plan::Constant& c : plan->constants) constants_.insert(c.slot);
  }

  /// `live`: what is needed after the block; afterwards, what is needed before.
  void block(Block* b, Live* live) {
    for (std::size_t n = b->steps.size(); n-- > 0;) {
      Step& step = b->steps[n];
      step.release.clear();
      std::visit([&](auto& what) { visit(step, what, live); }, step.what);
    }
  }

 private:
  const Slot& slot(SlotId s) const { return plan_.slots[std::size_t(s)]; }
  bool dies(SlotId s, const Live& live) const {
    return live.count(s) == 0 && constants_.count(s) == 0;
  }

  void define(Step& step, SlotId s, Live* live) {
    if (live->erase(s) == 0) step.release.push_back(s);  // never used
  }
  void use(Step& step, SlotId s, Live* live) {
    if (constants_.count(s) != 0) return;
    if (live->insert(s).second) step.release.push_back(s);
  }

  void visit(Step& step, KernelTask& task, Live* live) {
    for (const SlotId s : task.outputs) define(step, s, live);
    std::vector<KernelTask::Reuse> kept;
    for (KernelTask::Reuse r : task.reuse) {
      const SlotId in = task.inputs[std::size_t(r.input)];
      const SlotId out = task.outputs[std::size_t(r.output)];
      r.dies = dies(in, *live) && slot(in).classes == slot(out).classes &&
               slot(in).bytes == slot(out).bytes && slot(in).memory == slot(out).memory &&
               std::count(task.inputs.begin(), task.inputs.end(), in) == 1;
      if (r.dies || r.copy) kept.push_back(r);
    }
    task.reuse = std::move(kept);
    for (const SlotId s : task.inputs) use(step, s, live);
  }

  void visit(Step& step, Exchange& exchange, Live* live) {
    for (const auto& p : exchange.parts) define(step, p.output, live);
    exchange.input_dies = true;
    for (const auto& p : exchange.parts) exchange.input_dies &= dies(p.input, *live);
    // One array given twice is read by both parts.
    Live seen;
    for (const auto& p : exchange.parts) exchange.input_dies &= seen.insert(p.input).second;
    for (const auto& p : exchange.parts) use(step, p.input, live);
  }

  void visit(Step& step, While& loop, Live* live) {
    Live carried;
    for (const Move& m : loop.init) carried.insert(m.to);
    for (const SlotId s : carried) define(step, s, live);

    Live body_end;
    for (Move& m : loop.next) {
      // A carried slot that is passed on is overwritten by its own successor.
      m.donate = carried.count(m.from) == 0 && constants_.count(m.from) == 0;
      if (constants_.count(m.from) == 0) body_end.insert(m.from);
    }
    block(&loop.body, &body_end);
    Live condition_end = carried;
    condition_end.insert(loop.predicate);
    block(&loop.condition, &condition_end);

    for (Move& m : loop.init) m.donate = dies(m.from, *live);
    for (const Move& m : loop.init) use(step, m.from, live);
  }

  void visit(Step& step, Conditional& conditional, Live* live) {
    Live defined;
    for (const Branch& b : conditional.branches) {
      for (const Move& m : b.results) defined.insert(m.to);
    }
    for (const SlotId s : defined) define(step, s, live);
    for (Branch& b : conditional.branches) {
      Live inside;
      for (Move& m : b.results) {
        m.donate = constants_.count(m.from) == 0;
        if (m.donate) inside.insert(m.from);
      }
      block(&b.block, &inside);
      // What the branch does not read is not passed in.
      std::erase_if(b.parameters, [&](const Move& m) { return inside.count(m.to) == 0; });
    }
    for (Branch& b : conditional.branches) {
      for (Move& m : b.parameters) {
        m.donate = dies(m.from, *live) && m.from != conditional.selector;
      }
    }
    for (Branch& b : conditional.branches) {
      for (const Move& m : b.parameters) use(step, m.from, live);
    }
    use(step, conditional.selector, live);
  }

  Plan& plan_;
  Live constants_;
};

/// One device's view: which storage each slot holds, and how many slots hold it.
class Estimate {
 public:
  Estimate(const Plan& plan, const std::set<std::int64_t>& donated) : plan_(plan) {
    for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
      const SlotId s = plan.parameters[i];
      allocate(s);
      // An argument that is kept has a handle outside.
      if (donated.count(std::int64_t(i)) == 0) ++holders_[held_[s]];
      arguments_.insert(held_[s]);
    }
    for (const Plan::Constant& c : plan.constants) {
      allocate(c.slot);
      ++holders_[held_[c.slot]];
    }
    block(plan.entry);
    std::set<int> seen;
    for (const SlotId s : plan.results) {
      const int storage = held_[s];
      if (!seen.insert(storage).second) continue;
      MemoryEstimate::Part& part = of(result, is_host(storages_[std::size_t(storage)].memory));
      const std::int64_t bytes = storages_[std::size_t(storage)].bytes;
      (arguments_.count(storage) == 0 ? part.results : part.reused) += bytes;
    }
    for (const bool host : {false, true}) of(result, host).peak = peak_[host];
  }

  MemoryEstimate result;

 private:
  struct Storage {
    std::int64_t bytes;
    MemoryKind memory;
  };
  static MemoryEstimate::Part& of(MemoryEstimate& estimate, bool host) {
    return host ? estimate.host : static_cast<MemoryEstimate::Part&>(estimate);
  }

  void allocate(SlotId s) {
    drop(s);
    const int id = int(storages_.size());
    const Slot& slot = plan_.slots[std::size_t(s)];
    storages_.push_back({slot.bytes, slot.memory});
    holders_[id] = 1;
    held_[s] = id;
    const bool host = is_host(slot.memory);
    now_[host] += slot.bytes;
    peak_[host] = std::max(peak_[host], now_[host]);
  }
  void drop(SlotId s) {
    const auto it = held_.find(s);
    if (it == held_.end()) return;
    if (--holders_[it->second] == 0) {
      const Storage& gone = storages_[std::size_t(it->second)];
      now_[is_host(gone.memory)] -= gone.bytes;
    }
    held_.erase(it);
  }
  void share(SlotId from, SlotId to) {
    const int id = held_.at(from);
    ++holders_[id];
    drop(to);
    held_[to] = id;
  }
  void move(const std::vector<Move>& moves) {
    std::vector<int> taken;
    for (const Move& m : moves) {
      taken.push_back(held_.at(m.from));
      ++holders_[taken.back()];
    }
    for (const Move& m : moves) {
      if (m.donate && m.from != m.to) drop(m.from);
    }
    for (std::size_t i = 0; i < moves.size(); ++i) {
      drop(moves[i].to);
      held_[moves[i].to] = taken[i];
    }
  }

  void block(const Block& b) {
    for (const Segment& segment : b.segments) {
      for (auto n = segment.begin; n < segment.end; ++n) {
        const Step& step = b.steps[std::size_t(n)];
        std::visit([&](const auto& what) { visit(what); }, step.what);
        for (const SlotId s : step.release) drop(s);
      }
      for (const SlotId s : segment.release) drop(s);
    }
  }
  void visit(const KernelTask& task) {
    std::set<SlotId> done;
    for (const auto& r : task.reuse) {
      const SlotId in = task.inputs[std::size_t(r.input)];
      const SlotId out = task.outputs[std::size_t(r.output)];
      if (!r.dies || done.count(out) != 0 || held_.count(in) == 0 || holders_[held_[in]] != 1) {
        continue;
      }
      share(in, out);
      drop(in);
      done.insert(out);
    }
    for (const SlotId s : task.outputs) {
      if (done.count(s) == 0) allocate(s);
    }
  }
  void visit(const Exchange& exchange) {
    for (const auto& p : exchange.parts) {
      const bool changes_hands =
          exchange.kind == Exchange::Kind::collective_permute ||
          exchange.kind == Exchange::Kind::collective_broadcast ||
          exchange.kind == Exchange::Kind::all_to_all_tuple ||
          (exchange.kind == Exchange::Kind::all_reduce && exchange.input_dies);
      if (changes_hands) {
        share(p.input, p.output);
      } else {
        allocate(p.output);
      }
    }
  }
  void visit(const While& loop) {
    move(loop.init);
    // Two trips show what a steady loop holds; deep inside of others their trips do.
    ++loops_;
    const bool deep = loops_ > kLoopsWalkedTwice;
    for (int trip = deep ? 1 : 0; trip < 2; ++trip) {
      block(loop.condition);
      block(loop.body);
      move(loop.next);
    }
    if (!deep) block(loop.condition);
    --loops_;
  }
  void visit(const Conditional& conditional) {
    // Each branch from the same start; the last one's state goes on.
    const auto held = held_;
    const auto holders = holders_;
    const std::array<std::int64_t, 2> now = now_;
    for (const Branch& b : conditional.branches) {
      held_ = held;
      holders_ = holders;
      now_ = now;
      move(b.parameters);
      block(b.block);
      move(b.results);
    }
  }

  static constexpr int kLoopsWalkedTwice = 3;

  const Plan& plan_;
  int loops_ = 0;  ///< that the step walked through stands in
  std::map<SlotId, int> held_;
  std::map<int, int> holders_;
  std::set<int> arguments_;
  std::vector<Storage> storages_;
  std::array<std::int64_t, 2> now_{}, peak_{};  ///< of the device and of its host
};

}  // namespace

void plan_memory(Plan* plan) {
  std::set<SlotId> live(plan->results.begin(), plan->results.end());
  for (const Plan::Constant& c : plan->constants) live.erase(c.slot);
  Planner(plan).block(&plan->entry, &live);
}

MemoryEstimate estimate_memory(const Plan& plan, const std::set<std::int64_t>& donated) {
  return Estimate(plan, donated).result;
}

std::int64_t settle_memory(Plan* plan) {
  plan_memory(plan);
  finalize(plan);
  return estimate_memory(*plan, {}).peak;
}

}  // namespace tessera::codegen
