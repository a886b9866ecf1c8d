// SPDX-License-Identifier: Apache-2.0
// Chooses which instructions are computed inside the loop of their user instead of in memory.
#include "src/codegen/fusion/fusion.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "src/codegen/fusion/fusion_survey.h"
#include "src/codegen/kernels/expressions/composed_view.h"
#include "src/codegen/kernels/expressions/loop_expr.h"
#include "src/codegen/kernels/indexed/gather.h"
#include "src/codegen/kernels/prices.h"

namespace tessera::codegen {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Of one loop.
constexpr int kMaxOps = 256;
/// So often may a view be read.
constexpr std::size_t kMaxReads = 6;
/// A chain of views, and the boxes of a composed view: each row looks at all of them.
constexpr std::size_t kMaxViews = 16, kMaxPieces = 12;

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

using Survey = FusionPlanner::Survey;

class Fuser {
 public:
  Fuser(Survey* survey, const FusionOptions& options, FusionOptions* mattered)
      : survey_(*survey),
        computation_(survey->computation),
        facts_(survey->facts),
        options_(options),
        mattered_(*mattered) {
    const auto n = computation_.instructions().size();
    out_.inlined.assign(n, false);
    loops_.assign(n, false);
    out_.fuses_producers.assign(n, false);
    contexts_.resize(n);
  }

  Fusion run() {
    const auto& list = computation_.instructions();
    for (std::size_t n = list.size(); n-- > 0;) {
      const Instruction& i = *list[n];
      if (!i.shape.is_array() || known(i)) continue;
      const bool parts = has_parts(i);
      const bool loop = survey_.is_loop_op[n] || parts;
      if (!loop && !is_view(i) && !i.is(Opcode::iota) && !i.is(Opcode::gather)) continue;
      if (computation_.root() != &i) {
        if (auto contexts = offered(i); contexts && fits(i, loop, *contexts)) {
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
        loops_[n] = true;
        out_.fuses_producers[n] = parts;
        ++sizes_[i.index];
        contexts_[n] = {{i.index, 0}};
      }
    }
    settle();
    return std::move(out_);
  }

 private:
  /// A view, or dims in another order.
  struct Frame {
    const Instruction* view = nullptr;
    const Dims* order = nullptr;
    int operand = 0, parent = 0;
    bool leaves_only = false;  ///< what it shows is no place to compute in
    double elements = 0;       ///< that the root reads through it
  };

  bool known(const Instruction& i) const { return survey_.known(i); }
  /// Parts that turned out to be in memory are read there; orders are those of what is inlined.
  void settle() {
    for (std::size_t n = 0; n < out_.inlined.size(); ++n) {
      if (!out_.fuses_producers[n]) continue;
      const Instruction& i = *computation_.instructions()[n];
      bool any = false;
      for (std::size_t k = 0; k < i.operands().size(); ++k) {
        any = any || (out_.is_part(i, k) && out_.inlined[std::size_t(i.operand(k)->index)]);
      }
      if (any) continue;
      out_.fuses_producers[n] = false;
      loops_[n] = false;
    }
    std::erase_if(out_.operand_orders, [&](const auto& item) {
      const auto& [user, k] = item.first;
      const Instruction& i = *computation_.instructions()[std::size_t(user)];
      return !out_.inlined[std::size_t(i.operand(k)->index)];
    });
  }
  /// A concatenation one of whose parts is computed for it, or a gather whose indices are, or are
  /// put together for it.
  bool has_parts(const Instruction& i) {
    const bool gathers = i.is(Opcode::gather);
    if (!i.is(Opcode::concatenate) && !(gathers && indices_in_order(i))) return false;
    if (survey_.is_loop_op[Survey::at(i)]) return false;
    for (std::size_t k = gathers ? 1 : 0; k < i.operands().size(); ++k) {
      const Instruction* made = i.operand(k);
      while (uses(*made) == 1 && !known(*made) &&
             (made->is(Opcode::reshape) || made->is(Opcode::broadcast))) {
        made = made->operand(0);
      }
      if (known(*made)) continue;
      const bool computed = survey_.is_loop_op[std::size_t(made->index)] &&
                            (uses(*made) == 1 || (uses(*made) <= kMaxRepeats && recompute(*made)));
      const bool joined = gathers && made->is(Opcode::concatenate) && uses(*made) == 1;
      if (!computed && !joined) continue;
      mattered_.parts = true;
      return options_.parts;
    }
    return false;
  }
  std::size_t uses(const Instruction& i) const { return survey_.users[Survey::at(i)].size(); }

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
    Dims& seen = part_orders_[{user.index, k}];
    if (seen.empty()) {
      seen = identity_order(user.shape.rank());
      for (; stack != 0; stack = frames_[std::size_t(stack)].parent) {
        const Frame& f = frames_[std::size_t(stack)];
        seen = reordered(seen, f.order ? *f.order : f.view->get<ir::DimensionsAttrs>().dims);
      }
    }
    return push_order(seen, *user.operand(k));
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
      frames_.push_back({&view, nullptr, int(operand), parent, !passes || outer.leaves_only,
                         parent == 0 ? double(view.shape.element_count()) : outer.elements});
    }
    return it->second;
  }
  /// The order is found again by its address.
  int push_order(const Dims& order, const Instruction& of) {
    const auto [it, added] = order_ids_.try_emplace(&order, int(frames_.size()));
    if (added) frames_.push_back({nullptr, &order, 0, 0, false, double(of.shape.element_count())});
    return it->second;
  }

