// SPDX-License-Identifier: Apache-2.0
// Reorders collectives with sums, moves and elementwise ops, and merges consecutive ones.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "src/ir/analysis/loop_invariance.h"
#include "src/spmd/collectives/collective_ops.h"
#include "src/spmd/collectives/groups.h"
#include "src/spmd/collectives/optimize.h"

namespace tessera::spmd {
namespace {

using ir::Instruction;
using ir::Opcode;

constexpr int kMaxReassociations = 12;

/// The op by which a collective reduces, if it is one of those that may be reordered.
std::optional<Opcode> reduction_of(const Instruction& i) {
  if (!i.is(Opcode::all_reduce) && !i.is(Opcode::reduce_scatter)) return std::nullopt;
  return ir::as_binary_reducer(*i.called().at(0));
}

/// Every device is sent something.
bool reaches_all(const Instruction& permute, std::int64_t devices) {
  const DevicePairs& pairs = permute.get<ir::PermuteAttrs>().source_target_pairs;
  return std::int64_t(pairs.size()) == devices && !pairs.facts().targets.twice;
}

class Reassociation {
 public:
  Reassociation(ir::Computation* c, GroupTable* groups) : r_(c), groups_(*groups) {}

  std::size_t run() {
    for (std::size_t n = 0; n < r_.size(); ++n) {
      Instruction* i = r_.at(n);
      if (!r_.untouched(i)) continue;
      if (ir::is_plain_collective(*i)) {
        in_a_row(i);
      } else if (ir::is_elementwise(i->opcode) && i->shape.is_array() &&
                 i->control_predecessors().empty()) {
        if (!sum(i) && !difference(i)) before_moving(i);
      }
    }
    return r_.finish();
  }

 private:
  // ----- what two collectives have to share to be one

  using Key = std::tuple<int, int, int, Dims, bool, DevicePairs>;
  /// The kind and who talks to whom, the shape of the operand aside.
  Key key_of(const Instruction& i) {
    DevicePairs pairs;
    int id = 0;
    Dims dims;
    bool channel = false;
    if (const auto* p = i.attrs.get_if<ir::PermuteAttrs>()) {
      pairs = p->source_target_pairs.sorted();
      channel = p->channel_id.has_value();
    } else {
      const auto& c = i.get<ir::CollectiveAttrs>();
      id = groups_.id(c.groups, !i.is(Opcode::all_reduce));
      dims = c.dims;
      channel = c.channel_id.has_value();
    }
    const auto op = reduction_of(i);
    return {int(i.opcode), op ? int(*op) : -1, id, dims, channel, pairs};
  }

  /// Down through ops that only move elements: the instruction that they move, `chain` from the
  /// last to the first.
  Instruction* through_moves(Instruction* i, std::vector<Instruction*>* chain) const {
    while (only_moves(*i) && r_.has_one_use(i)) {
      chain->push_back(i);
      i = i->operand(0);
    }
    return i;
  }
  static Instruction* move(ir::Builder& b, const std::vector<Instruction*>& chain, Instruction* x) {
    for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
      x = b.emit_shaped((*it)->opcode, (*it)->shape, {x}, (*it)->attrs);
    }
    return x;
  }

  // ----- one collective after another

  void in_a_row(Instruction* outer) {
    if (outer->is(Opcode::collective_permute)) return two_permutes(outer);
    Instruction* from = outer->operand(0);
    if (outer->is(Opcode::all_reduce)) return two_reductions(outer);
    if (!r_.has_one_use(from) || !ir::is_plain_collective(*from)) return;
    const auto& co = outer->get<ir::CollectiveAttrs>();
    if (outer->is(Opcode::all_gather) && from->is(Opcode::reduce_scatter)) {
      return scattered_and_gathered(outer, from);
    }
    if (from->opcode != outer->opcode) return;
    const auto& ci = from->get<ir::CollectiveAttrs>();
    if (ci.dims != co.dims || ci.channel_id.has_value() != co.channel_id.has_value()) return;
    std::optional<ir::DeviceGroups> groups;
    if (outer->is(Opcode::all_gather)) {
      groups = groups_.reached_over(ci.groups, co.groups, /*in_order=*/true);
    } else if (outer->is(Opcode::reduce_scatter)) {
      if (!reduction_of(*outer) || reduction_of(*outer) != reduction_of(*from)) return;
      groups = groups_.scattered_over(ci.groups, co.groups);
    }
    if (groups) {
      replace(outer, {from}, regrouped(r_.builder(outer), *outer, from->operand(0), *groups));
    }
  }

