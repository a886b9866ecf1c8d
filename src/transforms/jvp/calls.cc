// SPDX-License-Identifier: Apache-2.0
// Derivatives of calls that say more than which computation they call: remat, custom derivatives,
// custom partitioning.
#include <algorithm>
#include <optional>

#include "src/base/contains.h"
#include "src/base/platforms.h"
#include "src/ir/cloner.h"
#include "src/ir/hooks.h"
#include "src/ir/rewrite/derivative_rules.h"
#include "src/transforms/jvp/site.h"
#include "src/transforms/jvp/split.h"
#include "src/transforms/utils/custom_vjp.h"
#include "src/transforms/utils/forward_slice.h"
#include "src/transforms/utils/leaves.h"

namespace tessera::transforms {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

/// The derivative of what the op calls, whose parameters are arrays.
Derivative of_callee(JvpSite& s) {
  for (const Instruction* x : s.x) {
    if (x->shape.is_tuple) s.refuse("it takes a tuple; pass the elements as operands");
  }
  std::vector<bool> perturbed;
  for (const Tangent& t : s.dx) perturbed.push_back(!t.is_zero());
  return differentiate(*s.op.called(0), {s.x.size()}, perturbed, s.mode);
}

std::vector<Instruction*> with_tangents(const JvpSite& s) {
  std::vector<Instruction*> out = s.x;
  for (const Tangent& t : s.dx) {
    if (!t.is_zero()) out.push_back(t.array);
  }
  return out;
}

/// The tangents that are there, where they belong.
Tangent placed(const JvpSite& s, const std::vector<Instruction*>& where,
               std::span<Instruction* const> known) {
  std::vector<Instruction*> leaves;
  std::size_t next = 0;
  for (const Instruction* t : where) leaves.push_back(t == nullptr ? nullptr : known[next++]);
  return tangent_from_leaves(s.op.shape, leaves);
}

}  // namespace

// ------------------------------------------------------------------ remat

