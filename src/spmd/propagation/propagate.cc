// SPDX-License-Identifier: Apache-2.0
// The propagation driver: schedules ops by user priority, op kind and strategy to a fixed point.
#include "src/spmd/propagation/propagate.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "src/base/check.h"
#include "src/base/contains.h"
#include "src/ir/hooks.h"
#include "src/spmd/manual/manual.h"
#include "src/spmd/propagation/factor_propagation.h"
#include "src/spmd/propagation/graph.h"
#include "src/spmd/propagation/meshes.h"
#include "src/spmd/propagation/provenance.h"
#include "src/spmd/submeshes.h"

namespace tessera::spmd {
namespace propagation {
namespace {

constexpr int kLevels = 5;

/// What decides an op's permissions, as a small number.
constexpr std::size_t kKinds = 32;
std::uint8_t kind_of(const Op& op) {
  return std::uint8_t(unsigned(op.family) | (op.single_use ? 4u : 0u) | (op.forward ? 8u : 0u) |
                      (op.backward ? 16u : 0u));
}

/// What ops of a kind may do at a level: first what surely belongs together, last whatever is
/// possible.
Permission permission(std::size_t kind, int level) {
  const bool single_use = kind & 4, forward = kind & 8, backward = kind & 16;
  Permission p;
  p.enabled = true;
  p.all_kinds = level >= 3;
  switch (Family(kind & 3)) {
    case Family::same_layout:
      p.enabled = level >= 1 || single_use;
      p.all_kinds = true;
      break;
    case Family::dynamic:
      p.backward = level >= 2;
      break;
    case Family::broadcast:
      p.enabled = level >= 2;
      p.forward = level >= 4;
      break;
    case Family::other:
      p.enabled = level >= 2;
      break;
  }
  p.enabled = p.enabled && (forward || backward);
  p.forward = p.forward && forward;
  p.backward = p.backward && backward;
  return p;
}

class Schedule {
 public:
  Schedule(Graph* graph, MeshRef fine, MeshRef coarse)
      : graph_(*graph), fine_(std::move(fine)), coarse_(std::move(coarse)) {
    queued_.assign(graph_.ops.size(), 0);
    changed_.assign(graph_.values.size(), 0);
    quiet_.assign(graph_.ops.size(), kAwake);
    kinds_.reserve(graph_.ops.size());
    for (const Op& op : graph_.ops) kinds_.push_back(kind_of(op));
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      for (int level = 0; level < kLevels; ++level) {
        permissions_[kind][std::size_t(level)] = permission(kind, level);
      }
    }
  }

  void run() {
    std::set<int> priorities{0};
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      Value& value = graph_.values[v];
      if (!value.active) continue;
      bool later = false;
      for (const DimSharding& d : value.sharding.dims) {
        priorities.insert(d.priority);
        later = later || d.priority > 0;
      }
      if (later) defer(int(v));
    }
    for (int priority : priorities) {
      restore(priority);
      if (graph_.provenance) graph_.provenance->priority = priority;
      for (int level = 0; level < kLevels; ++level) settle_level(level);
    }
  }

 private:
  // --- dims of later user priorities are closed and hold their axes back
  // ---------------------------

  struct Deferred {
    int value;
    IndexList replicated;  ///< as the user gave it
    std::vector<DimSharding> dims;
  };

  void defer(int v) {
    Value& value = graph_.values[std::size_t(v)];
    Deferred h{v, value.sharding.replicated, value.sharding.dims};
    for (DimSharding& d : value.sharding.dims) {
      if (d.priority == 0) continue;
      value.sharding.replicated.insert(value.sharding.replicated.end(), d.axes.begin(),
                                       d.axes.end());
      d.axes.clear();
      d.open = false;
    }
    deferred_.push_back(std::move(h));
  }

