// SPDX-License-Identifier: Apache-2.0
// Chooses which instructions are computed inside the loop of their user instead of in memory.
#include "src/codegen/fusion.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "src/codegen/kernels/composed_view.h"
#include "src/codegen/kernels/convolution.h"
#include "src/codegen/kernels/dot.h"
#include "src/codegen/kernels/gather.h"
#include "src/codegen/kernels/loop_expr.h"
#include "src/codegen/kernels/reduce.h"
#include "src/codegen/kernels/reduce_window.h"

namespace tessera::codegen {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Of one loop.
constexpr int kMaxOps = 256;
/// So often may a view be read, and a cheap value be made.
constexpr std::size_t kMaxReads = 6, kMaxRepeats = 3;
/// What one element of a cheap value takes, in those of an addition; of one that is made again for
/// less memory; and from how many arrays it may be made.
constexpr double kCheap = 1.3, kExpensive = 8;
constexpr int kCheapArrays = 1, kExpensiveArrays = 2;
/// And through how many ops it is followed.
constexpr std::size_t kShortChain = 8, kLongChain = 24;
/// A chain of views, and the boxes of a composed view: each row looks at all of them.
constexpr std::size_t kMaxViews = 16, kMaxPieces = 12;
/// Sources whose elements may be read in any order.
constexpr std::int64_t kSmall = 64 << 10;

/// Where a value is made: in the loop of `root`, seen through a stack of views. The parts of a
/// concatenation, and the indices of a gather, are loops of their own, numbered after the
/// instructions.
struct Context {
  std::int64_t root;
  int stack;
  auto operator<=>(const Context&) const = default;
};
using Contexts = std::set<Context>;

/// By the scalar's number; enough to see whether two are the same.
class Numbers : public ViewScalars {
 public:
  int input(const Instruction& scalar) override { return int(scalar.index); }
};

class Fuser {
 public:
  Fuser(const ir::Computation& computation, const passes::UniformityFacts& facts,
        const FusionOptions& options)
      : computation_(computation), facts_(facts), options_(options) {
    const auto n = computation.instructions().size();
    out_.inlined.assign(n, false);
    out_.loops.assign(n, false);
    out_.fuses_producers.assign(n, false);
    contexts_.resize(n);
    is_loop_op_.resize(n);
    for (std::size_t k = 0; k < n; ++k) is_loop_op_[k] = is_loop_op(*computation.instructions()[k]);
    stored_.resize(n);
    for (const auto& i : computation.instructions()) {
      stored_[std::size_t(i->index)] =
          uses(*i) > kMaxRepeats && !costs_at_most(*i, kCheap, kCheapArrays, kShortChain);
    }
  }

  Fusion run() {
    const auto& list = computation_.instructions();
    for (std::size_t n = list.size(); n-- > 0;) {
      const Instruction& i = *list[n];
      if (!i.shape.is_array() || known(i)) continue;
      const bool parts = has_parts(i);
      const bool loop = is_loop_op_[n] || parts;
      if (!loop && !is_view(i) && !i.is(Opcode::iota) && !i.is(Opcode::gather)) continue;
      if (computation_.root() != &i) {
        if (auto contexts = offered(i, i.users()); contexts && fits(i, loop, *contexts)) {
          out_.inlined[n] = true;
          out_.fuses_producers[n] = parts;
          if (loop) {
            for (const Context& c : *contexts) ++sizes_[c.root];
          }
          contexts_[n] = std::move(*contexts);
          continue;
        }
      }
      if (loop) {
        out_.loops[n] = true;
        out_.fuses_producers[n] = parts;
        ++sizes_[i.index];
        contexts_[n] = {{i.index, 0}};
      }
    }
    return std::move(out_);
  }

 private:
  struct Frame {
    const Instruction* view = nullptr;
    int operand = 0, parent = 0;
    bool leaves_only = false;  ///< what it shows is no place to compute in
    double elements = 0;       ///< that the root reads through it
  };

