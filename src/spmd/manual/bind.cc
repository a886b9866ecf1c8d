// SPDX-License-Identifier: Apache-2.0
// Turns the in and out shardings of manual computations into constraints on their boundary.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "src/base/check.h"
#include "src/base/contains.h"
#include "src/ir/analysis/device_computations.h"
#include "src/ir/constraint.h"
#include "src/ir/hlo/typed_calls.h"
#include "src/ir/rewrite/builder.h"
#include "src/spmd/manual/manual.h"

namespace tessera::spmd::manual {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Axes on a mesh; no mesh: none.
struct Axes {
  MeshRef mesh;
  IndexList axes;
};

/// What one call says.
struct Boundary {
  Boundary(const Instruction& call, const MeshRef& fallback) {
    const auto& attrs = call.get<ir::ManualComputationAttrs>();
    in = attrs.in_shardings;
    out = attrs.out_shardings;
    manual = {attrs.mesh ? attrs.mesh : fallback, attrs.manual_axes};
    for (const auto* list : {&in, &out}) {
      for (const TensorSharding& s : *list) {
        if (s.kind == TensorSharding::Kind::axes) continue;
        throw ShardingError("the manual computation " + call.name + " has the sharding " +
                                s.to_string() + ", which names no axes",
                            call.location());
      }
    }
  }

  std::vector<TensorSharding> in, out;
  Axes manual;
};

class Binder {
 public:
  explicit Binder(ir::Module* module) : module_(module) {
    for (const auto& c : module->computations()) {
      for (const auto& i : c->instructions()) any_ |= ir::is_manual_computation(*i);
    }
    if (any_) fallback_ = ir::named_meshes(*module).otherwise;
  }

  void run() {
    if (!any_) return;
    free_results();
    visit(module_->entry(), {});
    module_->remove_dead_computations();
  }

 private:
  /// What the program says of its results is no statement about what per-device code gives.
  void free_results() {
    ir::Computation* entry = module_->entry();
    Instruction* root = entry->root();
    const bool element =
        root->is(Opcode::get_tuple_element) && ir::is_manual_computation(*root->operand(0));
    if (!root->has_sharding() || (!element && !ir::is_manual_computation(*root))) return;
    std::vector<TensorSharding> stated;
    stated.swap(root->sharding);
    ir::Builder b(entry);
    b.metadata = root->metadata;
    if (root->shape.is_tuple) {
      std::vector<Instruction*> leaves;
      for (std::size_t k = 0; k < root->shape.elements.size(); ++k) {
        leaves.push_back(b.get_tuple_element(root, std::int64_t(k)));
      }
      root = b.tuple(leaves);
    } else {
      root = b.emit_shaped(Opcode::sharding_constraint, root->shape, {root},
                           ir::ShardingConstraintAttrs{});
    }
    root->sharding = std::move(stated);
    entry->set_root(root);
  }

  /// Calls of a computation that runs with `outer` axes manual.
  void visit(ir::Computation* c, const Axes& outer) {
    if (!visited_.insert(c).second) return;
    std::vector<Instruction*> all;
    for (const auto& i : c->instructions()) all.push_back(i.get());
    bool added = false;
    for (Instruction* i : all) {
      if (ir::is_manual_computation(*i)) {
        added |= bind(i, outer);
        continue;
      }
      const bool runs = i->is(Opcode::call) || i->is(Opcode::while_) || i->is(Opcode::conditional);
      if (!runs) continue;
      for (std::size_t k = 0; k < i->called().size(); ++k) {
        // Per-device code shares no callees with other code.
        if (!outer.axes.empty()) i->set_called(k, module_->import(*i->called(k)));
        visit(i->called(k), outer);
      }
    }
    if (added) c->sort_topologically();
  }

  ir::Computation* own(ir::Computation* c) {
    return taken_.insert(c).second ? c : module_->import(*c);
  }

  [[noreturn]] static void fail(const Instruction& call, const std::string& why) {
    throw ShardingError("the manual computation " + call.name + " " + why, call.location());
  }

