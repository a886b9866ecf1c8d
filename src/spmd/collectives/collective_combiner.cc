// SPDX-License-Identifier: Apache-2.0
// Combines independent collectives of one kind and group into one.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>

#include "src/ir/analysis/loop_invariance.h"
#include "src/spmd/collectives/collective_ops.h"
#include "src/spmd/collectives/combined_collective.h"
#include "src/spmd/collectives/groups.h"
#include "src/spmd/collectives/optimize.h"

namespace tessera::spmd {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Open groups of one kind that a further collective may join: the last ones.
constexpr std::size_t kOpenGroups = 8;
/// Below this, places count as equal.
constexpr double kShortest = 1e-7;
/// For how many instructions a user may be made to wait, how many may wait for one collective that
/// joins others, and how many bytes they may make.
constexpr double kLongestWait = 100;
constexpr std::size_t kMaxWaiting = 32;
constexpr std::int64_t kMaxLiveBytes = std::int64_t(1) << 16;

/// These have a form of several arrays in every dialect; the others are packed into one array.
bool has_several_results(Opcode op) { return op == Opcode::all_reduce || op == Opcode::all_gather; }

/// Places in time. All members of a group stand at one place, which is behind all that they need
/// and before all that needs them; so nothing waits for itself, and no user for longer than before.
class Combiner {
 public:
  Combiner(ir::Computation* c, GroupTable* groups, const CombineOptions& options)
      : computation_(c), groups_(*groups), options_(options) {
    for (const auto& i : c->instructions()) {
      place_.push_back(double(i->index));
      for (const Instruction* before : i->control_predecessors()) ordered_.insert(before);
    }
  }

  std::size_t run() {
    for (const auto& i : computation_->instructions()) {
      if (ir::is_plain_collective(*i) && i.get() != computation_->root() &&
          ordered_.count(i.get()) == 0) {
        join(i.get());
      }
    }
    std::erase_if(all_, [](const Group& g) { return g.members.size() < 2; });
    if (all_.empty()) return 0;
    emit();
    return all_.size();
  }

 private:
  struct Group {
    std::vector<Instruction*> members;
    double ready = 0, needed = 0, place = 0;
    std::int64_t bytes = 0;
  };
  using Key = std::tuple<int, int, bool, bool, int, Dims, DevicePairs, const ir::Computation*>;

  std::optional<Key> key_of(const Instruction& i) {
    const bool packs = !has_several_results(i.opcode);
    // Packed arrays become one of one type; reductions have one type at any rate.
    const bool typed = packs || i.is(Opcode::all_reduce);
    const int type = typed ? int(i.shape.dtype) : -1;
    if (const auto* p = i.attrs.get_if<ir::PermuteAttrs>()) {
      const DevicePairs pairs = p->source_target_pairs.sorted();
      return Key{int(i.opcode), 0, p->channel_id.has_value(), false, type, {}, pairs, nullptr};
    }
    const auto& a = i.get<ir::CollectiveAttrs>();
    if (a.constrain_layout || (packs && a.dims.size() != 1)) return std::nullopt;
    // XLA's CPU backend puts the parts of several gathered arrays one behind the other in memory.
    if (i.is(Opcode::all_gather)) {
      for (std::int64_t d = 0; d < a.dims.at(0); ++d) {
        if (i.shape.dim(d) != 1) return std::nullopt;
      }
    }
    const ir::Computation* reducer = i.called().empty() ? nullptr : i.called()[0];
    if (reducer) {
      // Equal reducers may be several computations.
      if (const auto op = ir::as_binary_reducer(*reducer)) {
        reducer = reducers_.try_emplace({int(*op), int(i.shape.dtype)}, reducer).first->second;
      }
    }
    return Key{int(i.opcode),
               groups_.id(a.groups, !i.is(Opcode::all_reduce)),
               a.channel_id.has_value(),
               a.use_global_device_ids,
               type,
               packs ? Dims() : a.dims,
               {},
               reducer};
  }

