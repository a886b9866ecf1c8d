// SPDX-License-Identifier: Apache-2.0
// Passes on the reshards of a program, before they become collectives: of equal ones the first is
// for all, two in a row are one if what is between them is for nothing else, and what a loop needs
// of an array that it doesn't change is brought there once, before it.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "src/cost/executions.h"
#include "src/ir/analysis/repeated_loops.h"
#include "src/ir/constraint.h"
#include "src/ir/rewrite/builder.h"
#include "src/ir/rewrite/while_view.h"
#include "src/spmd/partitioner/compile_context.h"
#include "src/spmd/partitioner/partition.h"
#include "src/spmd/reshard/mesh_views.h"
#include "src/spmd/sharding_queries.h"

namespace tessera::spmd {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

class ReshardOptimizer {
 public:
  ReshardOptimizer(ExplicitProgram* program, const PartitionOptions& options)
      : module_(*program->module),
        origins_(program->origins),
        machine_(options.machine),
        planner_(options.context ? options.context->reshards : own_planner_),
        mesh_(module_.mesh ? refine_to_primes(module_.mesh) : nullptr),
        views_(mesh_) {}

  /// What a device receives for all reshards, by their plans.
  double bytes_received() {
    if (!mesh_) return 0;
    double bytes = 0;
    const auto runs = cost::executions(module_);
    for (const auto& c : module_.computations()) {
      const auto times = runs.find(c.get());
      if (times == runs.end()) continue;
      for (const auto& i : c->instructions()) {
        if (!ir::is_reshard(*i) || !i->shape.is_array()) continue;
        const auto from = layout_of(*i->operand(0)), to = layout_of(*i);
        if (!from || !to) continue;
        const ReshardPlan plan = planner_.plan(*from, *to, i->shape.dims,
                                               std::int64_t(byte_size(i->shape.dtype)), machine_);
        bytes += times->second.counted * plan.bytes_received;
      }
    }
    return bytes;
  }

  std::size_t run() {
    if (!mesh_) return 0;
    std::size_t changes = 0;
    const ir::RepeatedLoops loops(module_);
    // Callees first: what leaves an inner loop may leave the one around it.
    for (const auto& c : module_.computations()) {
      std::size_t here = 0;
      for (Instruction* loop : loops.in(*c)) here += hoist(loop);
      if (here > 0) {
        c->sort_topologically();
        for (const auto& callee : module_.computations()) callee->remove_dead();
      }
      here += merge(c.get()) + drop(c.get());
      if (here > 0) c->remove_dead();
      changes += here;
    }
    return changes;
  }

 private:
  /// The layout of an array on prime pieces of the mesh; none if it is on another order of devices.
  std::optional<TensorSharding> layout_of(const Instruction& i) {
    if (i.sharding.empty()) return TensorSharding::replicated_on(mesh_, i.shape.rank());
    const TensorSharding& s = i.sharding.front();
    if (s.kind != TensorSharding::Kind::axes || !s.mesh || !views_.can_say(s)) return std::nullopt;
    return views_.say(s);
  }

  double price(const TensorSharding& from, const TensorSharding& to, const Shape& shape) {
    return planner_.price(from, to, shape.dims, std::int64_t(byte_size(shape.dtype)), machine_);
  }

  // ----- in one computation

  /// Of reshards of one array to one layout the first is for all.
  std::size_t merge(Computation* c) {
    std::unordered_map<const Instruction*, std::vector<std::pair<Instruction*, TensorSharding>>>
        of_array;
    std::size_t same = 0;
    for (const auto& i : c->instructions()) {
      if (!ir::is_reshard(*i) || i.get() == c->root()) continue;
      auto to = layout_of(*i);
      if (!to) continue;
      const Instruction* array = i->operand(0);
      while (ir::is_reshard(*array)) array = array->operand(0);
      auto& known = of_array[array];
      const auto equal = std::find_if(known.begin(), known.end(), [&](const auto& other) {
        return same_layout(other.second, *to);
      });
      if (equal != known.end()) {
        i->replace_all_uses_with(equal->first);
        ++same;
      } else {
        known.emplace_back(i.get(), std::move(*to));
      }
    }
    return same;
  }

  /// What is gathered only to be cut again, say, is brought there at once.
  std::size_t drop(Computation* c) {
    std::size_t changes = 0;
    for (const auto& i : c->instructions()) {
      if (!ir::is_reshard(*i)) continue;
      const auto to = layout_of(*i);
      while (to && ir::is_reshard(*i->operand(0)) && i->operand(0)->use_count() == 1) {
        Instruction* between = i->operand(0);
        const auto from = layout_of(*between->operand(0)), by = layout_of(*between);
        if (!from || !by || (!to->unreduced.empty() && from->unreduced != to->unreduced) ||
            price(*from, *to, i->shape) > price(*from, *by, i->shape) + price(*by, *to, i->shape)) {
          break;
        }
        i->set_operand(0, between->operand(0));
        ++changes;
      }
    }
    return changes;
  }