  bool bind(Instruction* call, const Axes& outer) {
    if (call->called().size() != 1) fail(*call, "has no body");
    Boundary stated(*call, fallback_);
    Axes manual = stated.manual;
    for (Instruction* o : call->operands()) {
      if (!o->shape.is_array()) fail(*call, "takes " + o->name + ", which is no array");
    }
    const std::vector<Shape> results = flatten(call->shape);
    if (stated.in.size() != call->operands().size() || stated.out.size() != results.size()) {
      fail(*call, "has " + std::to_string(stated.in.size()) + " in_shardings and " +
                      std::to_string(stated.out.size()) + " out_shardings for " +
                      std::to_string(call->operands().size()) + " operands and " +
                      std::to_string(results.size()) + " results");
    }
    // On one mesh as far as they can be.
    auto join = [&](const MeshRef& mesh) {
      if (!mesh || !same_mesh(mesh, manual.mesh)) return;
      MeshRef common = common_refinement(mesh, manual.mesh);
      if (!common) fail(*call, "cuts an axis in ways that don't go together");
      manual = on(manual, common);
    };
    for (const auto* list : {&stated.in, &stated.out}) {
      for (const TensorSharding& s : *list) join(s.mesh);
    }
    Axes around = outer;
    if (!outer.axes.empty()) {
      if (!same_mesh(outer.mesh, manual.mesh))
        fail(*call, "is on another mesh than that around it");
      join(outer.mesh);
      around = on(outer, manual.mesh);
    }
    for (auto* list : {&stated.in, &stated.out}) {
      for (TensorSharding& s : *list) {
        if (s.mesh && same_mesh(s.mesh, manual.mesh)) s = s.on(manual.mesh);
      }
    }
    // What is manual around it is so within.
    manual.axes.erase(std::remove_if(manual.axes.begin(), manual.axes.end(),
                                     [&](int a) { return contains(around.axes, a); }),
                      manual.axes.end());
    Axes inner = manual;
    inner.axes.insert(inner.axes.end(), around.axes.begin(), around.axes.end());
    std::sort(inner.axes.begin(), inner.axes.end());
    bool partly = false;
    for (std::size_t a = 0; a < inner.mesh->axes.size(); ++a) {
      partly |= inner.mesh->axes[a].size > 1 && !contains(inner.axes, int(a));
    }
    for (auto* list : {&stated.in, &stated.out}) {
      for (TensorSharding& s : *list) check(*call, &s, manual, around, partly);
    }
    ir::Computation* body = own(call->called()[0]);
    call->set_called(0, body);
    check_shapes(*call, stated, results, manual, partly);
    if (partly) {
      declare(call, body, inner);
      visit(body, inner);
    } else {
      strip(body);
    }
    call->sharding = stated.out;
    for (std::size_t k = 0; k < call->operands().size(); ++k) {
      auto made = std::make_unique<Instruction>();
      made->opcode = Opcode::sharding_constraint;
      made->shape = call->operands()[k]->shape;
      made->name = "manual_operand";
      made->set_operands({call->operands()[k]});
      made->metadata = call->metadata;
      made->attrs = ir::ShardingConstraintAttrs{};
      made->sharding = {stated.in[k]};
      call->set_operand(k, call->parent->add(std::move(made)));
    }
    return !call->operands().empty();
  }

  static Axes on(const Axes& axes, const MeshRef& mesh) {
    TensorSharding s;
    s.mesh = axes.mesh;
    s.manual = axes.axes;
    return {mesh, s.on(mesh).manual};
  }

  /// Of a sharding at the boundary. Manual axes come first on a dim; those on none are kept off.
  static void check(const Instruction& call, TensorSharding* s, const Axes& manual,
                    const Axes& around, bool partly) {
    if (!partly) {
      // No axis is left that could be added.
      *s = s->closed();
      return;
    }
    if (!s->mesh) {
      *s = TensorSharding::replicated_on(manual.mesh, s->rank());
    } else if (s->mesh != manual.mesh) {
      throw NotImplementedError(
          "the manual computation " + call.name + " leaves axes of " + manual.mesh->name +
              " automatic and has a sharding on devices in another order, " + s->to_string(),
          call.location());
    }
    for (const DimSharding& d : s->dims) {
      bool automatic = false;
      for (int a : d.axes) {
        const bool is_manual = contains(manual.axes, a);
        if (contains(around.axes, a)) {
          fail(call, "names an axis in " + s->to_string() + " that is manual around it");
        }
        if (is_manual && automatic) {
          fail(call, "has the sharding " + s->to_string() +
                         ", where a manual axis stands behind one that isn't");
        }
        automatic |= !is_manual;
      }
    }
    for (const Axes* axes : {&manual, &around}) {
      for (int a : axes->axes) {
        const bool named = contains(s->replicated, a) || contains(s->unreduced, a);
        if (!s->uses_axis(a) && !named) s->replicated.push_back(a);
      }
    }
    s->manual = {};
  }

