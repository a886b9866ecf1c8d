// SPDX-License-Identifier: Apache-2.0
// Layout assignment, as transposes: dims of arrays that depend on each other element by element
// are given numbers, and an order of these numbers is looked for in which dots make and take the
// arrays as they stand. Dims of one are nowhere in it: they are put in front.
#include "src/passes/unify_dim_orders.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/contains.h"
#include "src/ir/analysis/layouts.h"
#include "src/ir/rewrite/rewriter.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Smaller arrays may be moved.
constexpr std::int64_t kFewElements = 4096;
/// Arrays that are looked at together.
constexpr std::size_t kMost = 400;

/// Of each dim: its number in the group; -1: it has one element.
using Ids = std::vector<int>;

bool moves_nothing(const Dims& shape, const Dims& perm) {
  std::int64_t last = -1;
  for (const std::int64_t d : perm) {
    if (shape[std::size_t(d)] == 1) continue;
    if (d < last) return false;
    last = d;
  }
  return true;
}

Dims permuted(const Dims& dims, const Dims& perm) {
  Dims out;
  for (const std::int64_t d : perm) out.push_back(dims[std::size_t(d)]);
  return out;
}

Dims free_dims(const Instruction& dot, std::size_t k) {
  const auto& a = dot.get<ir::DotAttrs>();
  Dims out;
  for (std::int64_t d = 0; d < dot.operand(k)->shape.rank(); ++d) {
    const Dims& batch = k == 0 ? a.lhs_batch : a.rhs_batch;
    const Dims& contracting = k == 0 ? a.lhs_contracting : a.rhs_contracting;
    if (!contains(batch, d) && !contains(contracting, d)) out.push_back(d);
  }
  return out;
}

/// Ids of some dims of an array that has these.
Ids at(const Ids& ids, const Dims& dims) {
  Ids out;
  for (const std::int64_t d : dims) out.push_back(ids[std::size_t(d)]);
  return out;
}

/// Arrays that depend on each other element by element, from a dot on.
class Group {
 public:
  explicit Group(Instruction* dot) {
    Ids ids;
    for (std::int64_t d = 0; d < dot->shape.rank(); ++d) {
      ids.push_back(dot->shape.dim(d) == 1 ? -1 : count_++);
    }
    assign(dot, std::move(ids));
    for (std::size_t k = 0; k < queue_.size() && fits_; ++k) spread(queue_[k]);
    std::sort(queue_.begin(), queue_.end(),
              [](const Instruction* a, const Instruction* b) { return a->index < b->index; });
  }

  bool fits() const { return fits_; }
  int count() const { return count_; }
  const std::vector<Instruction*>& members() const { return queue_; }
  const Ids* ids(const Instruction* i) const {
    const auto it = ids_.find(i);
    return it == ids_.end() ? nullptr : &it->second;
  }

 private:
  void assign(Instruction* i, Ids ids) {
    if (!i->shape.is_array() || !i->control_predecessors().empty() ||
        !i->control_successors().empty()) {
      return;
    }
    if (std::all_of(ids.begin(), ids.end(), [](int id) { return id < 0; })) return;
    const auto [it, added] = ids_.emplace(i, ids);
    if (!added) {
      fits_ = fits_ && it->second == ids;
      return;
    }
    queue_.push_back(i);
    fits_ = fits_ && queue_.size() <= kMost;
  }

  static bool is_rowwise(const Instruction& reduce) {
    return reduce.is(Opcode::reduce) && reduce.operands().size() == 2 && reduce.shape.is_array();
  }