  bool known(const Instruction& i) const {
    const auto& leaves = facts_.leaves[std::size_t(i.index)];
    return leaves.size() == 1 && leaves[0].known;
  }
  /// A concatenation one of whose parts is computed for it, or a gather whose indices are, or are
  /// put together for it.
  bool has_parts(const Instruction& i) {
    const bool gathers = i.is(Opcode::gather);
    if (!i.is(Opcode::concatenate) && !(gathers && indices_in_order(i))) return false;
    for (std::size_t k = gathers ? 1 : 0; k < i.operands().size(); ++k) {
      const Instruction* made = i.operand(k);
      while (uses(*made) == 1 && !known(*made) &&
             (made->is(Opcode::reshape) || made->is(Opcode::broadcast))) {
        made = made->operand(0);
      }
      if (known(*made)) continue;
      const bool computed = is_loop_op_[std::size_t(made->index)] &&
                            (uses(*made) == 1 || (uses(*made) <= kMaxRepeats && recompute(*made)));
      const bool joined = gathers && made->is(Opcode::concatenate) && uses(*made) == 1;
      if (!computed && !joined) continue;
      out_.mattered.parts = true;
      return options_.parts;
    }
    return false;
  }
  std::size_t uses(const Instruction& i) const { return i.users().size(); }

  /// The loop of an operand that is computed in its user's.
  std::int64_t part_root(const Instruction& user, std::size_t k) {
    const auto [it, added] = part_ids_.try_emplace(
        {user.index, k}, std::int64_t(computation_.instructions().size() + parts_.size()));
    if (added) parts_.push_back({user.operand(k), &user});
    return it->second;
  }
  /// The transposes through which a concatenation is seen, as one of its operand.
  int part_stack(const Instruction& user, std::size_t k) {
    int stack = contexts_[std::size_t(user.index)].begin()->stack;
    if (stack == 0) return 0;
    auto& transpose = part_transposes_[{user.index, k}];
    if (!transpose) {
      Dims order = identity_order(user.shape.rank());
      for (; stack != 0; stack = frames_[std::size_t(stack)].parent) {
        order = reordered(order, *frames_[std::size_t(stack)].view);
      }
      transpose = synthetic_transpose(user.operand(k), order, next_synthetic_--);
    }
    return push(0, *transpose, 0);
  }
  /// What a loop makes, and whose devices run it: of a part, the operand and its user's.
  struct Root {
    const Instruction *made, *run_by;
  };
  Root root_of(std::int64_t root) const {
    const auto n = std::int64_t(computation_.instructions().size());
    if (root >= n) return parts_[std::size_t(root - n)];
    const Instruction* i = computation_.instructions()[std::size_t(root)].get();
    return {i, i};
  }

  passes::ClassesId classes(std::int64_t i) const {
    return facts_.leaves[std::size_t(i)].at(0).classes;
  }

  int push(int parent, const Instruction& view, std::size_t operand) {
    const auto [it, added] =
        ids_.try_emplace({view.index, int(operand), parent}, int(frames_.size()));
    if (added) {
      const bool passes = commutes(view) || keeps_count(view);
      const Frame& outer = frames_[std::size_t(parent)];
      frames_.push_back({&view, int(operand), parent, !passes || outer.leaves_only,
                         parent == 0 ? double(view.shape.element_count()) : outer.elements});
    }
    return it->second;
  }

  /// The contexts in which the users would make it; none if one of them needs it in memory.
  std::optional<Contexts> offered(const Instruction& i, std::span<Instruction* const> users) {
    Contexts out;
    const Instruction* last = nullptr;
    for (const Instruction* user : users) {
      if (user == last) continue;
      last = user;
      const Instruction& u = *user;
      for (std::size_t k = 0; k < u.operands().size(); ++k) {
        if (u.operands()[k] != &i) continue;
        if (!offer(u, k, i, &out)) return std::nullopt;
      }
    }
    if (out.empty()) return std::nullopt;
    return out;
  }

