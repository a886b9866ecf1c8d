// SPDX-License-Identifier: Apache-2.0
// Brings all shardings onto one refined mesh, and back to the coarsest that expresses them.
#include "src/spmd/propagation/meshes.h"
#include "src/ir/analysis/device_computations.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <unordered_set>

#include "src/base/check.h"
#include "src/ir/constraint.h"
#include "src/ir/hooks.h"
#include "src/sharding/axes/tiling.h"
#include "src/spmd/manual/manual.h"
#include "src/spmd/propagation/graph.h"
#include "src/spmd/reshard/device_orders.h"
#include "src/spmd/reshard/mesh_views.h"
#include "src/spmd/sharding_queries.h"

namespace tessera::spmd::propagation {
namespace {

/// Meshes that differ in their refinement only.
struct MeshFamily {
  MeshRef mesh;  ///< common refinement
  int count = 0;
};

/// A sharding of another device order, on `mesh` if it can be expressed there; empty mesh
/// otherwise.
TensorSharding expressed_on(const TensorSharding& s, const MeshRef& mesh) {
  std::int64_t rank = s.rank();
  TensorSharding none;
  if (s.mesh->num_devices() != mesh->num_devices()) return none;
  Tiling tiling = to_tiling(s);
  std::vector<TensorSharding> found =
      from_tilings({&tiling, 1}, {&rank, 1}, mesh->num_devices(), mesh);
  if (!found[0].mesh || !same_mesh(found[0].mesh, mesh)) return none;
  MeshRef common = common_refinement(found[0].mesh, mesh);
  if (!common || common->axes != mesh->axes) return none;
  TensorSharding out = found[0].on(mesh);
  for (std::size_t d = 0; d < s.dims.size(); ++d) {
    out.dims[d].open = s.dims[d].open;
    out.dims[d].priority = s.dims[d].priority;
  }
  out.reduction = s.reduction;
  out.shard_group = s.shard_group;
  out.shard_like = s.shard_like;
  return out;
}

/// What is partial on axes that can't be said on the mesh is whole there.
const TensorSharding& stand_in(const TensorSharding& s, StandIns* stand_ins) {
  return stand_ins->of(reduced(s));
}

/// Along an axis of one device the only part of a partial value is the whole.
void drop_whole_parts(TensorSharding* s) {
  if (s->unreduced.empty()) return;
  erase_if(s->unreduced, [&](int a) { return s->mesh->axes[std::size_t(a)].size == 1; });
  if (s->unreduced.empty()) s->reduction = Reduction::sum;
}

bool foreign(const TensorSharding& s, const MeshRef& mesh) {
  return s.kind == TensorSharding::Kind::axes && s.mesh && !representable_on(s, mesh);
}

bool any_foreign(const ir::Instruction& i, const MeshRef& fine) {
  return std::any_of(i.sharding.begin(), i.sharding.end(),
                     [&](const TensorSharding& s) { return foreign(s, fine); });
}

ir::Instruction* constrained(ir::Computation* c, ir::Instruction* x, TensorSharding to) {
  auto made = std::make_unique<ir::Instruction>();
  made->opcode = ir::Opcode::sharding_constraint;
  made->shape = x->shape;
  made->name = "order";
  made->set_operands({x});
  made->metadata = x->metadata;
  made->attrs = ir::ShardingConstraintAttrs{};
  made->sharding = {std::move(to)};
  return c->add(std::move(made));
}

/// What is computed between arguments and results on another order is sharded by the stand-ins, so
/// that axes flow there too. Arguments and results themselves, and what manual computations take
/// and give, keep what was stated: a permute leads there.
void stand_in_inside(ir::Computation* c, bool is_entry, const MeshRef& fine, StandIns* stand_ins) {
  std::vector<ir::Instruction*> all;
  for (const auto& i : c->instructions()) all.push_back(i.get());
  bool any = false;
  const auto constrain = [&](ir::Instruction* x, TensorSharding to) {
    any = true;
    return constrained(c, x, std::move(to));
  };
  for (ir::Instruction* i : all) {
    if (!any_foreign(*i, fine) || ir::is_manual_computation(*i)) continue;
    const ir::UserList of_i = i->users();
    const bool for_manual =
        ir::is_constraint(*i) && of_i.size() == 1 && ir::is_manual_computation(*of_i.front());
    if (for_manual) continue;
    const bool edge = is_entry && (i->is(ir::Opcode::parameter) || i == c->root());
    if (!edge) {
      for (TensorSharding& s : i->sharding) {
        if (foreign(s, fine)) s = stand_in(s, stand_ins);
      }
    } else if (i->is(ir::Opcode::parameter) && i->shape.is_array() && i != c->root()) {
      ir::Instruction* inside = constrain(i, stand_in(i->sharding[0], stand_ins));
      i->replace_all_uses_with(inside);
      inside->set_operand(0, i);
    } else if (i == c->root() && i->is(ir::Opcode::tuple)) {
      for (std::size_t k = 0;
           k < i->operands().size() && i->sharding.size() == i->operands().size(); ++k) {
        if (!i->operand(k)->shape.is_array() || !foreign(i->sharding[k], fine)) continue;
        i->set_operand(k, constrain(i->operand(k), stand_in(i->sharding[k], stand_ins)));
      }
    } else if (i == c->root() && i->shape.is_array() && !i->is(ir::Opcode::parameter)) {
      const TensorSharding stated = i->sharding[0];
      i->sharding[0] = stand_in(stated, stand_ins);
      c->set_root(constrain(i, stated));
    }
  }
  if (any) c->sort_topologically();
}

/// The mesh of most shardings, and of all per-device code that leaves axes automatic.
MeshRef choose_mesh(const ir::Module& module, const std::vector<ir::Instruction*>& sharded,
                    const std::vector<ir::Instruction*>& partly_manual) {
  std::vector<MeshFamily> kin;
  if (module.mesh) kin.push_back({module.mesh, 0});
  const auto count = [&](const TensorSharding& s) {
    if (s.kind != TensorSharding::Kind::axes || !s.mesh) return;
    for (MeshFamily& k : kin) {
      if (k.mesh == s.mesh) {
        ++k.count;
        return;
      }
    }
    for (MeshFamily& k : kin) {
      if (MeshRef common = common_refinement(k.mesh, s.mesh)) {
        k.mesh = common;
        ++k.count;
        return;
      }
    }
    kin.push_back({s.mesh, 1});
  };
  for (const ir::Instruction* i : sharded) {
    for (const TensorSharding& s : i->sharding) count(s);
  }
  if (kin.empty()) {
    kin.push_back(
        {make_logical_mesh({{"devices", std::max<std::int64_t>(1, module.num_partitions)}}), 0});
  }
  bool settled = false;
  auto chosen =
      std::max_element(kin.begin(), kin.end(),
                       [](const MeshFamily& a, const MeshFamily& b) { return a.count < b.count; });
  // Per-device code that leaves axes automatic can't do with a stand-in for its mesh.
  for (const ir::Instruction* i : partly_manual) {
    const MeshRef& mesh = i->called()[0]->root()->sharding.front().mesh;
    auto own = std::find_if(kin.begin(), kin.end(),
                            [&](const MeshFamily& k) { return same_mesh(k.mesh, mesh); });
    if (own == kin.end()) continue;
    if (settled && own != chosen) {
      throw NotImplementedError("the manual computation " + i->name + " leaves axes of mesh " +
                                    mesh->name +
                                    " automatic, and another one does so on other axes or "
                                    "another order of the devices",
                                i->location());
    }
    chosen = own;
    settled = true;
  }
  return chosen->mesh;
}

/// Says all shardings on mesh `fine` that can be; the computations that have others, too.
std::unordered_set<const ir::Computation*> say_on(const MeshRef& fine, const ir::Module& module,
                                                  const std::vector<ir::Instruction*>& sharded) {
  std::deque<std::pair<TensorSharding, TensorSharding>> known;
  const auto said = [&](const TensorSharding& s) -> const TensorSharding& {
    for (const auto& [stated, moved] : known) {
      if (stated == s) return moved;
    }
    return known.emplace_back(s, expressed_on(s, fine)).second;
  };
  MeshViews views(fine);
  std::unordered_set<const ir::Computation*> with_foreign;
  for (ir::Instruction* i : sharded) {
    std::size_t leaves = i->shape.is_tuple ? flatten(i->shape).size() : 1;
    // One sharding for a whole tuple.
    if (i->sharding.size() == 1 && leaves > 1) {
      TensorSharding all = i->sharding[0];
      i->sharding.assign(leaves, all);
    }
    const bool boundary = i->parent == module.entry() &&
                          (i->is(ir::Opcode::parameter) || i == module.entry()->root());
    for (TensorSharding& s : i->sharding) {
      if (s.kind != TensorSharding::Kind::axes) continue;
      if (!s.mesh) {
        s.mesh = fine;
      } else if (same_mesh(s.mesh, fine)) {
        if (views.can_say(s)) s = views.say(s);
      } else if (const TensorSharding& moved = said(s); moved.mesh) {
        s = moved;
      }
      // What callers see stays as they say it.
      if (!boundary) drop_whole_parts(&s);
    }
    if (any_foreign(*i, fine)) with_foreign.insert(i->parent);
  }
  return with_foreign;
}

}  // namespace

MeshRef unify_meshes(ir::Module* module, MeshRef* coarse) {
  const std::vector<ir::Computation*> computations = ir::device_computations(*module);
  std::vector<ir::Instruction*> sharded, partly_manual;
  for (ir::Computation* c : computations) {
    for (const auto& i : c->instructions()) {
      if (i->has_sharding()) sharded.push_back(i.get());
      if (ir::is_partly_manual(*i)) partly_manual.push_back(i.get());
    }
  }
  const MeshRef chosen = choose_mesh(*module, sharded, partly_manual);
  *coarse = chosen;
  MeshRef fine = refine_to_primes(chosen);
  if (fine->axes == chosen->axes) fine = chosen;
  const auto with_foreign = say_on(fine, *module, sharded);
  StandIns stand_ins(fine);
  for (ir::Computation* c : computations) {
    if (!with_foreign.count(c)) continue;
    for (const auto& i : c->instructions()) {
      if (!ir::is_manual_computation(*i)) continue;
      const bool of_others =
          any_foreign(*i, fine) ||
          std::any_of(i->operands().begin(), i->operands().end(),
                      [&](const ir::Instruction* o) { return any_foreign(*o, fine); });
      if (of_others) manual::take_whole_arrays(i.get());
    }
    stand_in_inside(c, c == module->entry(), fine, &stand_ins);
  }
  return fine;
}

namespace {

/// Adds to `cuts` (by axis name) where runs of pieces begin and end.
void add_cuts(const LogicalMesh& mesh, const IndexList& axes,
              std::map<std::string, std::set<std::int64_t>>* cuts) {
  for (std::size_t k = 0; k < axes.size();) {
    const MeshAxis& first = mesh.axes[std::size_t(axes[k])];
    std::int64_t end = first.pre * first.size;
    for (++k; k < axes.size(); ++k) {
      const MeshAxis& next = mesh.axes[std::size_t(axes[k])];
      if (next.name != first.name || next.pre != end) break;
      end *= next.size;
    }
    (*cuts)[first.name].insert(first.pre);
    (*cuts)[first.name].insert(end);
  }
}

}  // namespace

MeshRef coarsest_mesh(const std::vector<TensorSharding>& shardings, const MeshRef& fine,
                      const MeshRef& coarse) {
  std::map<std::string, std::set<std::int64_t>> cuts;
  std::set<IndexList> met;  // the same lists stand everywhere
  const auto add = [&](const IndexList& axes) {
    if (!axes.empty() && met.insert(axes).second) add_cuts(*fine, axes, &cuts);
  };
  for (const TensorSharding& s : shardings) {
    if (s.kind != TensorSharding::Kind::axes || s.mesh != fine) continue;
    for (const DimSharding& d : s.dims) add(d.axes);
    for (const auto* axes : {&s.replicated, &s.unreduced, &s.manual}) {
      if (axes->empty()) continue;
      IndexList set = *axes;
      std::sort(set.begin(), set.end());
      add(set);
    }
  }
  std::vector<Dims> pieces;
  bool same = true;
  for (const MeshAxis& axis : coarse->axes) {
    Dims sizes;
    std::int64_t at = axis.pre, end = axis.pre * axis.size;
    for (std::int64_t cut : cuts[axis.name]) {
      if (cut <= at || cut >= end) continue;
      sizes.push_back(cut / at);
      at = cut;
    }
    sizes.push_back(end / at);
    same = same && sizes.size() == 1;
    if (sizes.size() == 1) sizes.clear();
    pieces.push_back(std::move(sizes));
  }
  return same ? coarse : refine(coarse, pieces);
}

namespace {

/// Coarse axes made of the pieces in `axes`, as far as they go whole. `count`: of those pieces.
IndexList join_pieces(const LogicalMesh& fine, const LogicalMesh& coarse, const IndexList& axes,
                      std::size_t* count = nullptr) {
  IndexList joined;
  for (std::size_t k = 0; k < axes.size();) {
    if (count) *count = k;
    const MeshAxis& first = fine.axes[std::size_t(axes[k])];
    int found = -1;
    for (std::size_t c = 0; c < coarse.axes.size(); ++c) {
      if (coarse.axes[c].name == first.name && coarse.axes[c].pre == first.pre &&
          (coarse.axes[c].size > 1 || first.size == 1)) {
        found = int(c);
      }
    }
    if (found < 0) return joined;
    const MeshAxis& whole = coarse.axes[std::size_t(found)];
    std::int64_t end = first.pre * first.size;
    for (++k; end < whole.pre * whole.size && k < axes.size(); ++k) {
      const MeshAxis& next = fine.axes[std::size_t(axes[k])];
      if (next.name != first.name || next.pre != end) return joined;
      end *= next.size;
    }
    if (end != whole.pre * whole.size) return joined;
    joined.push_back(found);
  }
  if (count) *count = axes.size();
  return joined;
}

}  // namespace

void coarsen(TensorSharding* sharding, const MeshRef& coarse) {
  TensorSharding& s = *sharding;
  if (s.kind != TensorSharding::Kind::axes || !s.mesh || s.mesh == coarse) return;
  const MeshRef fine = std::move(s.mesh);
  s.mesh = coarse;
  for (DimSharding& d : s.dims) {
    if (!d.axes.empty()) d.axes = join_pieces(*fine, *coarse, d.axes);
  }
  for (auto* set : {&s.replicated, &s.unreduced, &s.manual}) {
    if (set->empty()) continue;
    std::sort(set->begin(), set->end());
    *set = join_pieces(*fine, *coarse, *set);
  }
}

TensorSharding coarsened(const TensorSharding& sharding, const MeshRef& coarse) {
  TensorSharding s = sharding;
  coarsen(&s, coarse);
  return s;
}

IndexList whole_axes(const LogicalMesh& fine, const LogicalMesh& coarse, const IndexList& axes) {
  std::size_t kept = 0;
  join_pieces(fine, coarse, axes, &kept);
  return {axes.begin(), axes.begin() + std::ptrdiff_t(kept)};
}

}  // namespace tessera::spmd::propagation