  void spread(Instruction* i) {
    const Ids ids = ids_.at(i);
    for (Instruction* user : i->users()) {
      if (ir::is_elementwise(user->opcode) && user->shape.is_array() &&
          user->shape.dims == i->shape.dims) {
        assign(user, ids);
      } else if (user->is(Opcode::transpose)) {
        assign(user, at(ids, user->get<ir::DimensionsAttrs>().dims));
      } else if (user->is(Opcode::reshape)) {
        if (auto of_user = without_ones(ids, user->shape)) assign(user, *std::move(of_user));
      } else if (is_rowwise(*user) && user->operand(0) == i) {
        Ids rest;
        for (std::size_t d = 0; d < ids.size(); ++d) {
          const Dims& reduced = user->get<ir::DimensionsAttrs>().dims;
          if (!contains(reduced, std::int64_t(d))) rest.push_back(ids[d]);
        }
        assign(user, std::move(rest));
      } else if (user->is(Opcode::broadcast) && ids_.count(user) != 0) {
        assign(i, at(ids_.at(user), user->get<ir::DimensionsAttrs>().dims));
      }
    }
    if (ir::is_elementwise(i->opcode)) {
      for (Instruction* o : i->operands()) {
        if (o->shape.dims == i->shape.dims) assign_if_made(o, ids);
      }
    } else if (i->is(Opcode::transpose)) {
      assign_if_made(i->operand(0), at(ids, ir::inverse_order(i->get<ir::DimensionsAttrs>().dims)));
    } else if (i->is(Opcode::reshape)) {
      if (auto of_it = without_ones(ids, i->operand(0)->shape)) {
        assign_if_made(i->operand(0), *std::move(of_it));
      }
    } else if (i->is(Opcode::broadcast)) {
      assign_if_made(i->operand(0), at(ids, i->get<ir::DimensionsAttrs>().dims));
    }
  }

  /// What makes nothing of it is moved as it is.
  void assign_if_made(Instruction* o, Ids ids) {
    const bool made = ir::is_elementwise(o->opcode) || o->is(Opcode::transpose) ||
                      o->is(Opcode::broadcast) || o->is(Opcode::iota) ||
                      (o->is(Opcode::dot) && is_floating(o->shape.dtype)) || o->is(Opcode::reshape);
    if (!made && ids_.count(o) == 0) return;
    if (o->is(Opcode::reshape) && !without_ones(ids, o->operand(0)->shape)) return;
    assign(o, std::move(ids));
  }

  /// Of an array that has the same dims but for those of one.
  static std::optional<Ids> without_ones(const Ids& ids, const Shape& shape) {
    std::vector<int> rest;
    for (const int id : ids) {
      if (id >= 0) rest.push_back(id);
    }
    Ids out;
    std::size_t next = 0;
    for (const std::int64_t size : shape.dims) {
      if (size != 1 && next == rest.size()) return std::nullopt;
      out.push_back(size == 1 ? -1 : rest[next++]);
    }
    if (next != rest.size()) return std::nullopt;
    return out;
  }

  int count_ = 0;
  bool fits_ = true;
  std::unordered_map<const Instruction*, Ids> ids_;
  std::vector<Instruction*> queue_;
};

bool same_sizes(const Group& group) {
  std::vector<std::int64_t> sizes(std::size_t(group.count()), -1);
  for (const Instruction* i : group.members()) {
    const Ids& ids = *group.ids(i);
    for (std::size_t d = 0; d < ids.size(); ++d) {
      if (ids[d] < 0) continue;
      std::int64_t& size = sizes[std::size_t(ids[d])];
      if (size >= 0 && size != i->shape.dims[d]) return false;
      size = i->shape.dims[d];
    }
  }
  return true;
}

/// A group with an order of its numbers.
class Ordered {
 public:
  Ordered(const Group& group, const Ids& order) : group_(group), rank_(std::size_t(group.count())) {
    for (std::size_t k = 0; k < order.size(); ++k) rank_[std::size_t(order[k])] = int(k);
  }

  /// Dims of an array with these numbers, in the order: those of one first.
  Dims order_of(const Ids& ids) const {
    Dims out(ids.size());
    std::iota(out.begin(), out.end(), 0);
    std::stable_sort(out.begin(), out.end(), [&](std::int64_t a, std::int64_t b) {
      return rank(ids[std::size_t(a)]) < rank(ids[std::size_t(b)]);
    });
    return out;
  }
  Dims order_of(const Instruction& member) const { return order_of(*group_.ids(&member)); }

  /// Places of dims of one operand after each other, as its member (or the operand itself) has it.
  Dims places(const Instruction& operand, const Dims& dims) const {
    const Ids* ids = group_.ids(&operand);
    if (ids == nullptr) return dims;
    const Dims now = ir::inverse_order(order_of(*ids));
    return permuted(now, dims);
  }

