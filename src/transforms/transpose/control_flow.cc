// SPDX-License-Identifier: Apache-2.0
// Transposes of linear scans, branches and calls.
#include <algorithm>

#include "src/ir/cloner.h"
#include "src/ir/hooks.h"
#include "src/transforms/transpose/site.h"
#include "src/transforms/utils/custom_vjp.h"
#include "src/transforms/utils/forward_slice.h"
#include "src/transforms/utils/leaves.h"

namespace tessera::transforms {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

/// Linear parameters of `c` that the results of these elements depend on: others have no cotangent.
std::vector<bool> reaching(const Computation& c, const std::vector<bool>& linear,
                           const std::vector<bool>& elements) {
  const std::vector<bool> reached = forward_slice(c, linear);
  std::vector<bool> needed(c.instructions().size(), false);
  const std::vector<Instruction*>& root = c.root()->operands();
  for (std::size_t k = 0; k < root.size(); ++k) {
    if (elements[k]) needed[std::size_t(root[k]->index)] = true;
  }
  for (std::size_t n = c.instructions().size(); n-- > 0;) {
    const Instruction& i = *c.instructions()[n];
    if (!needed[n] || !reached[n]) continue;
    for (const Instruction* x : i.operands()) needed[std::size_t(x->index)] = true;
  }
  std::vector<bool> out;
  for (std::size_t k = 0; k < linear.size(); ++k) {
    out.push_back(linear[k] && needed[std::size_t(c.parameter(k)->index)]);
  }
  return out;
}

/// The transpose of a scan: the other way through the steps. It carries the cotangents of the
/// carries, and the sums of those of the constants.
struct ScanTranspose {
  TransposeSite& s;
  const ir::ScanAttrs& attrs;
  const Computation& step;
  std::size_t carries, constants, inputs, outputs;
  std::vector<bool> linear;  ///< of the operands
  std::vector<bool> wanted;  ///< linear, and with a cotangent
  std::vector<bool> has_ct;  ///< outputs with a cotangent

  explicit ScanTranspose(TransposeSite& site)
      : s(site),
        attrs(site.get<ir::ScanAttrs>()),
        step(*site.op.called(0)),
        carries(std::size_t(attrs.carries)),
        constants(std::size_t(attrs.constants)),
        inputs(site.op.operands().size() - carries - constants),
        outputs(site.op.shape.elements.size() - carries) {
    for (std::size_t k = 0; k < s.op.operands().size(); ++k) linear.push_back(s.is_linear(k));
    for (std::size_t k = inputs; k < inputs + carries; ++k) {
      // A tangent that starts as zero.
      if (!linear[k] && is_zero(*s.op.operand(k))) linear[k] = true;
      if (!linear[k]) s.refuse("a scan with a carry that is not linear has no transpose");
    }
    std::vector<bool> elements;
    for (std::size_t k = 0; k < outputs + carries; ++k) {
      if (k < outputs) has_ct.push_back(!s.ct.element(k).is_zero());
      elements.push_back(k >= outputs || has_ct[k]);
    }
    wanted = reaching(step, linear, elements);
  }

  bool is_input(std::size_t k) const { return k < inputs; }
  bool is_constant(std::size_t k) const { return k >= inputs + carries; }