  void restore(int priority) {
    if (priority == 0) return;
    for (const Deferred& h : deferred_) {
      Value& value = graph_.values[std::size_t(h.value)];
      value.sharding.replicated = h.replicated;
      for (std::size_t d = 0; d < h.dims.size(); ++d) {
        const DimSharding& given = h.dims[d];
        if (given.priority == priority) {
          value.sharding.dims[d] = given;
        } else if (given.priority > priority) {
          value.sharding.replicated.insert(value.sharding.replicated.end(), given.axes.begin(),
                                           given.axes.end());
        }
      }
      changed(h.value);
    }
  }

  /// Not by an op: those that touch it have something to look at again.
  void changed(int v) {
    ++graph_.versions[std::size_t(v)];
    for (int user : graph_.ops_of(v)) quiet_[std::size_t(user)] = kAwake;
  }

  // --- one level
  // -----------------------------------------------------------------------------------

  void settle_level(int level) {
    settle(level, false);
    settle(level, true);
    // Once a level: what the callbacks say may let more flow, and is not asked for again.
    if (ask_callbacks()) {
      settle(level, false);
      settle(level, true);
    }
  }

  std::uint64_t version(const IndexList& values) const {
    std::uint64_t sum = 0;
    for (int v : values) sum += graph_.versions[std::size_t(v)];
    return sum;
  }
  const Permission& permission_of(std::size_t op, int level) const {
    return permissions_[kinds_[op]][std::size_t(level)];
  }

  // What an op was last found to have nothing to add under.
  static constexpr std::uint8_t kAwake = 255;
  static std::uint8_t quiet_under(int level, bool aggressive) {
    return std::uint8_t(2 * level + (aggressive ? 1 : 0));
  }
  bool is_quiet(std::size_t op, int level, bool aggressive) const {
    const std::uint8_t q = quiet_[op];
    if (q == kAwake) return false;
    const bool was_aggressive = q % 2;
    return (was_aggressive || !aggressive) && permission_of(op, q / 2) == permission_of(op, level);
  }

  /// Op after op as the program has them, but what a change concerns that was looked at before is
  /// looked at again at once, before what comes later: so an op that has to choose knows what its
  /// operands are asked for. (Shardy's order, too.)
  void settle(int level, bool aggressive) {
    if (graph_.provenance) {
      graph_.provenance->level = level;
      graph_.provenance->aggressive = aggressive;
    }
    IndexList again;  // of those before `next`; the last one comes first
    IndexList changed;
    for (int next = 0; !again.empty() || next < int(graph_.ops.size());) {
      int o = next;
      if (again.empty()) {
        ++next;
        if (!permission_of(std::size_t(o), level).enabled ||
            is_quiet(std::size_t(o), level, aggressive)) {
          continue;
        }
      } else {
        o = again.back();
        again.pop_back();
        queued_[std::size_t(o)] = 0;
      }
      changed.clear();
      const Op& op = graph_.ops[std::size_t(o)];
      const bool done =
          propagate_op(&graph_, op, permission_of(std::size_t(o), level), aggressive, &changed);
      for (int v : changed) changed_[std::size_t(v)] = 1;
      for (const IndexList* list : {&op.operands, &op.results}) {
        for (int v : *list) {
          if (changed_[std::size_t(v)]) wake_ops_of(v, o, next, level, &again);
          changed_[std::size_t(v)] = 0;
        }
      }
      if (done || changed.empty()) quiet_[std::size_t(o)] = quiet_under(level, aggressive || done);
    }
  }

  /// All but `but`, which has just seen to the value. Those from `next` on are looked at anyway; of
  /// the others the first user will be the next.
  void wake_ops_of(int value, int but, int next, int level, IndexList* again) {
    const auto wake = [&](int o) {
      quiet_[std::size_t(o)] = kAwake;
      if (o == but || o >= next || queued_[std::size_t(o)] ||
          !permission_of(std::size_t(o), level).enabled) {
        return;
      }
      queued_[std::size_t(o)] = 1;
      again->push_back(o);
    };
    const auto gives = [&](int o) {
      const IndexList& results = graph_.ops[std::size_t(o)].results;
      return contains(results, value);
    };
    const std::span<const int> ops = graph_.ops_of(value);
    for (int o : ops) {
      if (gives(o)) wake(o);
    }
    for (auto it = ops.rbegin(); it != ops.rend(); ++it) {
      if (!gives(*it)) wake(*it);
    }
  }