  /// Whether a dot takes operand `k` as it stands: batch dims, then the others in two pieces.
  bool takes(const Instruction& dot, std::size_t k) const {
    const auto& a = dot.get<ir::DotAttrs>();
    const Instruction& o = *dot.operand(k);
    const Dims& batch = k == 0 ? a.lhs_batch : a.rhs_batch;
    const Dims& contracting = k == 0 ? a.lhs_contracting : a.rhs_contracting;
    int last_kind = 0, changes = 0;
    const Dims order = group_.ids(&o) != nullptr ? order_of(o) : Dims();
    for (const std::int64_t d : order) {
      if (o.shape.dim(d) == 1) continue;
      const int kind = contains(batch, d) ? 0 : contains(contracting, d) ? 1 : 2;
      if (kind == 0 && last_kind != 0) return false;
      changes += last_kind != 0 && kind != last_kind;
      last_kind = kind;
    }
    return changes <= 1;
  }

  /// Which operand's dims come first in what a dot makes; nothing if it can't be in that order.
  std::optional<std::size_t> first_operand(const Instruction& dot) const {
    const auto batch = std::int64_t(dot.get<ir::DotAttrs>().lhs_batch.size());
    const std::int64_t own = std::int64_t(free_dims(dot, 0).size());
    int last_kind = 0, changes = 0, first = 0;
    for (const std::int64_t d : order_of(dot)) {
      if (dot.shape.dim(d) == 1) continue;
      const int kind = d < batch ? 0 : d < batch + own ? 1 : 2;
      if (kind == 0 && last_kind != 0) return std::nullopt;
      if (first == 0) first = kind;
      changes += last_kind != 0 && kind != last_kind;
      last_kind = kind;
    }
    if (changes > 1) return std::nullopt;
    return first == 2 ? 1 : 0;
  }

  /// Elements that are moved.
  double moved() const {
    double out = 0;
    for (const Instruction* i : group_.members()) {
      const auto elements = double(i->shape.element_count());
      const bool as_it_was = moves_nothing(i->shape.dims, order_of(*i));
      if (i->is(Opcode::dot) && !first_operand(*i)) out += elements;
      bool leaves = i->parent->root() == i;
      for (const Instruction* user : i->users()) {
        if (user->is(Opcode::dot)) {
          for (std::size_t k = 0; k < 2; ++k) {
            if (user->operand(k) == i && !takes(*user, k)) out += elements;
          }
        } else {
          leaves = leaves || group_.ids(user) == nullptr;
        }
      }
      if (leaves && !as_it_was) out += elements;
      if (i->is(Opcode::dot)) continue;
      for (const Instruction* o : i->operands()) {
        if (group_.ids(o) != nullptr || o->shape.rank() == 0) continue;
        const Dims perm = order_of_operand(*i, *o);
        if (!moves_nothing(o->shape.dims, perm)) out += double(o->shape.element_count());
      }
    }
    return out;
  }

  /// The dims of a member's operand, in the order in which it takes them.
  Dims order_of_operand(const Instruction& i, const Instruction& o) const {
    const Ids& ids = *group_.ids(&i);
    if (i.is(Opcode::transpose)) {
      return permuted(i.get<ir::DimensionsAttrs>().dims, order_of(ids));
    }
    if (i.is(Opcode::broadcast)) return order_of(at(ids, i.get<ir::DimensionsAttrs>().dims));
    if (o.shape.dims == i.shape.dims) return order_of(ids);
    Dims same(std::size_t(o.shape.rank()));
    std::iota(same.begin(), same.end(), 0);
    return same;
  }

 private:
  int rank(int id) const { return id < 0 ? -1 : rank_[std::size_t(id)]; }

  const Group& group_;
  std::vector<int> rank_;
};