  void run() {
    Computation* back = step.module()->add_computation(step.name() + ".transpose");
    ir::Builder in(back);
    in.metadata = s.op.metadata;
    ir::Cloner cloner(step, back);
    std::int64_t number = 0;
    std::vector<Instruction*> operands;
    const auto parameter = [&](const Shape& shape, Instruction* operand) {
      operands.push_back(operand);
      return in.parameter(number++, shape);
    };
    // Inputs: residuals, cotangents of outputs.
    for (std::size_t k = 0; k < inputs; ++k) {
      if (linear[k]) continue;
      cloner.map(step.parameter(k), parameter(step.parameter(k)->shape, s.operand(k)));
    }
    std::vector<Tangent> ct(outputs + carries);
    for (std::size_t k = 0; k < outputs; ++k) {
      if (!has_ct[k]) continue;
      ct[k] = parameter(step.root()->shape.elements[k], s.ct.element(k).array);
    }
    // Carries: cotangents of carries, sums.
    for (std::size_t k = 0; k < carries; ++k) {
      const Shape& shape = step.parameter(inputs + k)->shape;
      ct[outputs + k] = parameter(shape, materialize(s.b, s.ct.element(outputs + k), shape));
    }
    std::vector<Instruction*> sums(linear.size(), nullptr);
    std::int64_t carried = std::int64_t(carries);
    for (std::size_t k = inputs + carries; k < linear.size(); ++k) {
      if (!wanted[k]) continue;
      const Shape& shape = step.parameter(k)->shape;
      sums[k] = parameter(shape, zeros(s.b, shape));
      ++carried;
    }
    // Constants: residuals.
    std::int64_t constant_count = 0;
    for (std::size_t k = inputs + carries; k < linear.size(); ++k) {
      if (linear[k]) continue;
      cloner.map(step.parameter(k), parameter(step.parameter(k)->shape, s.operand(k)));
      ++constant_count;
    }
    const std::vector<Tangent> given = transpose(step, linear, Tangent::tuple(ct), cloner, back);
    in.metadata = s.op.metadata;
    std::vector<Instruction*> root;
    const auto known = [&](std::size_t k) {
      return materialize(in, given[k], step.parameter(k)->shape);
    };
    for (std::size_t k = 0; k < inputs; ++k) {
      if (wanted[k]) root.push_back(known(k));
    }
    for (std::size_t k = 0; k < carries; ++k) root.push_back(known(inputs + k));
    for (std::size_t k = inputs + carries; k < linear.size(); ++k) {
      if (wanted[k]) root.push_back(sum(in, sums[k], given[k]).array);
    }
    back->set_root(in.tuple(root));
    ir::ScanAttrs a = attrs;
    a.reverse = !attrs.reverse;
    a.carries = carried;
    a.constants = constant_count;
    const std::vector<Instruction*> all =
        elements_of(s.b, s.b.emit(Opcode::scan, operands, a, {back}));
    std::size_t next = 0;
    for (std::size_t k = 0; k < inputs; ++k) {
      if (wanted[k]) s.give(k, all[next++]);
    }
    for (std::size_t k = 0; k < carries; ++k) s.give(inputs + k, all[next++]);
    for (std::size_t k = inputs + carries; k < linear.size(); ++k) {
      if (wanted[k]) s.give(k, all[next++]);
    }
  }
};

/// A branch of a tuple as a function of the tuple's elements, which are its parameters.
Computation* flattened(const Computation& branch, const std::vector<Instruction*>& elements) {
  Computation* flat = branch.module()->add_computation(branch.name() + ".flat");
  ir::Builder of_flat(flat);
  std::vector<Instruction*> parameters;
  for (const Instruction* x : elements) {
    parameters.push_back(of_flat.parameter(std::int64_t(parameters.size()), x->shape));
  }
  ir::Cloner to_flat(branch, flat);
  Instruction* whole = of_flat.tuple(parameters);
  to_flat.map(branch.parameter(0), whole);
  for (Instruction* user : branch.parameter(0)->users()) {
    if (user->is(Opcode::get_tuple_element)) {
      to_flat.map(user, parameters[std::size_t(user->get<ir::GetTupleElementAttrs>().index)]);
    }
  }
  for (const auto& i : branch.instructions()) {
    if (!to_flat.has(i.get())) to_flat.clone(*i);
  }
  flat->set_root(to_flat[branch.root()]);
  return flat;
}

/// The branches' own cotangents side by side, zeros in the places of others.
void join_cotangents(const std::vector<Computation*>& branches) {
  std::vector<Shape> slots;
  for (const Computation* c : branches) {
    const auto& shapes = c->root()->shape.elements;
    slots.insert(slots.end(), shapes.begin(), shapes.end());
  }
  std::size_t before = 0;
  for (Computation* c : branches) {
    ir::Builder in(c);
    const std::vector<Instruction*> own = c->root()->operands();
    std::vector<Instruction*> root;
    for (std::size_t n = 0; n < slots.size(); ++n) {
      const bool mine = n >= before && n < before + own.size();
      root.push_back(mine ? own[n - before] : zeros(in, slots[n]));
    }
    before += own.size();
    c->set_root(in.tuple(root));
  }
}

}  // namespace