  // --- custom_partitioning by callbacks
  // ------------------------------------------------------------

  std::vector<ir::ShapeWithSharding> described(const IndexList& values,
                                               const std::vector<Shape>& shapes,
                                               bool with_sharding) const {
    std::vector<ir::ShapeWithSharding> list;
    for (std::size_t i = 0; i < values.size(); ++i) {
      ir::ShapeWithSharding item{shapes[i], std::nullopt};
      const TensorSharding& s = graph_.values[std::size_t(values[i])].sharding;
      if (with_sharding) item.sharding = coarsened(s.closed(), coarse_);
      list.push_back(std::move(item));
    }
    return list;
  }

  bool ask_callbacks() {
    bool any = false;
    for (CallbackOp& op : graph_.callbacks) {
      const ir::Instruction& i = *op.instruction;
      ir::CustomPartitioner& hook = *i.get<ir::CustomPartitioningAttrs>().partitioner;
      std::vector<Shape> operand_shapes, result_shapes = flatten(i.shape);
      for (const ir::Instruction* o : i.operands()) {
        for (Shape& leaf : flatten(o->shape)) operand_shapes.push_back(std::move(leaf));
      }
      bool has_inferred = false;
      if (hook.has_infer_callback() && op.operand_version != version(op.operands)) {
        op.operand_version = version(op.operands);
        std::vector<TensorSharding> inferred =
            hook.infer_sharding_from_operands(coarse_, described(op.operands, operand_shapes, true),
                                              described(op.results, result_shapes, false));
        has_inferred = std::any_of(inferred.begin(), inferred.end(), splits);
        // Without an inferred sharding users decide.
        if (has_inferred || inferred.size() != op.results.size()) {
          any |= take(op, inferred, "infer_sharding_from_operands");
        }
      }
      if (!has_inferred && hook.has_propagate_callback() &&
          op.result_version != version(op.results)) {
        bool splits_results = std::any_of(op.results.begin(), op.results.end(), [&](int v) {
          return splits(graph_.values[std::size_t(v)].sharding);
        });
        if (splits_results) {
          any |= take(
              op, hook.propagate_user_sharding(coarse_, described(op.results, result_shapes, true)),
              "propagate_user_sharding");
        }
      }
      op.result_version = version(op.results);
    }
    return any;
  }

  static bool splits(const TensorSharding& s) {
    return std::any_of(s.dims.begin(), s.dims.end(),
                       [](const DimSharding& d) { return !d.axes.empty(); });
  }

  bool take(CallbackOp& op, const std::vector<TensorSharding>& returned, const char* callback) {
    const ir::Instruction& i = *op.instruction;
    if (returned.size() != op.results.size()) {
      throw ValueError("custom_partitioning of " +
                           i.get<ir::CustomPartitioningAttrs>().partitioner->name() + ": " +
                           callback + " returned " + std::to_string(returned.size()) +
                           " shardings for " + std::to_string(op.results.size()) + " results",
                       i.location());
    }
    bool any = false;
    for (std::size_t r = 0; r < returned.size(); ++r) {
      Value& v = graph_.values[std::size_t(op.results[r])];
      // What the program states stays.
      if (!v.active || v.given || returned[r].kind != TensorSharding::Kind::axes) continue;
      if (returned[r].dims.size() != v.dims.size()) {
        throw ShardingError(
            "custom_partitioning of " + i.get<ir::CustomPartitioningAttrs>().partitioner->name() +
                ": " + callback + " returned " + returned[r].to_spec_string() + " for result " +
                std::to_string(r) + " of rank " + std::to_string(v.dims.size()),
            i.location());
      }
      if (returned[r].mesh && !same_mesh(returned[r].mesh, fine_)) {
        throw ShardingError("custom_partitioning of " +
                                i.get<ir::CustomPartitioningAttrs>().partitioner->name() + ": " +
                                callback + " returned a sharding on another mesh, " +
                                returned[r].to_string(),
                            i.location());
      }
      TensorSharding s = returned[r].on(fine_).closed();
      s.manual = v.sharding.manual;
      // The callback has spoken for all dims: users don't extend them.
      bool same = v.sharding.same_placement(s);
      if (graph_.provenance && !same) tell(op, op.results[r], s);
      v.sharding = std::move(s);
      if (!same) changed(op.results[r]);
      any |= !same;
    }
    return any;
  }