/// Elements that are moved by the group as it stands.
double moved_now(const Group& group) {
  double out = 0;
  const auto stands = [](const Instruction& dot, std::size_t k) {
    const auto& a = dot.get<ir::DotAttrs>();
    const Dims& batch = k == 0 ? a.lhs_batch : a.rhs_batch;
    const Dims& contracting = k == 0 ? a.lhs_contracting : a.rhs_contracting;
    const Dims free = free_dims(dot, k);
    for (const bool contracted_first : {false, true}) {
      Dims all = batch;
      const Dims& first = contracted_first ? contracting : free;
      const Dims& second = contracted_first ? free : contracting;
      all.insert(all.end(), first.begin(), first.end());
      all.insert(all.end(), second.begin(), second.end());
      if (moves_nothing(dot.operand(k)->shape.dims, all)) return true;
    }
    return false;
  };
  for (const Instruction* i : group.members()) {
    const auto elements = double(i->shape.element_count());
    if (i->is(Opcode::transpose) &&
        !moves_nothing(i->operand(0)->shape.dims, i->get<ir::DimensionsAttrs>().dims)) {
      out += elements;
    }
    for (const Instruction* user : i->users()) {
      if (!user->is(Opcode::dot)) continue;
      for (std::size_t k = 0; k < 2; ++k) {
        if (user->operand(k) == i && !stands(*user, k)) out += elements;
      }
    }
  }
  return out;
}

/// Writes a group's arrays in an order.
class Writer {
 public:
  Writer(ir::Computation* c, const Group& group, const Ids& order)
      : c_(c), b_(c), group_(group), ordered_(group, order) {}

  void run(ir::Rewriter* rewriter) {
    for (Instruction* i : group_.members()) {
      b_.metadata = i->metadata;
      now_[i] = written(i);
    }
    // Members whose users are all members or dots have none left.
    std::vector<Instruction*> dots;
    for (Instruction* i : group_.members()) {
      bool leaves = c_->root() == i;
      for (Instruction* user : i->users()) {
        if (now_.count(user) != 0 || std::count(dots.begin(), dots.end(), user) != 0) continue;
        if (user->is(Opcode::dot)) {
          dots.push_back(user);
        } else if (!is_new(user)) {
          leaves = true;
        }
      }
      if (!leaves) continue;
      b_.metadata = i->metadata;
      Instruction* back = transposed(now_.at(i), ir::inverse_order(ordered_.order_of(*i)));
      back->sharding = i->sharding;
      rewriter->replace(i, back);
    }
    for (Instruction* dot : dots) {
      b_.metadata = dot->metadata;
      auto [made, order] = dot_of(dot, 0);
      Instruction* back = transposed(made, ir::inverse_order(order));
      back->sharding = dot->sharding;
      rewriter->replace(dot, back);
    }
  }

 private:
  bool is_new(const Instruction* i) const { return i->index >= first_new_; }

  Instruction* transposed(Instruction* x, const Dims& perm) {
    if (std::is_sorted(perm.begin(), perm.end())) return x;
    if (moves_nothing(x->shape.dims, perm)) return b_.reshape(x, permuted(x->shape.dims, perm));
    return b_.transpose(x, perm);
  }
  /// A member's operand, in the order.
  Instruction* operand(const Instruction& i, Instruction* o) {
    if (const auto it = now_.find(o); it != now_.end()) return it->second;
    return transposed(o, ordered_.order_of_operand(i, *o));
  }

  Instruction* written(Instruction* i) {
    const Dims order = ordered_.order_of(*i);
    const Shape shape(i->shape.dtype, permuted(i->shape.dims, order));
    if (i->is(Opcode::dot)) {
      const std::size_t first = ordered_.first_operand(*i).value_or(0);
      auto [made, stands] = dot_of(i, first);
      const Dims now = ir::inverse_order(stands);
      return transposed(made, permuted(now, order));
    }
    if (i->is(Opcode::iota)) {
      return b_.iota(shape, ir::inverse_order(order)[std::size_t(i->get<ir::IotaAttrs>().dim)]);
    }
    if (i->is(Opcode::transpose)) return operand(*i, i->operand(0));
    if (i->is(Opcode::reshape)) {
      const auto it = now_.find(i->operand(0));
      Instruction* x = it != now_.end() ? it->second : transposed(i->operand(0), as_ids(*i));
      return x->shape.dims == shape.dims ? x : b_.reshape(x, shape.dims);
    }
    if (i->is(Opcode::broadcast)) {
      Instruction* o = i->operand(0);
      const Dims& dims = i->get<ir::DimensionsAttrs>().dims;
      const Dims of_o = ordered_.order_of(at(*group_.ids(i), dims));
      return b_.broadcast(operand(*i, o), shape.dims,
                          permuted(permuted(ir::inverse_order(order), dims), of_o));
    }
    if (i->is(Opcode::reduce)) {
      const Dims of_o = ir::inverse_order(ordered_.order_of(*i->operand(0)));
      Dims dims = permuted(of_o, i->get<ir::DimensionsAttrs>().dims);
      std::sort(dims.begin(), dims.end());
      return b_.reduce(now_.at(i->operand(0)), i->operand(1), dims, i->called(0));
    }
    std::vector<Instruction*> operands;
    for (Instruction* o : i->operands()) operands.push_back(operand(*i, o));
    return emit_like(b_, *i, std::move(operands), &shape);
  }