  bool offer(const Instruction& u, std::size_t k, const Instruction& i, Contexts* out) {
    const auto n = std::size_t(u.index);
    if (known(u)) return false;
    if (out_.fuses_producers[n]) {
      if (u.is(Opcode::gather) && k == 0) return false;
      out->insert({part_root(u, k), part_stack(u, k)});
      return true;
    }
    if (out_.inlined[n] || out_.loops[n]) {
      if (u.is(Opcode::gather)) return false;
      if (is_view(u)) {
        if (!is_data_operand(u, k)) return false;
        for (const Context& c : contexts_[n]) {
          // The order of all elements stays as it is.
          const bool same = u.is(Opcode::reshape) && c.stack == 0;
          out->insert(same ? c : Context{c.root, push(c.stack, u, k)});
        }
        return true;
      }
      if (u.shape.dims != i.shape.dims) return false;  // one scalar for all
      out->insert(contexts_[n].begin(), contexts_[n].end());
      return true;
    }
    if (is_view(u)) {
      if (u.is(Opcode::broadcast) || u.is(Opcode::reshape) || u.is(Opcode::dynamic_update_slice) ||
          !is_data_operand(u, k)) {
        return false;
      }
      out_.mattered.views = true;
      if (!options_.views) return false;
      out->insert({u.index, push(0, u, k)});
      return true;
    }
    if (u.is(Opcode::reduce) && k < u.operands().size() / 2 && takes_programs(u)) {
      out->insert({u.index, 0});
      return true;
    }
    if (u.is(Opcode::reduce_window) && k == 0 && takes_programs(u)) {
      out->insert({u.index, 0});
      return true;
    }
    if (u.is(Opcode::dot) || u.is(Opcode::convolution) ||
        (u.is(Opcode::reduce) && k < u.operands().size() / 2)) {
      const Instruction* operand_transpose = operand_transpose_of(u, k);
      if (operand_transpose == nullptr) return false;
      out_.mattered.operand_transposes = true;
      if (!options_.operand_transposes) return false;
      out->insert({u.index, push(0, *operand_transpose, 0)});
      return true;
    }
    return false;
  }

  /// The order in which the user's kernel takes an operand; empty if it takes it as it is.
  static Dims operand_order(const Instruction& user, std::size_t k) {
    if (user.is(Opcode::reduce)) return reduce_order(user);
    for (const Instruction* side : user.operands()) {
      if (side->shape.dtype != user.shape.dtype) return {};
    }
    if (user.is(Opcode::dot)) {
      const DotPlan plan = dot_kernel(user);
      return plan.kernel ? (k == 0 ? plan.lhs : plan.rhs).transpose : Dims();
    }
    if (is_floating(user.shape.dtype) && byte_size(user.shape.dtype) < 4) return {};
    const ConvolutionPlan plan = convolution_kernel(user, user.shape.dtype);
    return plan.kernel ? (k == 0 ? plan.input : plan.filter) : Dims();
  }
  /// The transpose that makes that order; none if there is none to make.
  const Instruction* operand_transpose_of(const Instruction& user, std::size_t k) {
    const auto [it, added] = out_.operand_transposes.try_emplace({user.index, k});
    if (!added) return it->second.get();
    const Dims order = operand_order(user, k);
    if (order.empty()) return nullptr;
    it->second = synthetic_transpose(user.operand(k), order, next_synthetic_--);
    return it->second.get();
  }

  bool takes_programs(const Instruction& user) {
    const auto [it, added] = takes_programs_.try_emplace(user.index, false);
    if (added) {
      it->second = user.is(Opcode::reduce) ? reduce_takes_programs(user)
                                           : reduce_window_takes_programs(user);
    }
    return it->second;
  }
  /// A root that reads an element as often as windows take it in: it is no place to compute in.
  bool only_reads(const Context& c) const {
    return root_of(c.root).made->is(Opcode::reduce_window);
  }

