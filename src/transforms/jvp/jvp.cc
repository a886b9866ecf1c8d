// SPDX-License-Identifier: Apache-2.0
// The walk over a computation, and the rules that many ops share.
#include "src/transforms/jvp/jvp.h"

#include <algorithm>

#include "src/ir/analysis/linearity.h"
#include "src/ir/channels.h"
#include "src/transforms/jvp/site.h"

namespace tessera::transforms {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

Tangent apply_rule(JvpSite& site) {
  switch (site.op.opcode) {
#define OP(enumerator, text, operands, attributes, types, shape, factors, evaluate, traits, \
           linear, work, calls, dialect, jvp, ...)                                          \
  case Opcode::enumerator:                                                                  \
    return jvp(site);
#include "src/ir/opcode_list.inc"
  }
  TESSERA_CHECK(false, "opcode number " + std::to_string(int(site.op.opcode)));
  return {};
}

bool any_has_tangent(const Shape& shape) {
  const std::vector<Shape> leaves = flatten(shape);
  return std::any_of(leaves.begin(), leaves.end(), [](const Shape& s) { return has_tangent(s); });
}

/// By index: whether the result can depend on the op's tangent. It doesn't where integers or
/// predicates alone come of it: the position of a maximum, say.
std::vector<bool> with_needed_tangents(const Computation& c) {
  std::vector<bool> out(c.instructions().size(), false);
  out[std::size_t(c.root()->index)] = true;
  for (std::size_t n = out.size(); n-- > 0;) {
    const Instruction& i = *c.instructions()[n];
    out[n] = out[n] && any_has_tangent(i.shape);
    if (!out[n]) continue;
    for (const Instruction* operand : i.operands()) out[std::size_t(operand->index)] = true;
  }
  return out;
}

/// The values of a computation in the target.
class Walk {
 public:
  Walk(const Computation& source, Computation* target, JvpMode mode)
      : source_(source),
        b_(target),
        mode_(mode),
        values_(source.instructions().size()),
        needed_(with_needed_tangents(source)) {}

  Dual& operator[](const Instruction* i) { return values_[std::size_t(i->index)]; }

  void visit(const Instruction& i) {
    JvpSite site{b_, i, mode_, {}, {}};
    bool any = false;
    for (const Instruction* operand : i.operands()) {
      const Dual& d = (*this)[operand];
      site.x.push_back(d.primal);
      site.dx.push_back(d.tangent);
      any = any || !d.tangent.is_zero();
    }
    b_.metadata = i.metadata;
    Dual out;
    if (any && needed_[std::size_t(i.index)]) out.tangent = apply_rule(site);
    out.primal = site.primal();
    for (Instruction* before : i.control_predecessors()) {
      // What the op became may be something that was there before.
      Instruction* p = (*this)[before].primal;
      if (p->index < out.primal->index) out.primal->add_control_predecessor(p);
    }
    (*this)[&i] = std::move(out);
  }

  Dual run() {
    // The target may be the source, and grow.
    const std::size_t count = source_.instructions().size();
    for (std::size_t n = 0; n < count; ++n) {
      const Instruction& i = *source_.instructions()[n];
      if (!i.is(Opcode::parameter)) visit(i);
    }
    return (*this)[source_.root()];
  }

 private:
  const Computation& source_;
  ir::Builder b_;
  JvpMode mode_;
  std::vector<Dual> values_;
  const std::vector<bool> needed_;
};

}  // namespace

Dual jvp(const Computation& source, Computation* target, std::span<Instruction* const> arguments,
         std::span<const Tangent> tangents, JvpMode mode) {
  TESSERA_CHECK(
      arguments.size() == source.parameters().size() && tangents.size() == arguments.size(),
      "differentiating " + source.name() + " takes an argument for each parameter");
  Walk walk(source, target, mode);
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    walk[source.parameter(k)] = Dual{arguments[k], tangents[k]};
  }
  return walk.run();
}

Instruction* JvpSite::primal() {
  if (result == nullptr) {
    result = clone_on(x);
    result->sharding = op.sharding;
  }
  return result;
}

Instruction* JvpSite::clone_on(std::vector<Instruction*> operands) const {
  ir::InstructionData data = op;
  if (ir::is_collective(op.opcode)) ir::give_fresh_channel(&data.attrs, b.module());
  auto copy = std::make_unique<Instruction>(std::move(data));
  copy->set_operands(std::move(operands));
  copy->set_called(op.called());
  return b.computation()->add(std::move(copy));
}

