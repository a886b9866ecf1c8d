// SPDX-License-Identifier: Apache-2.0
// Walks a plan with the set of slots that may hold a block.
#include "src/runtime/block_bounds.h"

#include <algorithm>
#include <map>
#include <variant>

namespace tessera::runtime {
namespace {

class Walk {
 public:
  Walk(const Plan& plan, BlockBounds* bounds)
      : bounds_(*bounds), live_(bounds->sizes.size()), held_(plan.slots.size(), false) {}

  void block(const Block& b) {
    for (const Segment& segment : b.segments) {
      for (std::int32_t n = segment.begin; n < segment.end; ++n) {
        const Step& step = b.steps[std::size_t(n)];
        std::visit([&](const auto& what) { visit(what); }, step.what);
        for (const SlotId s : step.release) drop(s);
      }
      for (const SlotId s : segment.release) drop(s);
    }
  }

 private:
  std::size_t size_of(SlotId s) const { return std::size_t(bounds_.size_of[std::size_t(s)]); }
  void fill(SlotId s) {
    if (held_[std::size_t(s)]) return;
    held_[std::size_t(s)] = true;
    const std::size_t size = size_of(s);
    bounds_.counts[size] = std::max(bounds_.counts[size], ++live_[size]);
  }
  void drop(SlotId s) {
    if (!held_[std::size_t(s)]) return;
    held_[std::size_t(s)] = false;
    --live_[size_of(s)];
  }
  void move(const std::vector<Move>& moves) {
    // Only sources that aren't donated need another block, but a bound may be generous.
    for (const Move& m : moves) fill(m.to);
    for (const Move& m : moves) {
      if (m.donate && m.from != m.to && !is_target(moves, m.from)) drop(m.from);
    }
  }
  static bool is_target(const std::vector<Move>& moves, SlotId s) {
    return std::any_of(moves.begin(), moves.end(), [&](const Move& m) { return m.to == s; });
  }
  /// Slots that `other` holds, too.
  void join(const std::vector<bool>& other) {
    for (std::size_t s = 0; s < other.size(); ++s) {
      if (other[s]) fill(SlotId(s));
    }
  }

  void visit(const KernelTask& task) {
    for (const SlotId s : task.outputs) fill(s);
  }
  void visit(const Exchange& exchange) {
    for (const Exchange::Part& p : exchange.parts) fill(p.output);
  }
  void visit(const While& loop) {
    move(loop.init);
    for (std::vector<bool> before; before != held_;) {
      before = held_;
      block(loop.condition);
      const std::vector<bool> leaves = held_;
      block(loop.body);
      move(loop.next);
      join(leaves);
      join(before);
    }
  }
  void visit(const Conditional& conditional) {
    for (const Branch& b : conditional.branches) {
      for (const Move& m : b.parameters) fill(m.to);
    }
    const std::vector<bool> before = held_;
    for (const Branch& b : conditional.branches) {
      block(b.block);
      move(b.results);
      join(before);
    }
  }

  BlockBounds& bounds_;
  std::vector<std::int32_t> live_;
  std::vector<bool> held_;
};

}  // namespace

BlockBounds bound_blocks(const Plan& plan) {
  BlockBounds bounds;
  std::map<std::int64_t, std::int32_t> sizes;
  for (const Slot& s : plan.slots) {
    const std::int64_t bytes = std::max<std::int64_t>((s.bytes + 63) / 64 * 64, 64);
    const auto [at, added] = sizes.try_emplace(bytes, std::int32_t(bounds.sizes.size()));
    if (added) bounds.sizes.push_back(bytes);
    bounds.size_of.push_back(at->second);
  }
  bounds.counts.resize(bounds.sizes.size(), 0);
  Walk(plan, &bounds).block(plan.entry);
  return bounds;
}

}  // namespace tessera::runtime