namespace {

/// What one policy saves, where it is or in another memory.
bool matches(const ir::RematPolicy& p, const Instruction& i) {
  using Kind = ir::RematPolicy::Kind;
  const auto* dot = i.attrs.get_if<ir::DotAttrs>();
  const auto name = i.frontend_attributes->find(ir::kCheckpointName);
  const bool named = name != i.frontend_attributes->end();
  const auto among = [&](const std::vector<std::string>& names) {
    return named && tessera::contains(names, name->second);
  };
  switch (p.kind) {
    case Kind::everything_saveable:
      return true;
    case Kind::dots_saveable:
      return dot != nullptr;
    case Kind::dots_with_no_batch_dims_saveable:
    case Kind::offload_dot_with_no_batch_dims:
      return dot != nullptr && dot->lhs_batch.empty();
    case Kind::save_only_these_names:
      return among(p.names);
    case Kind::save_and_offload_only_these_names:
      return among(p.names) || among(p.offloaded_names);
    case Kind::save_any_names_but_these:
      return named && !among(p.names);
    case Kind::save_anything_except_these_names:
      return !among(p.names);
  }
  return false;
}

MemoryKind named_memory(JvpSite& s, const std::string& kind) {
  const auto memory = memory_kind_named(kind);
  if (!memory) {
    s.refuse("its policy names memory of kind '" + kind +
             "'; valid: " + list_of(all_memory_kinds()));
  }
  return *memory;
}

/// Where a saved value waits: in another memory, if the first policy that saves it says so.
std::optional<ir::DevicePlacementAttrs> waits_in(JvpSite& s, const Instruction& saved) {
  using Kind = ir::RematPolicy::Kind;
  if (saved.is(Opcode::parameter)) return std::nullopt;
  for (const ir::RematPolicy& p : s.get<ir::RematAttrs>().policies) {
    if (!matches(p, saved)) continue;
    const auto name = saved.frontend_attributes->find(ir::kCheckpointName);
    const bool offloads = p.kind == Kind::offload_dot_with_no_batch_dims ||
                          (p.kind == Kind::save_and_offload_only_these_names &&
                           name != saved.frontend_attributes->end() &&
                           tessera::contains(p.offloaded_names, name->second));
    if (!offloads) return std::nullopt;
    ir::DevicePlacementAttrs out;
    out.memory = named_memory(s, p.to_memory);
    out.source = named_memory(s, p.from_memory);
    return out;
  }
  return std::nullopt;
}

/// What the policies save of what the tangents need; the arguments are there anyhow.
Residuals saved_values(const JvpSite& s, const Derivative& d) {
  const auto& policies = s.get<ir::RematAttrs>().policies;
  const Computation& c = *d.computation;
  std::vector<bool> tangent_parameters(c.parameters().size(), false);
  for (const Instruction* t : d.tangent_arguments) {
    if (t != nullptr) tangent_parameters[std::size_t(t->get<ir::ParameterAttrs>().number)] = true;
  }
  const std::vector<bool> linear = forward_slice(c, tangent_parameters);
  std::vector<bool> needed(c.instructions().size(), false);
  for (const Instruction* t : d.tangents) {
    if (t != nullptr) needed[std::size_t(t->index)] = true;
  }
  Residuals out;
  for (std::size_t n = c.instructions().size(); n-- > 0;) {
    Instruction* i = c.instructions()[n].get();
    if (!needed[n]) continue;
    const auto saves = [&](const ir::RematPolicy& p) { return matches(p, *i); };
    const bool saved =
        i->is(Opcode::parameter) || (!ir::is_generated(i->opcode) && i->shape.is_array() &&
                                     std::any_of(policies.begin(), policies.end(), saves));
    if (!linear[n] && saved) {
      out.values.push_back(i);
      continue;
    }
    for (const Instruction* x : i->operands()) needed[std::size_t(x->index)] = true;
  }
  std::reverse(out.values.begin(), out.values.end());
  return out;
}

Tangent split_remat(JvpSite& s) {
  const Derivative d = of_callee(s);
  const Residuals saved = saved_values(s, d);
  // The results and what is saved are computed as if there were no remat.
  ir::Cloner cloner(*d.computation, s.b.computation());
  for (std::size_t k = 0; k < s.x.size(); ++k) cloner.map(d.arguments[k], s.x[k]);
  std::vector<Instruction*> results, values, tangents;
  for (Instruction* r : d.results) results.push_back(cloner.clone_with_operands(*r));
  for (Instruction* e : effects_of(d)) cloner.clone_with_operands(*e);
  std::vector<std::optional<ir::DevicePlacementAttrs>> waits;
  for (Instruction* r : saved.values) {
    values.push_back(cloner.clone_with_operands(*r));
    waits.push_back(waits_in(s, *r));
    if (waits.back()) {
      values.back() = s.b.emit(Opcode::device_placement, {values.back()}, *waits.back());
    }
  }
  s.result = from_leaves(s.b, s.op.shape, results);

  Computation* body = d.computation->module()->add_computation(s.op.called(0)->name() + ".again");
  ir::Builder in(body);
  in.metadata = s.op.metadata;
  std::int64_t number = 0;
  std::vector<Instruction*> inside;
  for (std::size_t k = 0; k < values.size(); ++k) {
    inside.push_back(in.parameter(number++, values[k]->shape));
    if (!waits[k]) continue;
    std::swap(waits[k]->memory, waits[k]->source);
    inside.back() = in.emit(Opcode::device_placement, {inside.back()}, *waits[k]);
  }
  for (const Tangent& t : s.dx) {
    if (t.is_zero()) continue;
    values.push_back(t.array);
    tangents.push_back(in.parameter(number++, t.array->shape));
  }
  const std::vector<Instruction*> out = linear_part(d, saved, inside, tangents, body);
  body->set_root(in.tuple(present(out)));
  auto attrs = s.get<ir::RematAttrs>();
  attrs.differentiated = true;
  Instruction* again = s.b.emit(Opcode::remat, values, attrs, {body});
  return placed(s, out, elements_of(s.b, again));
}

}  // namespace