  /// The contexts in which the users would make it; none if one of them needs it in memory.
  std::optional<Contexts> offered(const Instruction& i) {
    Contexts out;
    for (const Instruction* user : survey_.users[Survey::at(i)]) {
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
    if (out_.inlined[n] || loops_[n]) {
      if (u.is(Opcode::gather) && (k == 0 || !survey_.is_loop_op[n])) return false;
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
      mattered_.views = true;
      if (!options_.views) return false;
      out->insert({u.index, push(0, u, k)});
      return true;
    }
    if (u.is(Opcode::reduce) && k < u.operands().size() / 2 && survey_.takes_programs(u)) {
      out->insert({u.index, 0});
      return true;
    }
    if (u.is(Opcode::reduce_window) && k == 0 && survey_.takes_programs(u)) {
      out->insert({u.index, 0});
      return true;
    }
    if (u.is(Opcode::dot) || u.is(Opcode::convolution) ||
        (u.is(Opcode::reduce) && k < u.operands().size() / 2)) {
      const Dims& order = survey_.order_of(u, k);
      if (order.empty()) return false;
      mattered_.operand_transposes = true;
      if (!options_.operand_transposes) return false;
      out_.operand_orders[{u.index, k}] = order;
      out->insert({u.index, push_order(order, i)});
      return true;
    }
    return false;
  }

  /// A root that reads an element as often as windows take it in: it is no place to compute in.
  bool only_reads(const Context& c) const {
    return root_of(c.root).made->is(Opcode::reduce_window);
  }

  /// Views that are transposes alone.
  bool only_transposes(int stack) const {
    for (; stack != 0; stack = frames_[std::size_t(stack)].parent) {
      const Frame& f = frames_[std::size_t(stack)];
      if (!f.order && !f.view->is(Opcode::transpose)) return false;
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

  /// Whether each of these places sees a part of its own, so that no element is made twice.
  bool in_parts(const Instruction& i, const Contexts& contexts) {
    const bool parts = contexts.size() <= kMaxReads && repetitions(i, contexts) <= 1 &&
                       std::all_of(contexts.begin(), contexts.end(),
                                   [](const Context& c) { return c.stack != 0; });
    mattered_.views |= parts;
    return parts && options_.views;
  }

  /// Whether it may be made in all these places.
  bool recompute(const Instruction& i, const Contexts& contexts) {
    using namespace prices::fusion;
    if (contexts.size() <= kMaxRepeats) return recompute(i);
    const bool cheap = survey_.costs_at_most(i, kCheap, kCheapArrays, kShortChain);
    if (repetitions(i, contexts) > double(cheap ? kMaxReads : kMaxRepeats) ||
        !survey_.costs_at_most(i, kExpensive, kExpensiveArrays, kLongChain)) {
      return false;
    }
    mattered_.recompute_widely = true;
    return options_.recompute_widely && recompute(i);
  }
  /// Whether it may be made more than once.
  bool recompute(const Instruction& i) {
    using namespace prices::fusion;
    if (survey_.costs_at_most(i, kCheap, kCheapArrays, kShortChain)) {
      mattered_.recompute = true;
      return options_.recompute;
    }
    if (survey_.costs_at_most(i, kExpensive, kExpensiveArrays, kShortChain)) {
      mattered_.recompute_expensive = true;
      return options_.recompute_expensive;
    }
    if (!survey_.costs_at_most(i, kExpensive, kExpensiveArrays, kLongChain)) return false;
    mattered_.recompute_long = true;
    return options_.recompute_long;
  }

  /// Whether a value is made by the devices that run `root`: by those that make it, or, if it takes
  /// less than to read it, once more by each.
  bool run_by_those_of(const Instruction& i, const Instruction& root) const {
    return classes(root.index) == classes(i.index) ||
           survey_.costs_at_most(i, prices::fusion::kCheaperThanReading, 0, kShortChain);
  }

  bool fits(const Instruction& i, bool loop, const Contexts& contexts) {
    if (loop) {
      for (const Context& c : contexts) {
        if (frames_[std::size_t(c.stack)].leaves_only || only_reads(c) ||
            !run_by_those_of(i, *root_of(c.root).run_by) || sizes_[c.root] >= kMaxOps ||
            !reads(i, c.stack)) {
          return false;
        }
      }
      if (!survey_.is_loop_op[Survey::at(i)]) {
        const int stack = contexts.begin()->stack;
        return contexts.size() == 1 &&
               (stack == 0 || (i.is(Opcode::concatenate) && only_transposes(stack)));
      }
      return contexts.size() == 1 || in_parts(i, contexts) || recompute(i, contexts);
    }
    if (i.is(Opcode::iota)) {
      return std::all_of(contexts.begin(), contexts.end(),
                         [&](const Context& c) { return is_affine(i, c.stack); });
    }
    if (i.is(Opcode::gather)) {
      // Finding the rows takes longer than reading them.
      if (contexts.size() > 1 || contexts.begin()->stack != 0 || only_reads(*contexts.begin()) ||
          !gathered_rows(i)) {
        return false;
      }
      mattered_.views = true;
      return options_.views;
    }
    const bool plain = i.is(Opcode::broadcast) || i.is(Opcode::reshape);
    if (!plain && (contexts.size() > kMaxReads || holds_much(i))) return false;
    mattered_.views |= !plain;
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

  /// Whether the numbers of an iota, seen through the views, are sums of multiples of coordinates.
  bool is_affine(const Instruction& iota, int stack) const {
    if (stack == 0) return true;
    if (frames_[std::size_t(stack)].leaves_only || !LoopBuilder::has_affine_iotas(iota.shape)) {
      return false;
    }
    ComposedView m = ComposedView::numbers(iota.shape.dims, iota.get<ir::IotaAttrs>().dim);
    if (!seen_through(stack, &m)) return false;
    return m.is_moved_box() && m.pieces[0].starts.empty();
  }

  /// Whether a composed view can show this source through the views, and cheaply.
  bool reads(const Instruction& source, int stack) const {
    if (stack == 0) return true;
    ComposedView m = ComposedView::identity(0, source.shape.dims);
    if (!seen_through(stack, &m)) return false;
    if (source.shape.byte_count() <= prices::fusion::kSmall) return true;
    for (const ComposedView::Piece& p : m.pieces) {
      if (!p.sides.empty() && std::llabs(p.sides.back().stride) > prices::fusion::kMostApart)
        return false;
    }
    return true;
  }

  bool seen_through(int stack, ComposedView* m) const {
    Numbers numbers;
    std::size_t depth = 0, pieces = 1;
    for (int s = stack; s != 0; s = frames_[std::size_t(s)].parent) {
      const Frame& f = frames_[std::size_t(s)];
      if (f.view && f.view->is(Opcode::concatenate)) pieces *= f.view->operands().size();
      if (++depth > kMaxViews || pieces > kMaxPieces) return false;
      if (!(f.order ? apply_transpose(*f.order, m)
                    : apply_view(*f.view, std::size_t(f.operand), numbers, m))) {
        return false;
      }
    }
    m->simplify();
    return true;
  }

  Survey& survey_;
  const ir::Computation& computation_;
  const passes::UniformityFacts& facts_;
  const FusionOptions& options_;
  FusionOptions& mattered_;
  Fusion out_;
  std::vector<bool> loops_;  ///< elementwise ops, and what `fuses_producers`, that end a loop
  std::vector<Contexts> contexts_;
  ByOperand<Dims> part_orders_;
  std::vector<Root> parts_;
  ByOperand<std::int64_t> part_ids_;
  std::map<std::int64_t, int> sizes_;  // root → ops in its loop
  std::vector<Frame> frames_{Frame{}};
  std::map<std::tuple<std::int64_t, int, int>, int> ids_;
  std::map<const Dims*, int> order_ids_;  // looked up, never walked
};

}  // namespace

bool keeps_count(const Instruction& broadcast) {
  return broadcast.is(Opcode::broadcast) &&
         broadcast.operand(0)->shape.element_count() == broadcast.shape.element_count();
}

bool is_compile_time_constant(const Instruction& i, const std::vector<passes::LeafFacts>& leaves) {
  if (leaves.empty() || ir::has_side_effect(i.opcode)) return false;
  return std::all_of(leaves.begin(), leaves.end(),
                     [](const passes::LeafFacts& leaf) { return leaf.known != nullptr; });
}

std::optional<Literal> splat_element(const passes::LeafFacts& facts) {
  const auto& known = facts.known;
  if (!known || known->size() != 1 || (*known)[0].element_count() == 0) return std::nullopt;
  const Literal& all = (*known)[0];
  const std::size_t size = byte_size(all.dtype());
  if (all.byte_count() > size &&
      std::memcmp(all.bytes(), all.bytes() + size, all.byte_count() - size) != 0) {
    return std::nullopt;
  }
  return Literal(Shape(all.dtype(), {}), {all.bytes(), size});
}

FusionPlanner::FusionPlanner(const ir::Module& module, const passes::UniformityFacts& facts) {
  for_each_run(*module.entry(), facts,
               [&](const ir::Computation& c, const passes::UniformityFacts& run) {
                 surveys_.push_back(std::make_unique<Survey>(c, run));
               });
}
FusionPlanner::~FusionPlanner() = default;

FusionPlan FusionPlanner::plan(const FusionOptions& options) {
  FusionPlan out;
  for (const auto& survey : surveys_) {
    out.runs[&survey->facts] = Fuser(survey.get(), options, &out.mattered).run();
  }
  return out;
}

}  // namespace tessera::codegen