  void tell(const CallbackOp& op, int value, const TensorSharding& s) {
    for (std::size_t d = 0; d < s.dims.size(); ++d) {
      if (s.dims[d].axes.empty()) continue;
      Cause c;
      c.kind = Cause::Kind::callback;
      c.dim = int(d);
      c.axes = s.dims[d].axes;
      c.op = int(&op - graph_.callbacks.data());
      graph_.provenance->add(value, std::move(c));
    }
  }

  Graph& graph_;
  MeshRef fine_, coarse_;
  std::vector<char> queued_;                 ///< by op
  std::vector<char> changed_;                ///< by value, while an op is seen to
  std::vector<std::uint8_t> quiet_, kinds_;  ///< by op
  Permission permissions_[kKinds][kLevels];
  std::vector<Deferred> deferred_;
};

/// Arguments and results that propagation chose: even splits, of axes that the program itself
/// names.
TensorSharding for_boundary(const Value& v, const TensorSharding& s, const LogicalMesh& named) {
  TensorSharding out = s;
  for (std::size_t d = 0; d < out.dims.size(); ++d) {
    if (!s.dims[d].open) continue;
    IndexList& axes = out.dims[d].axes;
    axes = whole_axes(*out.mesh, named, axes);
    while (!axes.empty() && v.dims[d] % out.shards(std::int64_t(d)) != 0) {
      axes.pop_back();
      axes = whole_axes(*out.mesh, named, axes);
    }
  }
  return out;
}

/// `last`: nobody will ask the graph for shardings again.
void write_back(ir::Module* module, Graph* given, const MeshRef& fine, const MeshRef& coarse,
                bool last) {
  const Graph& graph = *given;
  std::vector<TensorSharding> of_value;
  of_value.reserve(graph.values.size());
  for (Value& v : given->values) {
    if (v.boundary && v.active) {
      of_value.push_back(for_boundary(v, v.sharding, *coarse));
    } else if (last) {
      of_value.push_back(std::move(v.sharding));
    } else {
      of_value.push_back(v.sharding);
    }
    for (DimSharding& d : of_value.back().dims) {
      d.open = false;
      d.priority = 0;
    }
    // Axes that are manual around a value were kept off it; it has nothing to say about them.
    const IndexList& manual = of_value.back().manual;
    erase_if(of_value.back().replicated, [&](int axis) { return contains(manual, axis); });
  }
  const MeshRef mesh = coarsest_mesh(of_value, fine, coarse);
  for (TensorSharding& s : of_value) {
    if (s.mesh == fine && mesh != fine) coarsen(&s, mesh);
  }
  std::vector<int> leaves_left(of_value.size(), 0);
  for (int v : graph.value_of_leaf) ++leaves_left[std::size_t(v)];
  for (ir::Computation* c : graph.computations) {
    for (const auto& i : c->instructions()) {
      const std::size_t leaves = graph.leaf_count(i.get());
      i->sharding.resize(leaves);
      for (std::size_t k = 0; k < leaves; ++k) {
        const auto v = std::size_t(graph.value_of(i.get(), k));
        if (--leaves_left[v] == 0) {
          i->sharding[k] = std::move(of_value[v]);
        } else {
          i->sharding[k] = of_value[v];
        }
      }
    }
  }
  module->mesh = mesh;
}

}  // namespace
}  // namespace propagation

struct Propagation::State {
  ir::Module* module;
  MeshRef fine, coarse;
  propagation::Graph graph;
  /// Before any axis flowed.
  std::vector<propagation::Value> values;
  std::vector<propagation::CallbackOp> callbacks;
  bool ran = false, once = false;
};