  // ----- out of loops

  /// A carry that the loop doesn't change, and that its body needs in one other layout only, goes
  /// round in that layout. Not if a device then holds more of it: whether that is worth it shows
  /// once it is known what a device holds at most (collectives/loop_collective_motion.cc).
  std::size_t hoist(Instruction* loop) {
    const ir::WhileView view(*loop);
    std::size_t changes = 0;
    if (!view.has_separate_carries()) return changes;
    for (std::size_t k = 0; k < view.size(); ++k) {
      if (!view.shape(k).is_array() || !view.is_invariant(k) || !view.init(k)) continue;
      const std::vector<Instruction*> wanted = reshards_of(view, k);
      if (wanted.empty()) continue;
      const auto from = layout_of(*wanted.front()->operand(0));
      if (!from || parts_of(*layout_of(*wanted.front())) < parts_of(*from)) continue;
      Instruction* init = view.init(k);
      Instruction* moved = reshard_like(*wanted.front(), init);
      for (Instruction* user : loop->users()) {
        // Nothing has changed it.
        const auto index = std::size_t(user->get<ir::GetTupleElementAttrs>().index);
        if (index == k) user->replace_all_uses_with(init);
      }
      set_init(loop, k, moved);
      for (Instruction* i : {loop, view.body().parameter(0), view.body().root(),
                             view.condition().parameter(0), loop->operand(0)}) {
        set_layout(i, k, moved->sharding.front());
      }
      for (Instruction* read : view.reads(k)) read->sharding = moved->sharding;
      for (Instruction* i : wanted) i->replace_all_uses_with(i->operand(0));
      ++changes;
    }
    return changes;
  }

  /// All that the body does with a carry, if these are reshards to one layout; else none.
  std::vector<Instruction*> reshards_of(const ir::WhileView& view, std::size_t k) {
    for (const Instruction* read : view.condition().parameter(0)->users()) {
      if (ir::WhileView::carry_of(*read) == k) return {};
    }
    std::vector<Instruction*> out;
    for (Instruction* read : view.reads(k)) {
      for (Instruction* user : read->users()) {
        if (user == view.body().root()) continue;
        const bool first = out.empty();
        const auto to = ir::is_reshard(*user) ? layout_of(*user) : std::nullopt;
        if (!to || (!first && !same_layout(*layout_of(*out.front()), *to))) return {};
        out.push_back(user);
      }
    }
    return out;
  }

  Instruction* reshard_like(const Instruction& reshard, Instruction* array) {
    ir::Builder b(array->parent);
    b.metadata = reshard.metadata;
    Instruction* x =
        b.emit_shaped(Opcode::sharding_constraint, array->shape, {array}, reshard.attrs);
    x->sharding = reshard.sharding;
    const auto it = origins_.find(&reshard);
    const Instruction* origin = it == origins_.end() ? nullptr : it->second;
    if (origin) origins_[x] = origin;
    return x;
  }

  void set_init(Instruction* loop, std::size_t k, Instruction* value) {
    const ir::WhileView view(*loop);
    std::vector<Instruction*> inits;
    for (std::size_t i = 0; i < view.size(); ++i) inits.push_back(i == k ? value : view.init(i));
    const std::vector<TensorSharding> layouts = loop->operand(0)->sharding;
    ir::set_inits(loop, inits);
    loop->operand(0)->sharding = layouts;
  }

  /// Of element k of a tuple of arrays.
  void set_layout(Instruction* tuple, std::size_t k, const TensorSharding& layout) {
    const std::vector<Shape>& elements = tuple->shape.elements;
    std::size_t leaf = 0, count = 0;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (i == k) leaf = count;
      count += leaf_count(elements[i]);
    }
    if (tuple->sharding.size() != count) {
      const std::vector<Shape> leaves = flatten(tuple->shape);
      std::vector<TensorSharding> all;
      for (const Shape& s : leaves) {
        all.push_back(tuple->sharding.size() == 1
                          ? tuple->sharding.front()
                          : TensorSharding::replicated_on(module_.mesh, s.rank()));
      }
      tuple->sharding = std::move(all);
    }
    tuple->sharding[leaf] = layout;
  }

  ir::Module& module_;
  Origins& origins_;
  const cost::Machine& machine_;
  ReshardPlanner own_planner_;
  ReshardPlanner& planner_;
  MeshRef mesh_;
  MeshViews views_;
};

}  // namespace

std::size_t optimize_reshards(ExplicitProgram* program, const PartitionOptions& options) {
  return ReshardOptimizer(program, options).run();
}

double bytes_of_reshards(ExplicitProgram* program, const PartitionOptions& options) {
  return ReshardOptimizer(program, options).bytes_received();
}

}  // namespace tessera::spmd