  /// Views that are transposes alone.
  bool only_transposes(int stack) const {
    for (; stack != 0; stack = frames_[std::size_t(stack)].parent) {
      if (!frames_[std::size_t(stack)].view->is(Opcode::transpose)) return false;
    }
    return true;
  }

  /// How many times all of its elements would be computed.
  double repetitions(const Instruction& i, const Contexts& contexts) const {
    const auto all = std::max(1.0, double(i.shape.element_count()));
    double out = 0;
    for (const Context& c : contexts) {
      out += c.stack == 0 ? 1 : frames_[std::size_t(c.stack)].elements / all;
    }
    return out;
  }

  /// Whether it may be made in all these places.
  bool recompute(const Instruction& i, const Contexts& contexts) {
    if (contexts.size() <= kMaxRepeats) return recompute(i);
    const bool cheap = costs_at_most(i, kCheap, kCheapArrays, kShortChain);
    if (repetitions(i, contexts) > double(cheap ? kMaxReads : kMaxRepeats) ||
        !costs_at_most(i, kExpensive, kExpensiveArrays, kLongChain)) {
      return false;
    }
    out_.mattered.recompute_widely = true;
    return options_.recompute_widely && recompute(i);
  }
  /// Whether it may be made more than once.
  bool recompute(const Instruction& i) {
    if (costs_at_most(i, kCheap, kCheapArrays, kShortChain)) {
      out_.mattered.recompute = true;
      return options_.recompute;
    }
    if (costs_at_most(i, kExpensive, kExpensiveArrays, kShortChain)) {
      out_.mattered.recompute_expensive = true;
      return options_.recompute_expensive;
    }
    if (!costs_at_most(i, kExpensive, kExpensiveArrays, kLongChain)) return false;
    out_.mattered.recompute_long = true;
    return options_.recompute_long;
  }

  bool fits(const Instruction& i, bool loop, const Contexts& contexts) {
    if (loop) {
      for (const Context& c : contexts) {
        if (frames_[std::size_t(c.stack)].leaves_only || only_reads(c) ||
            classes(root_of(c.root).run_by->index) != classes(i.index) ||
            sizes_[c.root] >= kMaxOps || !reads(i, c.stack)) {
          return false;
        }
      }
      if (i.is(Opcode::concatenate) || i.is(Opcode::gather)) {
        const int stack = contexts.begin()->stack;
        return contexts.size() == 1 &&
               (stack == 0 || (i.is(Opcode::concatenate) && only_transposes(stack)));
      }
      return contexts.size() == 1 || recompute(i, contexts);
    }
    if (i.is(Opcode::iota)) {
      for (const Context& c : contexts) {
        if (c.stack != 0) return false;
      }
      return true;
    }
    if (i.is(Opcode::gather)) {
      // Finding the rows takes longer than reading them.
      if (contexts.size() > 1 || contexts.begin()->stack != 0 || only_reads(*contexts.begin()) ||
          !gathered_rows(i)) {
        return false;
      }
      out_.mattered.views = true;
      return options_.views;
    }
    const bool plain = i.is(Opcode::broadcast) || i.is(Opcode::reshape);
    if (!plain && (contexts.size() > kMaxReads || holds_much(i))) return false;
    out_.mattered.views |= !plain;
    if (!plain && !options_.views) return false;
    for (const Context& c : contexts) {
      if (i.is(Opcode::reshape) && c.stack == 0) continue;
      if (!options_.views && c.stack != 0) return false;
      const Instruction& root = *root_of(c.root).made;
      // Elsewhere it is done in place.
      if (i.is(Opcode::dynamic_update_slice) &&
          root.shape.element_count() * 2 > i.shape.element_count()) {
        return false;
      }
      for (std::size_t k = 0; k < i.operands().size(); ++k) {
        if (is_data_operand(i, k) && !reads(*i.operand(k), push(c.stack, i, k))) return false;
      }
    }
    return true;
  }

