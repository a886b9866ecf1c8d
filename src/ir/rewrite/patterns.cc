// SPDX-License-Identifier: Apache-2.0
// The drivers of patterns: a walk, then a list of what is to be visited again.
#include "src/ir/rewrite/patterns.h"

#include <algorithm>

#include "src/base/check.h"

namespace tessera::ir {

class PatternDriver {
 public:
  PatternDriver(Computation* c, const PatternSet& patterns, InsertionPoint insertion, bool greedy,
                std::size_t max_rewrites)
      : c_(c),
        patterns_(patterns),
        rewriter_(c, this),
        insertion_(insertion),
        greedy_(greedy),
        max_rewrites_(max_rewrites) {
    if (max_rewrites_ == 0) max_rewrites_ = 32 * c->instructions().size() + 1024;
  }

  std::size_t run() {
    for (std::size_t n = 0; n < start_size_; ++n) {
      walked_ = n;
      Instruction* i = c_->instructions()[n].get();
      if (!has(i, kGone)) visit(i);
    }
    if (!greedy_) {
      finish(start_size_);
      return count_;
    }
    for (;;) {
      drain();
      // What lost a user may match now.
      std::vector<Instruction*> lost = live_operands_of_gone();
      const auto removed = finish(start_size_);
      start_size_ = size_now();
      std::erase_if(lost, [&](const Instruction* i) {
        return std::binary_search(removed.begin(), removed.end(), i);
      });
      if (lost.empty()) return count_;
      for (Instruction* i : lost) queue(i);
    }
  }

  void replace(Instruction* from, Instruction* to) {
    TESSERA_CHECK(from != to && from->parent == c_ && to->parent == c_ && !has(from, kGone),
                  "patterns " + patterns_.name() + ": " + to->name + " can't replace " +
                      from->name + " of " + c_->name());
    TESSERA_CHECK(from->shape == to->shape, "patterns " + patterns_.name() + " replace " +
                                                from->describe() + " of type " +
                                                from->shape.to_string() + " by " + to->name +
                                                " of type " + to->shape.to_string());
    if (to->sharding.empty() && !from->sharding.empty()) to->sharding = from->sharding;
    if (to->index > from->index) out_of_order_ = true;
    if (greedy_) queue_users(from);
    from->replace_all_uses_with(to);
    go(from);
  }

  void erase(Instruction* i) {
    TESSERA_CHECK(i->parent == c_ && !has(i, kGone),
                  "patterns " + patterns_.name() + " can't erase " + i->name);
    go(i);
    flags(i) |= kErased;
  }

  void modified(Instruction* i) {
    out_of_order_ = true;
    if (!greedy_) return;
    queue(i, true);
    queue_users(i);
  }

 private:
  enum : std::uint8_t { kQueued = 1, kGone = 2, kErased = 4 };
  /// Instructions that were appended while one was rewritten.
  struct Made {
    const Instruction* at;
    std::size_t begin, end;
  };

  std::size_t size_now() const { return c_->instructions().size(); }
  bool has(const Instruction* i, std::uint8_t flag) const {
    const auto n = std::size_t(i->index);
    return n < flags_.size() && (flags_[n] & flag) != 0;
  }
  /// Indices hold until finish().
  std::uint8_t& flags(const Instruction* i) {
    if (std::size_t(i->index) >= flags_.size()) flags_.resize(2 * size_now());
    return flags_[std::size_t(i->index)];
  }
  void go(Instruction* i) {
    flags(i) |= kGone;
    gone_.push_back(i);
  }

  void visit(Instruction* i) {
    const std::span<const std::uint16_t> numbers = patterns_.of(i->opcode);
    if (numbers.empty()) return;
    const std::size_t before = size_now();
    rewriter_.builder_.metadata = i->metadata;
    for (const std::uint16_t number : numbers) {
      if (!patterns_.rewrite(number)(*i, rewriter_)) {
        rewriter_.builder_.metadata = i->metadata;
        continue;
      }
      TESSERA_CHECK(++count_ <= max_rewrites_,
                    "patterns " + patterns_.name() + " have no fixed point in " + c_->name() +
                        ": they rewrote " + std::to_string(count_) + " times, last of all " +
                        i->describe() + "; patterns that undo each other may only walk");
      if (insertion_ == InsertionPoint::in_place) made_.push_back({i, before, size_now()});
      if (greedy_) {
        for (std::size_t n = before; n < size_now(); ++n) queue(c_->instructions()[n].get());
      }
      return;
    }
  }

  /// To be visited once more, unless the walk is still to come there.
  void queue(Instruction* i, bool also_current = false) {
    if (patterns_.of(i->opcode).empty()) return;
    const auto n = std::size_t(i->index);
    if (n < start_size_ && (n > walked_ || (n == walked_ && !also_current))) return;
    std::uint8_t& f = flags(i);
    if ((f & (kQueued | kGone)) != 0) return;
    f |= kQueued;
    queue_.push_back(i);
  }
  void queue_users(const Instruction* of) {
    for (const Use& use : of->uses()) {
      if (use.user != nullptr) queue(use.user);
    }
  }

  void drain() {
    walked_ = size_now();  // the walk is over
    for (std::size_t n = 0; n < queue_.size(); ++n) {
      Instruction* i = queue_[n];
      flags(i) &= std::uint8_t(~kQueued);
      if (!has(i, kGone) && !is_dead(*i)) visit(i);
    }
    queue_.clear();
  }