  /// Dims of the operand of a reshape that is no member, in the order of the reshape's.
  Dims as_ids(const Instruction& reshape) const {
    std::vector<int> rest;
    for (const int id : *group_.ids(&reshape)) {
      if (id >= 0) rest.push_back(id);
    }
    Ids ids;
    std::size_t next = 0;
    for (const std::int64_t size : reshape.operand(0)->shape.dims) {
      ids.push_back(size == 1 ? -1 : rest[next++]);
    }
    return ordered_.order_of(ids);
  }

  /// The dot of what its operands are now, with the dims of operand `first` in front, and which of
  /// its own dims these are.
  std::pair<Instruction*, Dims> dot_of(Instruction* dot, std::size_t first) {
    const ir::DotAttrs& was = dot->get<ir::DotAttrs>();
    Instruction* operands[2];
    Dims batch[2], contracting[2], free[2];
    for (std::size_t k = 0; k < 2; ++k) {
      Instruction* o = dot->operand(k);
      const auto it = now_.find(o);
      operands[k] = it != now_.end() ? it->second : o;
      batch[k] = ordered_.places(*o, k == 0 ? was.lhs_batch : was.rhs_batch);
      contracting[k] = ordered_.places(*o, k == 0 ? was.lhs_contracting : was.rhs_contracting);
      free[k] = ordered_.places(*o, free_dims(*dot, k));
    }
    // What a member has in order, the other one has in the same.
    const auto elements = [&](std::size_t k) {
      return now_.count(dot->operand(k)) != 0 ? dot->operand(k)->shape.element_count() : -1;
    };
    const std::size_t leading = elements(1) > elements(0) ? 1 : 0;
    // Dims of what it makes, as it made them: batch, then those of either side.
    const Ids* ids = group_.ids(dot);
    const Dims wanted = ids != nullptr ? ir::inverse_order(ordered_.order_of(*ids)) : Dims();
    const auto order_by = [](std::size_t n, auto&& less) {
      Dims out(n);
      std::iota(out.begin(), out.end(), 0);
      std::stable_sort(out.begin(), out.end(), less);
      return out;
    };
    const Dims of_batch = order_by(batch[0].size(), [&](std::int64_t a, std::int64_t b) {
      const Dims& by = ids != nullptr ? wanted : batch[leading];
      return by[std::size_t(a)] < by[std::size_t(b)];
    });
    const Dims of_contracting =
        order_by(contracting[0].size(), [&](std::int64_t a, std::int64_t b) {
          return contracting[leading][std::size_t(a)] < contracting[leading][std::size_t(b)];
        });
    Dims made_of[2];
    auto next = std::int64_t(batch[0].size());
    for (std::size_t k = 0; k < 2; ++k) {
      batch[k] = permuted(batch[k], of_batch);
      contracting[k] = permuted(contracting[k], of_contracting);
      Dims results(free[k].size());
      std::iota(results.begin(), results.end(), next);
      next += std::int64_t(free[k].size());
      // By where they stand, or, if they are members' dims, by where these should.
      const Dims order = order_by(free[k].size(), [&](std::int64_t a, std::int64_t b) {
        if (ids != nullptr) {
          return wanted[std::size_t(results[std::size_t(a)])] <
                 wanted[std::size_t(results[std::size_t(b)])];
        }
        return free[k][std::size_t(a)] < free[k][std::size_t(b)];
      });
      free[k] = permuted(free[k], order);
      made_of[k] = permuted(results, order);
      if (!std::is_sorted(free[k].begin(), free[k].end()))
        move(operands + k, k, batch, free, contracting);
    }
    ir::DotAttrs attrs = was;
    if (first == 1) {
      std::swap(operands[0], operands[1]);
      std::swap(batch[0], batch[1]);
      std::swap(contracting[0], contracting[1]);
      std::swap(made_of[0], made_of[1]);
      std::reverse(attrs.operand_precision.begin(), attrs.operand_precision.end());
    }
    attrs.lhs_batch = batch[0];
    attrs.rhs_batch = batch[1];
    attrs.lhs_contracting = contracting[0];
    attrs.rhs_contracting = contracting[1];
    Dims order = of_batch;
    for (const Dims& made : made_of) order.insert(order.end(), made.begin(), made.end());
    const Shape shape(dot->shape.dtype, permuted(dot->shape.dims, order));
    return {b_.emit_shaped(Opcode::dot, shape, {operands[0], operands[1]}, attrs), order};
  }