  void two_permutes(Instruction* outer) {
    Instruction* inner = outer->operand(0);
    const DevicePairs& second = outer->get<ir::PermuteAttrs>().source_target_pairs;
    if (second.all_stay(groups_.devices())) return replace(outer, {}, inner);
    if (!inner->is(Opcode::collective_permute) || !ir::is_plain_collective(*inner) ||
        !r_.has_one_use(inner)) {
      return;
    }
    const DevicePairs pairs = joined(inner->get<ir::PermuteAttrs>().source_target_pairs, second);
    if (pairs.empty()) return;  // all zeros; let it be
    Instruction* x = inner->operand(0);
    if (!pairs.all_stay(groups_.devices())) {
      x = same_collective(r_.builder(outer), *outer, {x}, outer->shape);
      x->edit<ir::PermuteAttrs>().source_target_pairs = pairs;
    }
    replace(outer, {inner}, x);
  }
  /// Of one permute after another. Few lists meet each other, and each may name many devices.
  const DevicePairs& joined(const DevicePairs& first, const DevicePairs& second) {
    const auto [it, fresh] = joined_.try_emplace({first.place(), second.place()});
    Joined& j = it->second;
    if (!fresh) return j.both;
    j.first = first;
    j.second = second;
    std::unordered_map<std::int64_t, std::int64_t> source;
    for (const auto& [s, t] : first) source[t] = s;
    std::vector<DevicePairs::Pair> pairs;
    for (const auto& [s, t] : second) {
      if (auto from = source.find(s); from != source.end()) pairs.emplace_back(from->second, t);
    }
    std::sort(pairs.begin(), pairs.end());
    j.both = DevicePairs(std::move(pairs));
    return j.both;
  }

  /// all-reduce(f(all-reduce(x))), f a move or a reduction by the same op.
  void two_reductions(Instruction* outer) {
    const auto op = reduction_of(*outer);
    if (!op) return;
    std::vector<Instruction*> chain;
    Instruction* i = outer->operand(0);
    for (;;) {
      if (!r_.has_one_use(i)) return;
      if (!only_moves(*i) && !reduces(*i, *op)) break;
      chain.push_back(i);
      i = i->operand(0);
    }
    if (!i->is(Opcode::all_reduce) || !ir::is_plain_collective(*i) || reduction_of(*i) != op)
      return;
    const auto &ci = i->get<ir::CollectiveAttrs>(), &co = outer->get<ir::CollectiveAttrs>();
    if (ci.channel_id.has_value() != co.channel_id.has_value()) return;
    auto groups = groups_.reached_over(ci.groups, co.groups, /*in_order=*/false);
    if (!groups) return;
    ir::Builder& b = r_.builder(outer);
    Instruction* x = i->operand(0);
    for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
      std::vector<Instruction*> operands = (*it)->operands();
      operands[0] = x;
      x = b.emit_shaped((*it)->opcode, (*it)->shape, operands, (*it)->attrs, (*it)->called());
    }
    chain.push_back(i);
    replace(outer, chain, regrouped(b, *outer, x, *groups));
  }
  static bool reduces(const Instruction& i, Opcode op) {
    if (!i.is(Opcode::reduce) || i.operands().size() != 2) return false;
    if (ir::as_binary_reducer(*i.called().at(0)) != op) return false;
    const Instruction* init = i.operand(1);
    if (!init->is(Opcode::constant) || init->get<ir::ConstantAttrs>().elided) return false;
    const auto neutral = ir::identity_of(op, i.shape.dtype);
    return neutral && init->get<ir::ConstantAttrs>().value == *neutral;
  }