void transpose_scan(TransposeSite& s) { ScanTranspose(s).run(); }

// ------------------------------------------------------------------ conditional

void transpose_conditional(TransposeSite& s) {
  if (s.is_linear(0)) s.refuse("the branch depends on what is linear");
  const std::vector<Instruction*> ct = leaves_of(s.ct, s.op.shape);
  const std::vector<Instruction*> known = present(ct);
  std::vector<Instruction*> operands{s.operand(0)};
  std::vector<Computation*> called;
  for (std::size_t k = 1; k < s.op.operands().size(); ++k) {
    // jvp gives each branch a tuple of residuals and tangents.
    const Instruction* given = s.op.operand(k);
    if (!given->is(Opcode::tuple)) s.refuse("a branch of an operand that is no tuple");
    const Computation& branch = *s.op.called(k - 1);
    std::vector<Instruction*> values;
    std::vector<bool> linear;
    for (const Instruction* x : given->operands()) {
      linear.push_back(s.reached[std::size_t(x->index)]);
      if (!linear.back()) values.push_back(s.cloner.clone_with_operands(*x));
    }
    const std::size_t residuals = values.size();
    values.insert(values.end(), known.begin(), known.end());
    std::vector<Shape> shapes;
    for (const Instruction* v : values) shapes.push_back(v->shape);
    Computation* back = branch.module()->add_computation(branch.name() + ".transpose");
    ir::Builder in(back);
    in.metadata = s.op.metadata;
    Instruction* parameter = in.parameter(0, Shape::tuple(shapes));
    std::vector<Instruction*> inside;
    for (std::size_t n = 0; n < values.size(); ++n) {
      inside.push_back(in.get_tuple_element(parameter, std::int64_t(n)));
    }
    Computation* flat = flattened(branch, given->operands());
    const std::vector<Instruction*> parameters = flat->parameters();
    ir::Cloner cloner(*flat, back);
    std::size_t next = 0;
    for (std::size_t n = 0; n < linear.size(); ++n) {
      if (!linear[n]) cloner.map(parameters[n], inside[next++]);
    }
    std::vector<Instruction*> ct_inside;
    next = residuals;
    for (const Instruction* c : ct) ct_inside.push_back(c == nullptr ? nullptr : inside[next++]);
    const std::vector<Tangent> out =
        transpose(*flat, linear, tangent_from_leaves(s.op.shape, ct_inside), cloner, back);
    called.push_back(back);
    operands.push_back(s.b.tuple(values));
    // Each branch gives the cotangents of all branches' linear operands: see below.
    std::vector<Instruction*> own;
    for (std::size_t n = 0; n < linear.size(); ++n) {
      if (linear[n]) own.push_back(materialize(in, out[n], parameters[n]->shape));
    }
    back->set_root(in.tuple(own));
  }
  join_cotangents(called);
  const std::vector<Instruction*> all =
      elements_of(s.b, s.b.emit(Opcode::conditional, operands, s.op.attrs, called));
  std::size_t next = 0;
  for (std::size_t k = 1; k < s.op.operands().size(); ++k) {
    const Instruction* given = s.op.operand(k);
    std::vector<Tangent> elements;
    for (const Instruction* x : given->operands()) {
      const bool linear = s.reached[std::size_t(x->index)];
      elements.push_back(linear ? Tangent(all[next++]) : Tangent());
    }
    s.give(k, Tangent::tuple(std::move(elements)));
  }
}

// ------------------------------------------------------------------ calls

