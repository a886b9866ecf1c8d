// SPDX-License-Identifier: Apache-2.0
// Derivatives of branches and of loops with a condition.
#include <algorithm>

#include "src/ir/cloner.h"
#include "src/ir/rewrite/while_view.h"
#include "src/transforms/jvp/site.h"
#include "src/transforms/jvp/split.h"
#include "src/transforms/utils/leaves.h"

namespace tessera::transforms {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

/// A computation with one tuple parameter, and its elements.
struct OfTuple {
  ir::Builder b;
  std::vector<Instruction*> elements;

  OfTuple(const JvpSite& s, const std::string& name, const std::vector<Instruction*>& like)
      : b(s.b.module()->add_computation(name)) {
    b.metadata = s.op.metadata;
    std::vector<Shape> shapes;
    for (const Instruction* i : like) shapes.push_back(i->shape);
    Instruction* parameter = b.parameter(0, Shape::tuple(std::move(shapes)));
    for (std::size_t k = 0; k < like.size(); ++k) {
      elements.push_back(b.get_tuple_element(parameter, std::int64_t(k)));
    }
  }
  std::span<Instruction* const> part(std::size_t from, std::size_t count) const {
    return std::span<Instruction* const>(elements).subspan(from, count);
  }
  Computation* finish(const std::vector<Instruction*>& root) {
    b.computation()->set_root(b.tuple(root));
    return b.computation();
  }
};

/// Tangents for the places that are marked, null elsewhere.
std::vector<Instruction*> at_places(const std::vector<bool>& marked,
                                    std::span<Instruction* const> known) {
  std::vector<Instruction*> out(marked.size(), nullptr);
  std::size_t next = 0;
  for (std::size_t k = 0; k < marked.size(); ++k) {
    if (marked[k]) out[k] = known[next++];
  }
  return out;
}

// ------------------------------------------------------------------ while

struct Loop {
  JvpSite& s;
  const Shape& state;
  std::vector<Instruction*> init, init_tangents;  ///< leaves of the state
  std::vector<bool> perturbed;

  explicit Loop(JvpSite& site)
      : s(site),
        state(site.op.shape),
        init(leaves_of(site.b, site.x[0])),
        init_tangents(leaves_of(site.dx[0], state)),
        perturbed(presence(init_tangents)) {}

  std::vector<Instruction*> initial_tangents() const {
    std::vector<Instruction*> out;
    for (std::size_t k = 0; k < init.size(); ++k) {
      if (perturbed[k]) out.push_back(materialize(s.b, init_tangents[k], init[k]->shape));
    }
    return out;
  }

  /// (state, tangents) -> the same after a trip; null if more of the state has tangents then.
  Computation* body(const std::vector<Instruction*>& all) {
    const Computation& original = *s.op.called(1);
    OfTuple out(s, original.name(), all);
    const std::size_t n = init.size();
    const std::vector<Instruction*> given = at_places(perturbed, out.part(n, all.size() - n));
    Instruction* argument = from_leaves(out.b, state, out.part(0, n));
    const Tangent tangent = tangent_from_leaves(state, given);
    const Dual d = jvp(original, out.b.computation(), {&argument, 1}, {&tangent, 1}, s.mode);
    std::vector<Instruction*> root = leaves_of(out.b, d.primal);
    const std::vector<Instruction*> tangents = leaves_of(d.tangent, state);
    bool more = false;
    for (std::size_t k = 0; k < n; ++k) {
      more = more || (tangents[k] != nullptr && !perturbed[k]);
      perturbed[k] = perturbed[k] || tangents[k] != nullptr;
    }
    if (more) return nullptr;
    for (std::size_t k = 0; k < n; ++k) {
      if (perturbed[k]) root.push_back(materialize(out.b, tangents[k], init[k]->shape));
    }
    return out.finish(root);
  }

  Computation* condition(const std::vector<Instruction*>& all) const {
    const Computation& original = *s.op.called(0);
    OfTuple out(s, original.name(), all);
    Instruction* argument = from_leaves(out.b, state, out.part(0, init.size()));
    Instruction* runs = ir::inline_computation(out.b.computation(), original, {&argument, 1});
    out.b.computation()->set_root(runs);
    return out.b.computation();
  }
};

}  // namespace