  void scattered_and_gathered(Instruction* gather, Instruction* scatter) {
    const auto &g = gather->get<ir::CollectiveAttrs>(), &s = scatter->get<ir::CollectiveAttrs>();
    if (g.dims != s.dims || groups_.id(g.groups, true) != groups_.id(s.groups, true) ||
        g.channel_id.has_value() != s.channel_id.has_value()) {
      return;
    }
    ir::CollectiveAttrs attrs = s;
    attrs.dims.clear();
    if (attrs.channel_id) attrs.channel_id = ir::next_channel_id(r_.computation()->module());
    Instruction* x = r_.builder(scatter).emit(Opcode::all_reduce, {scatter->operand(0)},
                                              std::move(attrs), scatter->called());
    replace(gather, {scatter}, x);
  }

  // ----- sums of reductions

  struct Leaf {
    Instruction* value = nullptr;
    std::vector<Instruction*> chain;
    Instruction* collective = nullptr;  ///< that reduces by the op; null: something else
  };
  Leaf leaf_of(Instruction* value, Opcode op) const {
    Leaf leaf{value, {}, nullptr};
    std::vector<Instruction*> chain;
    Instruction* i = through_moves(value, &chain);
    if (!ir::is_plain_collective(*i) || !r_.has_one_use(i) || reduction_of(*i) != op) return leaf;
    // A part of a scattered array is another one once it is moved.
    if (i->is(Opcode::reduce_scatter) && !chain.empty()) return leaf;
    leaf.chain = std::move(chain);
    leaf.collective = i;
    return leaf;
  }

  /// a + all-reduce(x) + all-reduce(y) = a + all-reduce(x + y)
  bool sum(Instruction* top) {
    const Opcode op = top->opcode;
    if (!ir::has_trait(op, ir::traits::associative)) return false;
    // From the last addition of a tree only.
    if (r_.has_one_use(top) && r_.users(top)[0]->is(op)) return false;
    std::vector<Leaf> leaves;
    std::vector<Instruction*> inner, work{top};
    constexpr std::size_t most = 256;
    while (!work.empty() && leaves.size() < most) {
      Instruction* i = work.back();
      work.pop_back();
      if (i != top) inner.push_back(i);
      for (Instruction* o : i->operands()) {
        if (o->is(op) && r_.has_one_use(o) && o->shape == i->shape) {
          work.push_back(o);
        } else {
          leaves.push_back(leaf_of(o, op));
        }
      }
    }
    if (!work.empty()) return false;
    std::map<Key, std::vector<std::size_t>> by_kind;
    for (std::size_t n = 0; n < leaves.size(); ++n) {
      if (leaves[n].collective) by_kind[key_of(*leaves[n].collective)].push_back(n);
    }
    std::erase_if(by_kind, [](const auto& a) { return a.second.size() < 2; });
    if (by_kind.empty()) return false;
    ir::Builder& b = r_.builder(top);
    std::vector<char> done(leaves.size(), 0);
    std::vector<Instruction*> terms, touched = inner;
    std::vector<Instruction*> reduced;
    for (const auto& [key, members] : by_kind) {
      Instruction* all = nullptr;
      for (const std::size_t n : members) {
        const Leaf& leaf = leaves[n];
        done[n] = 1;
        touched.insert(touched.end(), leaf.chain.begin(), leaf.chain.end());
        touched.push_back(leaf.collective);
        Instruction* x = move(b, leaf.chain, leaf.collective->operand(0));
        all = all ? b.binary(op, all, x) : x;
      }
      b.metadata = leaves[members[0]].collective->metadata;
      reduced.push_back(same_collective(b, *leaves[members[0]].collective, {all},
                                        leaves[members[0]].value->shape));
      b.metadata = top->metadata;
    }
    for (std::size_t n = 0; n < leaves.size(); ++n) {
      if (!done[n]) terms.push_back(leaves[n].value);
    }
    terms.insert(terms.end(), reduced.begin(), reduced.end());
    Instruction* total = terms[0];
    for (std::size_t n = 1; n < terms.size(); ++n) total = b.binary(op, total, terms[n]);
    replace(top, touched, total);
    return true;
  }