Instruction* JvpSite::add(Instruction* a, Instruction* c) const {
  return b.binary(Opcode::add, a, c);
}
Instruction* JvpSite::sub(Instruction* a, Instruction* c) const {
  return b.binary(Opcode::subtract, a, c);
}
Instruction* JvpSite::mul(Instruction* a, Instruction* c) const {
  return b.binary(Opcode::multiply, a, c);
}
Instruction* JvpSite::div(Instruction* a, Instruction* c) const {
  return b.binary(Opcode::divide, a, c);
}
Instruction* JvpSite::neg(Instruction* a) const { return b.unary(Opcode::negate, a); }

Instruction* JvpSite::conj(Instruction* a) const {
  if (!is_complex(a->shape.dtype)) return a;
  return b.binary(Opcode::complex, un(Opcode::real, a), neg(un(Opcode::imag, a)));
}

Tangent JvpSite::through(const Computation& expansion) {
  const Dual d = jvp(expansion, b.computation(), x, dx, mode);
  result = d.primal;
  return d.tangent;
}

void JvpSite::refuse(const std::string& why) const {
  throw NotImplementedError("can't differentiate " + op.describe() + ": " + why, op.location());
}

// ------------------------------------------------------------------ rules of the whole table

Tangent jvp_none(JvpSite& site) {
  site.refuse(std::string(ir::name(site.op.opcode)) +
              " has no derivative; stop_gradient in front of it if its own shall count as zero");
}

Tangent jvp_zero(JvpSite&) { return {}; }

namespace {

Tangent linear_in_several(JvpSite& site, const ir::Linearity& linearity) {
  std::vector<Instruction*> operands = site.x;
  bool any = false;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (!linearity.in(k)) continue;
    any = any || !site.dx[k].is_zero();
    operands[k] = site.tangent(k);
  }
  return any ? Tangent(site.clone_on(std::move(operands))) : Tangent();
}

/// The largest of parts is no linear function of them: tangents of such parts are whole.
void complete_extrema(Instruction* constraint) {
  for (TensorSharding& s : constraint->sharding) {
    if (s.reduction == Reduction::sum) continue;
    s.unreduced.clear();
    s.reduction = Reduction::sum;
  }
}

}  // namespace

Tangent jvp_linear(JvpSite& site) {
  if (!has_tangent(site.shape()) && !site.shape().is_tuple) return {};
  if (site.op.is(Opcode::add) || site.op.is(Opcode::subtract)) {
    if (site.dx[1].is_zero()) return site.dx[0];
    if (site.dx[0].is_zero()) {
      return site.op.is(Opcode::add) ? site.dx[1] : Tangent(site.neg(site.dx[1].array));
    }
  }
  const ir::Linearity linearity = ir::linearity(site.op);
  if (linearity.kind == ir::Linearity::Kind::none) return jvp_none(site);
  Tangent total;
  if (linearity.kind == ir::Linearity::Kind::jointly) {
    total = linear_in_several(site, linearity);
    if (site.op.is(Opcode::sharding_constraint) && !total.is_zero()) complete_extrema(total.array);
    if (!site.shape().is_tuple || total.is_zero()) return total;
    std::vector<Tangent> elements;
    for (Instruction* e : elements_of(site.b, total.array)) elements.emplace_back(e);
    return Tangent::tuple(std::move(elements));
  }
  for (std::size_t k = 0; k < site.x.size(); ++k) {
    if (!linearity.in(k) || site.dx[k].is_zero()) continue;
    std::vector<Instruction*> operands = site.x;
    operands[k] = site.dx[k].array;
    total = sum(site.b, total, site.clone_on(std::move(operands)));
  }
  return total;
}

Tangent jvp_tuple(JvpSite& site) { return Tangent::tuple(site.dx); }

Tangent jvp_get_tuple_element(JvpSite& site) {
  const auto index = std::size_t(site.get<ir::GetTupleElementAttrs>().index);
  if (site.x[0]->is(Opcode::tuple) && !site.op.has_sharding()) {
    site.result = site.x[0]->operand(index);
  }
  return site.dx[0].element(index);
}

Tangent jvp_call(JvpSite& site) { return site.through(*site.op.called(0)); }

}  // namespace tessera::transforms