Tangent jvp_while(JvpSite& s) {
  Loop loop(s);
  if (s.mode == JvpMode::split) {
    // Those of known length are scans by now.
    s.refuse(
        "reverse mode through a loop needs to know how often it runs, and this one runs until a "
        "condition on values fails; use a scan, or a fori_loop with constant bounds, or forward "
        "mode (jvp)");
  }
  for (;;) {
    std::vector<Instruction*> all = loop.init;
    const std::vector<Instruction*> tangents = loop.initial_tangents();
    all.insert(all.end(), tangents.begin(), tangents.end());
    Computation* body = loop.body(all);
    if (body == nullptr) continue;
    Instruction* result =
        s.b.emit(Opcode::while_, {s.b.tuple(all)}, s.op.attrs, {loop.condition(all), body});
    const std::vector<Instruction*> last = elements_of(s.b, result);
    const std::span<Instruction* const> leaves(last);
    const std::size_t n = loop.init.size();
    s.result = from_leaves(s.b, loop.state, leaves.first(n));
    s.result->sharding = s.op.sharding;
    return tangent_from_leaves(loop.state, at_places(loop.perturbed, leaves.subspan(n)));
  }
}

// ------------------------------------------------------------------ conditional

namespace {

struct Branches {
  JvpSite& s;
  /// Leaves of the operand of each branch, and their tangents.
  std::vector<std::vector<Instruction*>> x, dx;

  explicit Branches(JvpSite& site) : s(site) {
    for (std::size_t k = 1; k < s.x.size(); ++k) {
      x.push_back(leaves_of(s.b, s.x[k]));
      dx.push_back(leaves_of(s.dx[k], s.x[k]->shape));
    }
  }
  std::size_t size() const { return x.size(); }
  const Computation& branch(std::size_t k) const { return *s.op.called(k); }