  bool difference(Instruction* i) {
    if (!i->is(Opcode::subtract) || i->operand(0) == i->operand(1)) return false;
    Leaf x = leaf_of(i->operand(0), Opcode::add), y = leaf_of(i->operand(1), Opcode::add);
    if (!x.collective || !y.collective || key_of(*x.collective) != key_of(*y.collective)) {
      return false;
    }
    ir::Builder& b = r_.builder(i);
    Instruction* d = b.binary(Opcode::subtract, move(b, x.chain, x.collective->operand(0)),
                              move(b, y.chain, y.collective->operand(0)));
    Instruction* all = same_collective(b, *x.collective, {d}, i->shape);
    std::vector<Instruction*> touched = {x.collective, y.collective};
    touched.insert(touched.end(), x.chain.begin(), x.chain.end());
    touched.insert(touched.end(), y.chain.begin(), y.chain.end());
    replace(i, touched, all);
    return true;
  }

  // ----- elementwise ops before the move instead of after it

  /// A number that all devices have.
  bool splat(const Instruction& i) const {
    if (i.shape.rank() == 0) return i.is(Opcode::constant);
    return i.is(Opcode::broadcast) && i.operand(0)->is(Opcode::constant) &&
           i.operand(0)->shape.rank() == 0;
  }

  void before_moving(Instruction* i) {
    if (i->is(Opcode::bitcast_convert) || i->is(Opcode::stochastic_convert) ||
        i->is(Opcode::reduce_precision)) {
      return;
    }
    Instruction* first = nullptr;
    std::vector<Instruction*> moves;
    std::optional<Key> key;
    std::int64_t bytes = 0;
    for (Instruction* o : i->operands()) {
      if (splat(*o)) continue;
      if (!ir::is_plain_collective(*o) || !r_.has_one_use(o) || !moves_whole(*o)) return;
      if (o->shape.dims != i->shape.dims) return;
      if (!key) {
        key = key_of(*o);
        first = o;
      } else if (*key != key_of(*o) || o->operand(0)->shape.dims != first->operand(0)->shape.dims) {
        return;
      }
      moves.push_back(o);
      bytes += o->shape.byte_count();
    }
    // One move of no more bytes for several; or of fewer, where a type is narrowed.
    const std::int64_t after = i->shape.byte_count();
    if (moves.empty() || (moves.size() == 1 ? after >= bytes : after > bytes)) return;
    if (moves.size() == 1 && !i->is(Opcode::convert)) return;
    const Dims& part = first->operand(0)->shape.dims;
    ir::Builder& b = r_.builder(i);
    std::vector<Instruction*> operands;
    for (Instruction* o : i->operands()) {
      if (o->shape.rank() == 0) {
        operands.push_back(o);
      } else if (splat(*o)) {
        operands.push_back(b.splat(o->operand(0), part));
      } else {
        operands.push_back(o->operand(0));
      }
    }
    const Shape shape(i->shape.dtype, part);
    Instruction* x = emit_like(b, *i, std::move(operands), &shape);
    b.metadata = first->metadata;
    replace(i, moves, same_collective(b, *first, {x}, i->shape));
  }
  /// Each element of the result is one of the operand's, of some device.
  bool moves_whole(const Instruction& i) const {
    switch (i.opcode) {
      case Opcode::all_gather:
        return true;
      case Opcode::all_to_all:
        return !i.get<ir::CollectiveAttrs>().dims.empty();
      case Opcode::collective_permute:
        return reaches_all(i, groups_.devices());
      default:
        return false;
    }
  }

  void replace(Instruction* from, const std::vector<Instruction*>& gone, Instruction* to) {
    for (Instruction* g : gone) r_.touch(g);
    r_.replace(from, to);
  }

  ir::Rewriter r_;
  GroupTable& groups_;
  struct Joined {
    DevicePairs first, second, both;  ///< the first two are kept: others must not stand there
  };
  std::map<std::pair<const void*, const void*>, Joined> joined_;
};

}  // namespace

std::size_t reassociate_collectives(ir::Module* module) {
  GroupTable groups(module->num_partitions);
  return run_to_fixed_point(module, kMaxReassociations, communicates,
                            [&](ir::Computation* c) { return Reassociation(c, &groups).run(); });
}

}  // namespace tessera::spmd