  std::int64_t group_size(const Instruction& i) const {
    const auto* a = i.attrs.get_if<ir::CollectiveAttrs>();
    return a ? a->groups.group_size(groups_.devices()) : 1;
  }

  double ready(const Instruction& i) const {
    double at = -1;
    for (const Instruction* o : i.operands()) at = std::max(at, place_[std::size_t(o->index)]);
    return at;
  }
  double needed(const Instruction& i) const {
    double at = std::numeric_limits<double>::infinity();
    for (const Instruction* u : i.users()) {
      at = std::min(at, place_[std::size_t(u->index)]);
    }
    return at;
  }

  void join(Instruction* i) {
    const auto key = key_of(*i);
    if (!key) return;
    const std::int64_t bytes = std::max(i->shape.byte_count(), i->operand(0)->shape.byte_count());
    const std::int64_t most =
        has_several_results(i->opcode) ? options_.max_bytes : options_.max_copied_bytes;
    if (bytes > most) return;
    auto& open = open_[*key];
    for (auto at = open.rbegin(); at != open.rend(); ++at) {
      if (all_[*at].bytes + bytes <= most && join(&all_[*at], i, bytes)) return;
    }
    if (open.size() == kOpenGroups) open.erase(open.begin());
    open.push_back(all_.size());
    all_.push_back({{i}, 0, 0, 0, bytes});
  }

  bool join(Group* group, Instruction* i, std::int64_t bytes) {
    // What others did meanwhile may have moved all of them.
    double from = ready(*i), to = needed(*i), first = place_[std::size_t(i->index)];
    for (const Instruction* m : group->members) {
      if (m == i->operand(0)) return false;
      from = std::max(from, ready(*m));
      to = std::min(to, needed(*m));
      first = std::min(first, place_[std::size_t(m->index)]);
    }
    if (to - from >= kShortest) {
      const double place = first > from && first < to ? first : (from + std::min(to, from + 1)) / 2;
      if (!(place > from && place < to)) return false;
      add(group, i, bytes, place);
      return true;
    }
    return from - to <= kLongestWait && delay_users(group, i, bytes, from);
  }

  void add(Group* group, Instruction* i, std::int64_t bytes, double place) {
    group->members.push_back(i);
    group->bytes += bytes;
    for (const Instruction* m : group->members) place_[std::size_t(m->index)] = place;
    if (group->members.size() == 2) joined_.insert(group->members[0]);
    joined_.insert(i);
  }