Propagation::Propagation(ir::Module* module, bool once) : state_(std::make_unique<State>()) {
  using namespace propagation;
  TESSERA_CHECK(module->entry(), "a module without an entry");
  normalize_custom_calls(module);
  manual::raise(module);
  extend_submeshes(module);
  settle_one_device_values(module);
  manual::bind(module);
  fold_moves(module);
  free_roots(module);
  split_constants(module);
  State& s = *state_;
  s.module = module;
  s.fine = unify_meshes(module, &s.coarse);
  module->mesh = s.coarse;
  s.graph = build_graph(module, s.fine);
  s.once = once;
  if (once) return;
  s.values = s.graph.values;
  s.callbacks = s.graph.callbacks;
}

Propagation::~Propagation() = default;

bool Propagation::is_free(int value, const TensorSharding& sharding) const {
  const propagation::Value& v = state_->values[std::size_t(value)];
  if (!v.active || sharding.dims.size() != v.dims.size() || !sharding.mesh ||
      sharding.mesh->axes != state_->fine->axes) {
    return false;
  }
  if (!v.boundary) return !v.given;
  // What the program leaves open, as callers expect arguments and results to be split.
  if (!v.open_boundary || !sharding.unreduced.empty()) return false;
  for (std::size_t d = 0; d < v.dims.size(); ++d) {
    const IndexList& axes = sharding.dims[d].axes;
    if (propagation::whole_axes(*state_->fine, *state_->coarse, axes) != axes ||
        v.dims[d] % sharding.shards(std::int64_t(d)) != 0) {
      return false;
    }
  }
  return true;
}

const propagation::Graph& Propagation::graph() const { return state_->graph; }
const MeshRef& Propagation::mesh() const { return state_->fine; }

TensorSharding Propagation::sharding_of(int value) const {
  const propagation::Value& v = state_->graph.values[std::size_t(value)];
  if (!v.boundary || !v.active) return v.sharding.closed();
  return propagation::for_boundary(v, v.sharding, *state_->coarse).closed();
}

void Propagation::run(const std::vector<Pin>& pins) {
  using namespace propagation;
  State& s = *state_;
  TESSERA_CHECK(!s.ran || !s.once, "a propagation that was to run once");
  if (s.ran) {
    s.graph.values = s.values;
    s.graph.versions.assign(s.values.size(), 0);
    s.graph.callbacks = s.callbacks;
  }
  for (const Pin& pin : pins) {
    propagation::Value& v = s.graph.values[std::size_t(pin.value)];
    TensorSharding pinned = pin.sharding.closed();
    pinned.mesh = s.fine;
    pinned.manual = v.sharding.manual;
    v.sharding = std::move(pinned);
    v.given = true;
  }
  Schedule(&s.graph, s.fine, s.coarse).run();
  if (!s.ran) {
    for (std::size_t i = 0; i < s.values.size(); ++i) {
      const propagation::Value& v = s.graph.values[i];
      if (!v.boundary || !v.active) continue;
      s.values[i].sharding = for_boundary(v, v.sharding, *s.coarse).closed();
    }
  }
  s.ran = true;
  write_back(s.module, &s.graph, s.fine, s.coarse, s.once);
  gather_before_loops(s.module);
}

void Propagation::run_once(propagation::Provenance* provenance) {
  State& s = *state_;
  TESSERA_CHECK(!s.ran, "a propagation that is to be has_inferred of has run before");
  provenance->state(s.graph);
  s.graph.provenance = provenance;
  propagation::Schedule(&s.graph, s.fine, s.coarse).run();
  s.graph.provenance = nullptr;
  propagation::write_back(s.module, &s.graph, s.fine, s.coarse, false);
  s.ran = true;
  provenance->mesh = s.fine;
  provenance->graph = std::move(s.graph);
}

void propagate(ir::Module* module, propagation::Provenance* provenance) {
  Propagation flow(module, true);
  if (provenance) {
    flow.run_once(provenance);
  } else {
    flow.run();
  }
}

}  // namespace tessera::spmd
