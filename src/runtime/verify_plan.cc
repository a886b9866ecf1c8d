// SPDX-License-Identifier: Apache-2.0
// Walks a plan as it is run, with the set of slots that hold something.
#include "src/runtime/verify_plan.h"

#include <algorithm>
#include <string>

#include "tessera/error.h"

namespace tessera::runtime {
namespace {

class Verifier {
 public:
  explicit Verifier(const Plan& plan) : held_(plan.slots.size(), false) {
    for (const SlotId s : plan.parameters) fill(s);
    for (const Plan::Constant& c : plan.constants) fill(c.slot);
  }

  void block(const Block& b) {
    for (const Segment& segment : b.segments) {
      for (std::int32_t n = segment.begin; n < segment.end; ++n) {
        const Step& step = b.steps[std::size_t(n)];
        std::visit([&](const auto& what) { visit(step.name, what); }, step.what);
        release(step.release);
      }
      release(segment.release);
    }
  }
  void need(SlotId s, const std::string& reader) const {
    if (held_[std::size_t(s)]) return;
    throw InternalError("in the plan, " + reader + " reads %" + std::to_string(s) +
                        ", which holds nothing by then");
  }

 private:
  void fill(SlotId s) { held_[std::size_t(s)] = true; }
  void release(const std::vector<SlotId>& slots) {
    for (const SlotId s : slots) held_[std::size_t(s)] = false;
  }
  void move(const std::string& name, const std::vector<Move>& moves) {
    for (const Move& m : moves) need(m.from, name);
    for (const Move& m : moves) {
      if (m.donate) held_[std::size_t(m.from)] = false;
    }
    for (const Move& m : moves) fill(m.to);
  }

  void visit(const std::string& name, const KernelTask& task) {
    for (const SlotId s : task.inputs) need(s, name);
    for (const SlotId s : task.outputs) fill(s);
  }
  void visit(const std::string& name, const Exchange& exchange) {
    for (const Exchange::Part& p : exchange.parts) need(p.input, name);
    for (const Exchange::Part& p : exchange.parts) fill(p.output);
  }
  void visit(const std::string& name, const While& loop) {
    move(name, loop.init);
    block(loop.condition);
    need(loop.predicate, name);
    const std::vector<bool> before_body = held_;
    block(loop.body);
    move(name, loop.next);
    // What only the body fills is not there if it never runs.
    for (std::size_t s = 0; s < held_.size(); ++s) held_[s] = held_[s] && before_body[s];
    for (const Move& m : loop.init) fill(m.to);
  }
  void visit(const std::string& name, const Conditional& conditional) {
    need(conditional.selector, name);
    const std::vector<bool> before = held_;
    std::vector<bool> after(held_.size(), true);
    for (const Branch& b : conditional.branches) {
      held_ = before;
      move(name, b.parameters);
      block(b.block);
      move(name, b.results);
      for (std::size_t s = 0; s < held_.size(); ++s) after[s] = after[s] && held_[s];
    }
    held_ = std::move(after);
  }

  std::vector<bool> held_;
};

}  // namespace

void verify_plan(const Plan& plan) {
  Verifier verifier(plan);
  verifier.block(plan.entry);
  for (const SlotId s : plan.results) verifier.need(s, "the result");
}

}  // namespace tessera::runtime