  /// A small part of an array that could go away otherwise.
  bool holds_much(const Instruction& i) const {
    if (!i.is(Opcode::slice) && !i.is(Opcode::dynamic_slice)) return false;
    const Instruction* source = i.operand(0);
    while (source->is(Opcode::reshape)) source = source->operand(0);
    if (is_view(*source) || source->is(Opcode::parameter) || known(*source) ||
        source->is(Opcode::get_tuple_element)) {
      return false;
    }
    std::int64_t read = 0;
    for (const Instruction* u : i.operand(0)->users()) {
      if (u->is(Opcode::slice) || u->is(Opcode::dynamic_slice)) read += u->shape.byte_count();
    }
    return 2 * read < source->shape.byte_count();
  }

  /// Whether a composed view can show this source through the views, and cheaply.
  bool reads(const Instruction& source, int stack) const {
    if (stack == 0) return true;
    Numbers numbers;
    ComposedView m = ComposedView::identity(0, source.shape.dims);
    std::size_t depth = 0, pieces = 1;
    for (int s = stack; s != 0; s = frames_[std::size_t(s)].parent) {
      const Frame& f = frames_[std::size_t(s)];
      if (f.view->is(Opcode::concatenate)) pieces *= f.view->operands().size();
      if (++depth > kMaxViews || pieces > kMaxPieces) return false;
      if (!apply_view(*f.view, std::size_t(f.operand), numbers, &m)) return false;
    }
    m.simplify();
    if (source.shape.byte_count() <= kSmall) return true;
    for (const ComposedView::Piece& p : m.pieces) {
      if (!p.sides.empty() && std::llabs(p.sides.back().stride) > 4) return false;
    }
    return true;
  }

  /// What takes no more time, and is made from no more arrays.
  bool costs_at_most(const Instruction& i, double most, int most_arrays, std::size_t chain) const {
    int arrays = 0;
    std::set<const Instruction*> seen;
    return cost(i, chain, &seen, &arrays) <= most && arrays <= most_arrays;
  }
  /// Of an element, up to what is surely in memory.
  double cost(const Instruction& i, std::size_t chain, std::set<const Instruction*>* seen,
              int* arrays) const {
    if (!seen->insert(&i).second || known(i) || i.shape.element_count() == 1) return 0;
    if (i.is(Opcode::iota)) return 0.3;
    if (i.is(Opcode::broadcast)) return i.operand(0)->shape.is_scalar() ? 0 : 0.3;
    const bool stored = seen->size() > 1 && stored_[std::size_t(i.index)];
    if (stored || !is_loop_op_[std::size_t(i.index)] || seen->size() > chain) {
      ++*arrays;
      return 0;
    }
    double out = operation_cost(i);
    for (const Instruction* o : i.operands()) out += cost(*o, chain, seen, arrays);
    return out;
  }

  const ir::Computation& computation_;
  const passes::UniformityFacts& facts_;
  const FusionOptions& options_;
  Fusion out_;
  std::vector<Contexts> contexts_;
  std::vector<bool> is_loop_op_;
  std::vector<bool> stored_;  ///< so many need it that it will not be made for each
  std::map<std::int64_t, bool> takes_programs_;
  std::int64_t next_synthetic_ = -1;  ///< index of the next instruction that is in no program
  std::map<std::pair<std::int64_t, std::size_t>, std::unique_ptr<Instruction>> part_transposes_;
  std::vector<Root> parts_;
  std::map<std::pair<std::int64_t, std::size_t>, std::int64_t> part_ids_;
  std::map<std::int64_t, int> sizes_;  // root → ops in its loop
  std::vector<Frame> frames_{Frame{}};
  std::map<std::tuple<std::int64_t, int, int>, int> ids_;
};

}  // namespace

bool keeps_count(const Instruction& broadcast) {
  return broadcast.is(Opcode::broadcast) &&
         broadcast.operand(0)->shape.element_count() == broadcast.shape.element_count();
}

Fusion fuse(const ir::Computation& computation, const passes::UniformityFacts& facts,
            const FusionOptions& options) {
  return Fuser(computation, facts, options).run();
}

}  // namespace tessera::codegen