  /// Puts what follows from the members behind the place where all of them can stand, if that is
  /// little and none of it is needed there.
  bool delay_users(Group* group, Instruction* i, std::int64_t bytes, double from) {
    std::vector<const Instruction*> members(group->members.begin(), group->members.end());
    members.push_back(i);
    std::set<std::int64_t> waits;
    std::vector<const Instruction*> work = members;
    double next = from + 1;
    std::int64_t live_bytes = 0;
    while (!work.empty()) {
      const Instruction* x = work.back();
      work.pop_back();
      for (const Instruction* u : x->users()) {
        const double at = place_[std::size_t(u->index)];
        if (at > from) {
          next = std::min(next, at);
          continue;
        }
        if (!may_wait(*u)) return false;
        if (!waits.insert(u->index).second) continue;
        live_bytes += u->shape.byte_count();
        if (waits.size() > kMaxWaiting || live_bytes > kMaxLiveBytes) return false;
        work.push_back(u);
      }
    }
    for (const Instruction* m : members) {
      for (const Instruction* o : m->operands()) {
        if (waits.count(o->index) > 0) return false;
      }
    }
    const double step = (next - from) / double(waits.size() + 2);
    if (step < kShortest) return false;
    add(group, i, bytes, from + step);
    std::vector<std::int64_t> order(waits.begin(), waits.end());
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return place_[std::size_t(a)] < place_[std::size_t(b)];
    });
    double at = from + step;
    for (const std::int64_t w : order) place_[std::size_t(w)] = at += step;
    return true;
  }

  /// A small piece of work that stands by itself.
  bool may_wait(const Instruction& i) const {
    if (!i.shape.is_array() || ir::has_side_effect(i.opcode) || joined_.count(&i) > 0 ||
        !i.control_predecessors().empty() || ordered_.count(&i) > 0 || &i == computation_->root()) {
      return false;
    }
    if (ir::runs_program(i.opcode) || i.is(Opcode::custom_call)) return false;
    const ir::Work work = ir::info(i.opcode).work;
    return work != ir::Work::contraction && work != ir::Work::sort;
  }

  void emit() {
    std::unordered_map<const Instruction*, double> place;
    for (const auto& i : computation_->instructions())
      place[i.get()] = place_[std::size_t(i->index)];
    ir::Builder b(computation_);
    for (const Group& g : all_) {
      const std::size_t before = computation_->instructions().size();
      const double at = place.at(g.members[0]);
      b.metadata = g.members[0]->metadata;
      const std::vector<Instruction*> parts =
          has_several_results(g.members[0]->opcode)
              ? several(b, g)
              : combined_collective(b, g.members, group_size(*g.members[0]));
      for (std::size_t k = 0; k < parts.size(); ++k) g.members[k]->replace_all_uses_with(parts[k]);
      for (std::size_t n = before; n < computation_->instructions().size(); ++n) {
        place[computation_->instructions()[n].get()] = at;
      }
    }
    computation_->remove_dead();
    std::vector<Instruction*> order;
    for (const auto& i : computation_->instructions()) order.push_back(i.get());
    std::stable_sort(order.begin(), order.end(), [&](const Instruction* x, const Instruction* y) {
      return place.at(x) < place.at(y);
    });
    computation_->set_order(order);
  }

  /// Arrays are gathered flat: only of those does XLA's CPU backend know how they are laid out in
  /// memory.
  static std::vector<Instruction*> several(ir::Builder& b, const Group& g) {
    const bool flat = g.members[0]->is(Opcode::all_gather);
    std::vector<Instruction*> operands;
    std::vector<Shape> shapes;
    for (Instruction* m : g.members) {
      Instruction* o = m->operand(0);
      b.metadata = m->metadata;
      operands.push_back(flat ? b.reshape(o, {o->shape.element_count()}) : o);
      shapes.push_back(flat ? Shape(m->shape.dtype, {m->shape.element_count()}) : m->shape);
    }
    b.metadata = g.members[0]->metadata;
    const Shape shape = Shape::tuple(shapes);
    Instruction* all = flat ? flat_gather(b, *g.members[0], operands, shape)
                            : same_collective(b, *g.members[0], operands, shape);
    std::vector<Instruction*> parts;
    for (std::size_t k = 0; k < g.members.size(); ++k) {
      b.metadata = g.members[k]->metadata;
      Instruction* mine = b.get_tuple_element(all, std::int64_t(k));
      parts.push_back(flat ? b.reshape(mine, g.members[k]->shape.dims) : mine);
    }
    return parts;
  }

  ir::Computation* computation_;
  GroupTable& groups_;
  const CombineOptions& options_;
  std::vector<double> place_;
  std::set<const Instruction*> ordered_;
  std::set<const Instruction*> joined_;  ///< members of groups of more than one
  std::vector<Group> all_;
  std::map<Key, std::vector<std::size_t>> open_;
  std::map<std::pair<int, int>, const ir::Computation*> reducers_;
};

bool communicates_often(const ir::Computation& c) {
  return std::count_if(c.instructions().begin(), c.instructions().end(),
                       [](const auto& i) { return ir::is_plain_collective(*i); }) > 1;
}

}  // namespace

std::size_t combine_collectives(ir::Module* module, const CombineOptions& options) {
  GroupTable groups(module->num_partitions);
  std::size_t total = 0;
  for (const auto& c : module->computations()) {
    if (communicates_often(*c)) total += Combiner(c.get(), &groups, options).run();
  }
  return total;
}

}  // namespace tessera::spmd