  /// Has operand `k` stand as [batch, free, contracting].
  void move(Instruction** operand, std::size_t k, Dims* batch, Dims* free, Dims* contracting) {
    Dims perm = batch[k];
    perm.insert(perm.end(), free[k].begin(), free[k].end());
    perm.insert(perm.end(), contracting[k].begin(), contracting[k].end());
    *operand = transposed(*operand, perm);
    std::int64_t next = 0;
    for (Dims* dims : {&batch[k], &free[k], &contracting[k]}) {
      std::iota(dims->begin(), dims->end(), next);
      next += std::int64_t(dims->size());
    }
  }

  ir::Computation* c_;
  ir::Builder b_;
  const Group& group_;
  const Ordered ordered_;
  const std::int64_t first_new_ = std::int64_t(c_->instructions().size());
  std::unordered_map<const Instruction*, Instruction*> now_;
};

/// The order in which least is moved, if that is much less than now.
std::optional<Ids> best_order(const Group& group) {
  const double now = moved_now(group);
  std::int64_t largest = 0;
  for (const Instruction* i : group.members()) {
    largest = std::max(largest, i->shape.element_count());
  }
  if (now < double(largest)) return std::nullopt;
  std::optional<Ids> best;
  double least = now - double(largest) / 2;
  for (const Instruction* i : group.members()) {
    Ids order = *group.ids(i);
    std::erase(order, -1);
    if (int(order.size()) != group.count()) continue;
    const double moved = Ordered(group, order).moved();
    if (moved >= least) continue;
    least = moved;
    best = order;
  }
  return best;
}

std::size_t unify_in(ir::Computation* c) {
  std::vector<Instruction*> dots;
  for (const auto& i : c->instructions()) {
    if (i->is(Opcode::dot) && is_floating(i->shape.dtype) &&
        i->shape.element_count() >= kFewElements && i->control_predecessors().empty()) {
      dots.push_back(i.get());
    }
  }
  std::size_t count = 0;
  std::vector<const Instruction*> seen;
  for (Instruction* dot : dots) {
    if (std::find(seen.begin(), seen.end(), dot) != seen.end()) continue;
    const Group group(dot);
    for (const Instruction* i : group.members()) {
      if (i->is(Opcode::dot)) seen.push_back(i);
    }
    if (!group.fits() || !same_sizes(group)) continue;
    const std::optional<Ids> order = best_order(group);
    if (!order) continue;
    ir::Rewriter rewriter(c);
    Writer(c, group, *order).run(&rewriter);
    rewriter.finish();
    ++count;
    break;
  }
  return count;
}

}  // namespace

std::size_t unify_dim_orders(ir::Module* module) {
  // Each group at most: what is in one order stays there.
  constexpr int kRounds = 64;
  std::size_t n = 0;
  for (const auto& c : module->computations()) {
    for (int k = 0; k < kRounds && unify_in(c.get()) > 0; ++k) ++n;
  }
  return n;
}

}  // namespace tessera::passes