  Dual run(std::size_t k, ir::Builder& b, std::span<Instruction* const> arguments,
           std::span<Instruction* const> tangents) const {
    Instruction* argument = from_leaves(b, s.x[k + 1]->shape, arguments);
    const Tangent tangent =
        tangent_from_leaves(s.x[k + 1]->shape, at_places(presence(dx[k]), tangents));
    return jvp(branch(k), b.computation(), {&argument, 1}, {&tangent, 1}, s.mode);
  }
  Instruction* emit(std::vector<Instruction*> operands, std::vector<Computation*> called) const {
    operands.insert(operands.begin(), s.x[0]);
    return s.b.emit(Opcode::conditional, std::move(operands), s.op.attrs, std::move(called));
  }
};

Tangent joint(Branches& branches) {
  JvpSite& s = branches.s;
  const Shape& shape = s.op.shape;
  std::vector<OfTuple> made;
  std::vector<std::vector<Instruction*>> results, tangents;
  std::vector<Instruction*> operands;
  std::vector<bool> perturbed;
  for (std::size_t k = 0; k < branches.size(); ++k) {
    std::vector<Instruction*> all = branches.x[k];
    const std::vector<Instruction*> known = present(branches.dx[k]);
    all.insert(all.end(), known.begin(), known.end());
    OfTuple& out = made.emplace_back(s, branches.branch(k).name(), all);
    const std::size_t n = branches.x[k].size();
    const Dual d = branches.run(k, out.b, out.part(0, n), out.part(n, known.size()));
    results.push_back(leaves_of(out.b, d.primal));
    tangents.push_back(leaves_of(d.tangent, shape));
    perturbed.resize(results[k].size(), false);
    for (std::size_t j = 0; j < perturbed.size(); ++j) {
      perturbed[j] = perturbed[j] || tangents[k][j] != nullptr;
    }
    operands.push_back(s.b.tuple(all));
  }
  std::vector<Computation*> called;
  for (std::size_t k = 0; k < made.size(); ++k) {
    std::vector<Instruction*> root = results[k];
    for (std::size_t j = 0; j < perturbed.size(); ++j) {
      if (perturbed[j])
        root.push_back(materialize(made[k].b, tangents[k][j], results[k][j]->shape));
    }
    called.push_back(made[k].finish(root));
  }
  const std::vector<Instruction*> last = elements_of(s.b, branches.emit(operands, called));
  const std::span<Instruction* const> leaves(last);
  s.result = from_leaves(s.b, shape, leaves.first(perturbed.size()));
  s.result->sharding = s.op.sharding;
  return tangent_from_leaves(shape, at_places(perturbed, leaves.subspan(perturbed.size())));
}

/// The derivative of one branch, whose tuple is taken apart.
struct SplitBranch {
  Derivative d;
  Residuals residuals;
  std::vector<Instruction*> stored;  ///< those that are not arguments
};

/// A computation of arrays that does what one of a tuple does.
Computation* of_arrays(const Branches& branches, std::size_t k) {
  const Computation& original = branches.branch(k);
  Computation* out = original.module()->add_computation(original.name() + ".flat");
  ir::Builder b(out);
  b.metadata = branches.s.op.metadata;
  std::vector<Instruction*> parameters;
  for (const Instruction* x : branches.x[k]) {
    parameters.push_back(b.parameter(std::int64_t(parameters.size()), x->shape));
  }
  Instruction* argument = from_leaves(b, branches.s.x[k + 1]->shape, parameters);
  out->set_root(ir::inline_computation(out, original, {&argument, 1}));
  return out;
}

Tangent split(Branches& branches) {
  JvpSite& s = branches.s;
  const Shape& shape = s.op.shape;
  std::vector<SplitBranch> parts;
  std::vector<Shape> slots;  // what the branches store, side by side
  std::vector<bool> perturbed;
  for (std::size_t k = 0; k < branches.size(); ++k) {
    SplitBranch p;
    p.d = differentiate(*of_arrays(branches, k), {branches.x[k].size()}, presence(branches.dx[k]),
                        s.mode);
    p.residuals =
        choose_residuals(p.d, std::vector<std::int64_t>(p.d.computation->parameters().size(), 0));
    for (Instruction* r : p.residuals.values) {
      if (!r->is(Opcode::parameter)) p.stored.push_back(r);
    }
    for (const Instruction* r : p.stored) slots.push_back(r->shape);
    perturbed.resize(p.d.results.size(), false);
    for (std::size_t j = 0; j < perturbed.size(); ++j) {
      perturbed[j] = perturbed[j] || p.d.tangents[j] != nullptr;
    }
    parts.push_back(std::move(p));
  }
  // Forward: the results, then the slots; zeros in those of other branches.
  std::vector<Computation*> called;
  std::vector<Instruction*> operands;
  std::size_t before = 0;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    OfTuple out(s, branches.branch(k).name(), branches.x[k]);
    ir::Cloner cloner(*parts[k].d.computation, out.b.computation());
    for (std::size_t j = 0; j < out.elements.size(); ++j) {
      cloner.map(parts[k].d.arguments[j], out.elements[j]);
    }
    std::vector<Instruction*> root;
    for (Instruction* r : parts[k].d.results) root.push_back(cloner.clone_with_operands(*r));
    for (Instruction* e : effects_of(parts[k].d)) cloner.clone_with_operands(*e);
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      const bool own = slot >= before && slot < before + parts[k].stored.size();
      root.push_back(own ? cloner.clone_with_operands(*parts[k].stored[slot - before])
                         : zeros(out.b, slots[slot]));
    }
    before += parts[k].stored.size();
    called.push_back(out.finish(root));
    operands.push_back(s.b.tuple(branches.x[k]));
  }
  const std::vector<Instruction*> all = elements_of(s.b, branches.emit(operands, called));
  s.result = from_leaves(s.b, shape, std::span<Instruction* const>(all).first(perturbed.size()));
  s.result->sharding = s.op.sharding;
  // Linear.
  called.clear();
  operands.clear();
  std::size_t next = perturbed.size();
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const SplitBranch& p = parts[k];
    std::vector<Instruction*> values;
    for (const Instruction* r : p.residuals.values) {
      values.push_back(
          r->is(Opcode::parameter)
              ? branches.x[k][std::size_t(std::find(p.d.arguments.begin(), p.d.arguments.end(), r) -
                                          p.d.arguments.begin())]
              : all[next++]);
    }
    const std::size_t n = values.size();
    const std::vector<Instruction*> tangents = present(branches.dx[k]);
    values.insert(values.end(), tangents.begin(), tangents.end());
    OfTuple out(s, branches.branch(k).name() + ".linear", values);
    const std::vector<Instruction*> given = linear_part(
        p.d, p.residuals, out.part(0, n), out.part(n, tangents.size()), out.b.computation());
    std::vector<Instruction*> root;
    for (std::size_t j = 0; j < perturbed.size(); ++j) {
      if (perturbed[j]) root.push_back(materialize(out.b, given[j], p.d.results[j]->shape));
    }
    called.push_back(out.finish(root));
    operands.push_back(s.b.tuple(values));
  }
  const std::vector<Instruction*> known = elements_of(s.b, branches.emit(operands, called));
  return tangent_from_leaves(shape, at_places(perturbed, known));
}

}  // namespace

Tangent jvp_conditional(JvpSite& s) {
  Branches branches(s);
  return s.mode == JvpMode::joint ? joint(branches) : split(branches);
}

}  // namespace tessera::transforms