  /// Whether all that uses it is gone, and nobody needs it for what it does.
  bool is_dead(const Instruction& i) const {
    if (&i == c_->root() || i.is(Opcode::parameter) || !i.called().empty() ||
        !i.control_successors().empty() || i.has_side_effect()) {
      return false;
    }
    return std::all_of(i.uses().begin(), i.uses().end(),
                       [&](const Use& use) { return use.user == nullptr || has(use.user, kGone); });
  }

  /// What has a pattern and is read by what goes, each once, in the order of the computation.
  std::vector<Instruction*> live_operands_of_gone() {
    std::vector<Instruction*> out, work = gone_;
    while (!work.empty()) {
      const Instruction* i = work.back();
      work.pop_back();
      for (Instruction* o : i->operands()) {
        if (has(o, kGone)) continue;
        if (is_dead(*o)) {
          flags(o) |= kGone;
          work.push_back(o);
        } else if (!patterns_.of(o->opcode).empty()) {
          out.push_back(o);
        }
      }
    }
    const auto earlier = [](const Instruction* a, const Instruction* b) {
      return a->index < b->index;
    };
    std::sort(out.begin(), out.end(), earlier);
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  /// Restores the order and removes what is dead; returns where that was, sorted.
  std::vector<const Instruction*> finish(std::size_t size_before) {
    std::vector<const Instruction*> removed;
    if (gone_.empty() && !out_of_order_ && size_now() == size_before) return removed;
    if (insertion_ == InsertionPoint::in_place) {
      order_in_place(size_before);
    } else if (out_of_order_ || size_now() != size_before) {
      c_->sort_topologically();
    }
    // The others go with what is dead.
    std::erase_if(gone_, [&](const Instruction* i) {
      return !has(i, kErased) && !i->has_side_effect() && i->called().empty();
    });
    if (greedy_) removed.assign(gone_.begin(), gone_.end());
    c_->erase(gone_);
    c_->remove_dead(greedy_ ? &removed : nullptr);
    std::sort(removed.begin(), removed.end());
    gone_.clear();
    flags_.clear();
    out_of_order_ = false;
    return removed;
  }

  void order_in_place(std::size_t size_before) {
    std::vector<Instruction*> order;
    order.reserve(size_now());
    std::size_t next = 0;
    for (std::size_t n = 0; n < size_before; ++n) {
      Instruction* i = c_->instructions()[n].get();
      // Those that were rewritten were so in order.
      for (; next < made_.size() && made_[next].at == i; ++next) {
        for (std::size_t k = made_[next].begin; k < made_[next].end; ++k) {
          order.push_back(c_->instructions()[k].get());
        }
      }
      order.push_back(i);
    }
    c_->set_order(order);
  }

  Computation* c_;
  const PatternSet& patterns_;
  PatternRewriter rewriter_;
  const InsertionPoint insertion_;
  const bool greedy_;
  std::size_t max_rewrites_;
  std::size_t walked_ = 0;  ///< where the walk is
  std::size_t start_size_ = c_->instructions().size();
  std::size_t count_ = 0;
  bool out_of_order_ = false;
  std::vector<std::uint8_t> flags_;  ///< by index
  std::vector<Instruction*> queue_, gone_;
  std::vector<Made> made_;
};

void PatternRewriter::replace(Instruction* from, Instruction* to) { driver_->replace(from, to); }
void PatternRewriter::erase(Instruction* i) { driver_->erase(i); }
void PatternRewriter::modified(Instruction* i) { driver_->modified(i); }

PatternSet::PatternSet(std::string name)
    : name_(std::move(name)), by_opcode_(std::size_t(opcode_count())) {}

void PatternSet::enter(Opcode opcode, std::size_t number) {
  auto& list = by_opcode_[std::size_t(opcode)];
  const auto at = std::find_if(list.begin(), list.end(), [&](std::uint16_t other) {
    return patterns_[other].benefit < patterns_[number].benefit;
  });
  list.insert(at, std::uint16_t(number));
}

namespace {

template <class F>
std::size_t in_each(Module* module, F&& apply) {
  // Patterns may add computations.
  std::vector<Computation*> all;
  for (const auto& c : module->computations()) all.push_back(c.get());
  std::size_t count = 0;
  for (Computation* c : all) count += apply(c);
  return count;
}

}  // namespace

std::size_t walk_and_apply_patterns(Computation* computation, const PatternSet& patterns,
                                    InsertionPoint insertion) {
  return PatternDriver(computation, patterns, insertion, false, 0).run();
}

std::size_t walk_and_apply_patterns(Module* module, const PatternSet& patterns) {
  return in_each(module, [&](Computation* c) { return walk_and_apply_patterns(c, patterns); });
}

std::size_t apply_patterns_greedily(Computation* computation, const PatternSet& patterns,
                                    const GreedyRewriteConfig& config) {
  return PatternDriver(computation, patterns, InsertionPoint::before_users, true,
                       config.max_rewrites)
      .run();
}

std::size_t apply_patterns_greedily(Module* module, const PatternSet& patterns,
                                    const GreedyRewriteConfig& config) {
  return in_each(module,
                 [&](Computation* c) { return apply_patterns_greedily(c, patterns, config); });
}

}  // namespace tessera::ir