Tangent jvp_remat(JvpSite& s) {
  if (s.mode == JvpMode::split) return split_remat(s);
  const Derivative d = of_callee(s);
  ir::Builder in(d.computation);
  in.metadata = s.op.metadata;
  std::vector<Instruction*> root = d.results;
  const std::vector<Instruction*> tangents = present(d.tangents);
  root.insert(root.end(), tangents.begin(), tangents.end());
  d.computation->set_root(in.tuple(root));
  Instruction* both = s.b.emit(Opcode::remat, with_tangents(s), s.op.attrs, {d.computation});
  const std::vector<Instruction*> all = elements_of(s.b, both);
  const std::span<Instruction* const> leaves(all);
  s.result = from_leaves(s.b, s.op.shape, leaves.first(d.results.size()));
  return placed(s, d.tangents, leaves.subspan(d.results.size()));
}

// ------------------------------------------------------------------ custom derivatives

namespace {

struct CustomRule {
  JvpSite& s;
  const ir::CustomDerivativeAttrs& attrs;
  Instruction* op;  ///< a copy in the target, whose rule is traced
  std::vector<std::size_t> differentiable;
  std::vector<bool> perturbed;

  explicit CustomRule(JvpSite& site)
      : s(site), attrs(site.get<ir::CustomDerivativeAttrs>()), op(site.clone_on(site.x)) {
    for (auto k = std::size_t(attrs.nondiff); k < s.x.size(); ++k) {
      if (!has_tangent(s.x[k]->shape)) continue;
      differentiable.push_back(k);
      perturbed.push_back(!s.dx[k].is_zero());
    }
    for (std::size_t k = 0; k < std::size_t(attrs.nondiff); ++k) {
      if (s.dx[k].is_zero()) continue;
      s.refuse(
          attrs.label +
          " captures an array that is differentiated, of which its rule knows nothing; pass it "
          "as an argument");
    }
  }

  Tangent by_jvp() {
    Computation* rule = nullptr;
    if (attrs.symbolic_zeros) {
      if (attrs.rules == nullptr) s.refuse("its rule is not known");
      rule = attrs.rules->jvp(*op, perturbed);
    } else {
      ir::trace_rules(op);
      rule = op->called(1);
    }
    std::vector<Instruction*> arguments = s.x;
    std::vector<Tangent> tangents(s.x.size());
    for (std::size_t n = 0; n < differentiable.size(); ++n) {
      if (attrs.symbolic_zeros && !perturbed[n]) continue;
      const std::size_t k = differentiable[n];
      // The rule is linear in tangents: its own derivative in their direction is what it gives for
      // them, and has loops and branches cut where it must be.
      const bool again = s.mode == JvpMode::split;
      arguments.push_back(again ? zeros(s.b, s.x[k]->shape) : s.tangent(k));
      tangents.push_back(again ? s.dx[k] : Tangent());
    }
    const Dual d = jvp(*rule, s.b.computation(), arguments, tangents, s.mode);
    const std::vector<Instruction*> all = leaves_of(s.b, d.primal);
    const std::vector<Instruction*> derivatives = leaves_of(d.tangent, rule->root()->shape);
    const std::vector<Shape> shapes = flatten(s.op.shape);
    const std::span<Instruction* const> leaves(all);
    s.result = from_leaves(s.b, s.op.shape, leaves.first(shapes.size()));
    std::vector<Instruction*> out;
    std::size_t next = shapes.size();
    for (const Shape& shape : shapes) {
      if (!has_tangent(shape)) {
        out.push_back(nullptr);
        continue;
      }
      out.push_back(s.mode == JvpMode::split ? derivatives[next] : all[next]);
      ++next;
    }
    return tangent_from_leaves(s.op.shape, out);
  }