  static void check_shapes(const Instruction& call, const Boundary& stated,
                           const std::vector<Shape>& results, const Axes& manual, bool partly) {
    const ir::Computation& body = *call.called()[0];
    auto check_shape = [&](const std::string& what, const Shape& global, const TensorSharding& s,
                           const Shape& local) {
      if (s.rank() != global.rank()) {
        fail(call, "has the sharding " + s.to_string() + " for " + what + ", which is " +
                       global.to_string());
      }
      Shape expected = global;
      expected.layout.clear();
      for (std::size_t d = 0; d < global.dims.size(); ++d) {
        std::int64_t ways = 1;
        for (int a : s.dims[d].axes) {
          if (!partly || contains(manual.axes, a)) ways *= s.mesh->axes[std::size_t(a)].size;
        }
        if (global.dims[d] % ways != 0) {
          throw ShapeError("the manual computation " + call.name + " cuts dim " +
                               std::to_string(d) + " of " + what + ", " + global.to_string() +
                               ", into " + std::to_string(ways) +
                               " parts, which are not equal; sharding " + s.to_spec_string(),
                           call.location());
        }
        expected.dims[d] /= ways;
      }
      if (!(local.is_array() && local.dims == expected.dims && local.dtype == expected.dtype)) {
        throw ShapeError("the body of the manual computation " + call.name + " has for " + what +
                             " the shape " + local.to_string() + ", and a shard of " +
                             global.to_string() + " by " + s.to_spec_string() + " is " +
                             expected.to_string(),
                         call.location());
      }
    };
    if (body.parameters().size() != call.operands().size()) {
      fail(call, "has " + std::to_string(call.operands().size()) + " operands and a body of " +
                     std::to_string(body.parameters().size()) + " parameters");
    }
    for (std::size_t k = 0; k < call.operands().size(); ++k) {
      check_shape("operand " + std::to_string(k), call.operand(k)->shape, stated.in[k],
                  body.parameter(k)->shape);
    }
    const std::vector<Shape> locals = flatten(body.root()->shape);
    if (locals.size() != results.size()) {
      fail(call, "has " + std::to_string(results.size()) + " results and a body of " +
                     std::to_string(locals.size()));
    }
    for (std::size_t k = 0; k < results.size(); ++k) {
      check_shape("result " + std::to_string(k), results[k], stated.out[k], locals[k]);
    }
  }

  /// Gives a body that takes part in propagation its boundary.
  void declare(const Instruction* call, ir::Computation* body, const Axes& inner) {
    auto open = [&](const Shape& shape) {
      TensorSharding s = TensorSharding::open_on(inner.mesh, shape.rank());
      s.manual = inner.axes;
      return s;
    };
    for (ir::Instruction* p : body->parameters()) p->sharding = {open(p->shape)};
    ir::Builder b(body);
    b.metadata = call->metadata;
    std::vector<Instruction*> leaves;
    std::function<void(Instruction*)> take = [&](Instruction* x) {
      if (!x->shape.is_tuple) {
        leaves.push_back(b.unary(Opcode::copy, x));
        return;
      }
      for (std::size_t e = 0; e < x->shape.elements.size(); ++e) {
        take(x->is(Opcode::tuple) ? x->operand(e) : b.get_tuple_element(x, std::int64_t(e)));
      }
    };
    Instruction* root = body->root();
    take(root);
    Instruction* flat = b.tuple(leaves);
    for (const Instruction* leaf : leaves) flat->sharding.push_back(open(leaf->shape));
    body->set_root(flat);
    body->remove_dead();
    // A constraint can only speak of what is left automatic.
    for (const auto& i : body->instructions()) {
      for (TensorSharding& s : i->sharding) {
        if (s.kind == TensorSharding::Kind::axes) s.replicated.clear();
      }
    }
  }

  /// A body without automatic axes runs as it is.
  void strip(ir::Computation* body) {
    if (!stripped_.insert(body).second) return;
    bool any = false;
    for (const auto& i : body->instructions()) {
      i->sharding.clear();
      if (ir::is_manual_computation(*i)) {
        // Nothing is left for it to divide.
        i->opcode = Opcode::call;
        i->attrs = {};
        const Shape& met = i->called().at(0)->root()->shape;
        bool same = flatten(met) == flatten(i->shape) && met.is_tuple == i->shape.is_tuple;
        for (std::size_t k = 0; same && k < i->operands().size(); ++k) {
          same = i->operand(k)->shape.dims == i->called()[0]->parameter(k)->shape.dims;
        }
        if (!same) {
          throw ShardingError(
              "the manual computation " + i->name + " divides axes that are manual around it",
              i->location());
        }
      } else if (ir::is_constraint(*i) || i->is(Opcode::propagation_barrier) ||
                 i->is(Opcode::pvary)) {
        i->drop_side_effect();
        i->replace_all_uses_with(i->operand(0));
        any = true;
      }
    }
    for (const auto& i : body->instructions()) {
      for (ir::Computation* callee : i->called()) strip(callee);
    }
    if (any) body->remove_dead();
  }

  ir::Module* module_;
  MeshRef fallback_;
  bool any_ = false;
  // Looked up, never walked.
  std::set<const ir::Computation*> visited_, taken_, stripped_;
};

}  // namespace

void bind(ir::Module* module) {
  drop_tokens(module);
  Binder(module).run();
}

}  // namespace tessera::spmd::manual