void transpose_remat(TransposeSite& s) {
  const Computation& body = *s.op.called(0);
  Computation* back = body.module()->add_computation(body.name() + ".transpose");
  ir::Builder in(back);
  in.metadata = s.op.metadata;
  ir::Cloner cloner(body, back);
  std::vector<Instruction*> operands;
  std::vector<bool> linear;
  std::int64_t number = 0;
  for (std::size_t k = 0; k < s.op.operands().size(); ++k) {
    linear.push_back(s.is_linear(k));
    if (linear[k]) continue;
    operands.push_back(s.operand(k));
    cloner.map(body.parameter(k), in.parameter(number++, s.shape(k)));
  }
  std::vector<Instruction*> ct = leaves_of(s.ct, s.op.shape);
  for (Instruction*& c : ct) {
    if (c == nullptr) continue;
    operands.push_back(c);
    c = in.parameter(number++, c->shape);
  }
  const std::vector<Tangent> out =
      transpose(body, linear, tangent_from_leaves(s.op.shape, ct), cloner, back);
  std::vector<Instruction*> root;
  for (const Tangent& t : out) {
    if (!t.is_zero()) root.push_back(t.array);
  }
  in.metadata = s.op.metadata;
  back->set_root(in.tuple(root));
  const std::vector<Instruction*> all =
      elements_of(s.b, s.b.emit(Opcode::remat, operands, s.op.attrs, {back}));
  std::size_t next = 0;
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (!out[k].is_zero()) s.give(k, all[next++]);
  }
}

void transpose_custom_derivative(TransposeSite& s) {
  s.refuse("a custom derivative in a linear function has no transpose of its own");
}

/// What stands for the tangent of a custom_vjp: its transpose is the backward rule.
namespace {

/// T X = B is linear in B: the cotangent of B solves with the transposed matrix.
void transpose_tridiagonal_solve(TransposeSite& s) {
  if (s.is_linear(0) || s.is_linear(1) || s.is_linear(2)) {
    s.refuse("it is not linear in the matrix");
  }
  const auto moved = [&](std::size_t k, std::int64_t shift) {
    Instruction* x = s.operand(k);
    std::vector<ir::PadDim> dims(x->shape.dims.size());
    dims.back() = {shift, -shift, 0};
    return x->shape.dims.back() == 0 ? x : s.b.pad(x, s.b.zero(x->shape.dtype), dims);
  };
  Instruction* ct = materialize(s.b, s.ct.element(3), s.op.shape.elements[3]);
  Instruction* call = s.clone_on({moved(2, 1), s.operand(1), moved(0, -1), ct});
  s.give(3, s.b.get_tuple_element(call, 3));
}

}  // namespace

void transpose_custom_call(TransposeSite& s) {
  const std::string& target = s.get<ir::CustomCallAttrs>().target;
  if (target.starts_with("lapack_") && target.ends_with("gtsv_ffi")) {
    return transpose_tridiagonal_solve(s);
  }
  if (s.get<ir::CustomCallAttrs>().target != kCustomVjpTangent) {
    s.refuse("nothing says what the transpose of a custom call of " +
             s.get<ir::CustomCallAttrs>().target + " is");
  }
  std::vector<Instruction*> arguments;
  // Tangents come last; those that are zero are arrays, too, and not linear.
  const Computation* backward = s.op.called(0);
  const std::size_t tangents = backward->root()->shape.elements.size();
  const std::size_t first = s.op.operands().size() - tangents;
  for (std::size_t k = 0; k < first; ++k) arguments.push_back(s.operand(k));
  std::vector<bool> zero;
  for (std::size_t k = 0; k < s.op.shape.elements.size(); ++k) {
    zero.push_back(s.ct.element(k).is_zero());
  }
  const auto& rule = s.get<ir::CustomCallAttrs>().backward;
  const bool told = rule != nullptr && std::find(zero.begin(), zero.end(), true) != zero.end();
  if (told) backward = rule->trace(s.b.module(), zero);
  for (std::size_t k = 0; k < zero.size(); ++k) {
    if (told && zero[k]) continue;
    arguments.push_back(materialize(s.b, s.ct.element(k), s.op.shape.elements[k]));
  }
  Instruction* out = ir::inline_computation(s.b.computation(), *backward, arguments);
  const std::vector<Instruction*> all = elements_of(s.b, out);
  for (std::size_t k = 0; k < tangents; ++k) s.give(first + k, all[k]);
}

}  // namespace tessera::transforms