  Tangent by_vjp() {
    if (s.mode == JvpMode::joint) {
      s.refuse("forward mode can't go through " + attrs.label +
               ", which has a rule for reverse mode (custom_vjp) only; valid: custom_jvp");
    }
    ir::DerivativeRules::Vjp rule;
    if (attrs.symbolic_zeros) {
      if (attrs.rules == nullptr) s.refuse("its rule is not known");
      rule = attrs.rules->vjp(*op, perturbed);
    } else {
      ir::trace_rules(op);
      rule.forward = op->called(1);
      rule.backward = op->called(2);
      rule.residuals = op->get<ir::CustomDerivativeAttrs>().residuals;
    }
    Instruction* forward = ir::inline_computation(s.b.computation(), *rule.forward, s.x);
    const std::vector<Instruction*> all = leaves_of(s.b, forward);
    const std::vector<Shape> shapes = flatten(s.op.shape);
    const std::span<Instruction* const> leaves(all);
    s.result = from_leaves(s.b, s.op.shape, leaves.first(shapes.size()));
    // (operands without derivative, residuals, tangents) -> tangents of the results
    std::vector<Instruction*> operands(s.x.begin(), s.x.begin() + std::ptrdiff_t(attrs.nondiff));
    operands.insert(operands.end(), all.begin() + std::ptrdiff_t(shapes.size()), all.end());
    for (const std::size_t k : differentiable) operands.push_back(s.tangent(k));
    std::vector<Shape> given;
    for (const Shape& shape : shapes) {
      if (has_tangent(shape)) given.push_back(shape);
    }
    ir::CustomCallAttrs call;
    call.target = kCustomVjpTangent;
    call.backward = rule.rule;
    Instruction* tangent =
        s.b.emit_shaped(Opcode::custom_call, Shape::tuple(given), operands, call, {rule.backward});
    if (const auto types = s.op.frontend_attributes->find(kVaries);
        types != s.op.frontend_attributes->end()) {
      const std::vector<ir::VaryingAxes> leaves = varies_from_text(types->second);
      std::vector<ir::VaryingAxes> kept;
      for (std::size_t k = 0; k < shapes.size(); ++k) {
        if (has_tangent(shapes[k])) kept.push_back(leaves.at(k));
      }
      tangent->frontend_attributes.edit()[kVaries] = varies_text(kept);
    }
    const std::vector<Instruction*> known = elements_of(s.b, tangent);
    std::vector<Instruction*> out;
    std::size_t next = 0;
    for (const Shape& shape : shapes) out.push_back(has_tangent(shape) ? known[next++] : nullptr);
    return tangent_from_leaves(s.op.shape, out);
  }
};

}  // namespace

namespace {

/// Only arrays that nothing but the rule uses have tangents.
bool rule_alone_is_perturbed(const JvpSite& s) {
  for (std::size_t k = 0; k < s.x.size(); ++k) {
    if (s.dx[k].is_zero()) continue;
    const bool captured = k < std::size_t(s.get<ir::CustomDerivativeAttrs>().nondiff);
    if (!captured || !s.op.called(0)->parameter(k)->users().empty()) return false;
  }
  return true;
}

}  // namespace

Tangent jvp_custom_derivative(JvpSite& s) {
  using Kind = ir::CustomDerivativeAttrs::Kind;
  if (s.get<ir::CustomDerivativeAttrs>().kind == Kind::zero) return {};
  if (s.get<ir::CustomDerivativeAttrs>().kind == Kind::batch) return jvp_call(s);
  if (rule_alone_is_perturbed(s)) return {};
  CustomRule rule(s);
  return rule.attrs.kind == Kind::jvp ? rule.by_jvp() : rule.by_vjp();
}

// ------------------------------------------------------------------ partitioning by hand

Tangent jvp_custom_partitioning(JvpSite& s) {
  if (s.op.called().empty()) {
    s.refuse("the text that it was read from lacks the computation that it stands for");
  }
  return jvp(*s.op.called(0), s.b.computation(), s.x, s.dx, s.mode).tangent;
}

}  // namespace tessera::transforms
