// SPDX-License-Identifier: Apache-2.0
// A computation with results and tangents, cut where the tangents begin.
#include "src/transforms/jvp/split.h"

#include <algorithm>
#include <set>

#include "src/ir/cloner.h"
#include "src/transforms/utils/forward_slice.h"
#include "src/transforms/utils/leaves.h"

namespace tessera::transforms {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

Derivative differentiate(const Computation& source, const std::vector<std::size_t>& groups,
                         const std::vector<bool>& perturbed, JvpMode mode) {
  Derivative d;
  d.computation = source.module()->add_computation(source.name() + ".derivative");
  ir::Builder b(d.computation);
  std::int64_t number = 0;
  std::size_t first = 0;
  d.tangent_arguments.resize(source.parameters().size(), nullptr);
  std::vector<Tangent> tangents(source.parameters().size());
  for (const std::size_t size : groups) {
    for (std::size_t k = first; k < first + size; ++k) {
      b.metadata = source.parameter(k)->metadata;
      d.arguments.push_back(b.parameter(number++, source.parameter(k)->shape));
    }
    for (std::size_t k = first; k < first + size; ++k) {
      if (!perturbed[k]) continue;
      b.metadata = source.parameter(k)->metadata;
      d.tangent_arguments[k] = b.parameter(number++, source.parameter(k)->shape);
      tangents[k] = d.tangent_arguments[k];
    }
    first += size;
  }
  const Dual out = jvp(source, d.computation, d.arguments, tangents, mode);
  d.results = leaves_of(b, out.primal);
  d.tangents = leaves_of(out.tangent, source.root()->shape);
  return d;
}

namespace {

std::vector<bool> linear_parameters(const Derivative& d) {
  std::vector<bool> out(d.computation->parameters().size(), false);
  for (const Instruction* t : d.tangent_arguments) {
    if (t != nullptr) out[std::size_t(t->get<ir::ParameterAttrs>().number)] = true;
  }
  return out;
}

struct ByIndex {
  bool operator()(const Instruction* a, const Instruction* b) const { return a->index < b->index; }
};

/// Worth computing twice in place of keeping.
bool is_cheap(const Instruction& i) {
  if (i.is(Opcode::tuple) || i.is(Opcode::broadcast) || i.is(Opcode::reshape) ||
      i.is(Opcode::transpose))
    return true;
  if (!ir::is_elementwise(i.opcode)) return false;
  const ir::Work work = ir::info(i.opcode).work;
  return work == ir::Work::simple || work == ir::Work::moderate || work == ir::Work::division;
}

bool has_effect(const Instruction& i) {
  if (i.has_side_effect()) return true;
  return std::any_of(i.called().begin(), i.called().end(), [](const Computation* c) {
    return std::any_of(c->instructions().begin(), c->instructions().end(),
                       [](const auto& inside) { return has_effect(*inside); });
  });
}

}  // namespace

std::vector<Instruction*> effects_of(const Derivative& d) {
  const std::vector<bool> linear = forward_slice(*d.computation, linear_parameters(d));
  std::vector<Instruction*> out;
  for (const auto& i : d.computation->instructions()) {
    if (!linear[std::size_t(i->index)] && has_effect(*i)) out.push_back(i.get());
  }
  return out;
}

Residuals choose_residuals(const Derivative& d, const std::vector<std::int64_t>& bytes) {
  const Computation& c = *d.computation;
  const std::vector<bool> linear = forward_slice(c, linear_parameters(d));
  std::vector<bool> all(c.parameters().size(), true);
  const std::vector<bool> varies = forward_slice(c, all);
  // By index, so that users come after what they use.
  std::set<std::int64_t> chosen;
  const auto at = [&](std::int64_t n) { return c.instructions()[std::size_t(n)].get(); };
  // Only what the wanted tangents need.
  std::vector<bool> needed(c.instructions().size(), false);
  for (const Instruction* t : d.tangents) {
    if (t != nullptr) needed[std::size_t(t->index)] = true;
  }
  for (std::size_t n = c.instructions().size(); n-- > 0;) {
    if (!needed[n]) continue;
    const Instruction& i = *c.instructions()[n];
    if (!linear[n]) {
      if (varies[n]) chosen.insert(std::int64_t(n));
      continue;
    }
    for (const Instruction* x : i.operands()) needed[std::size_t(x->index)] = true;
  }
  const auto cost = [&](const Instruction* i) {
    if (!varies[std::size_t(i->index)]) return std::int64_t(0);
    if (!i->is(Opcode::parameter)) return i->shape.byte_count();
    return bytes[std::size_t(i->get<ir::ParameterAttrs>().number)];
  };
  // Users first: what takes a user's place may be cheap itself.
  for (auto it = chosen.rbegin(); it != chosen.rend();) {
    const Instruction* i = at(*it);
    std::int64_t instead = 0;
    for (const Instruction* x :
         std::set<const Instruction*, ByIndex>(i->operands().begin(), i->operands().end())) {
      if (!chosen.contains(x->index)) instead += cost(x);
    }
    if (!is_cheap(*i) || (instead > cost(i) && !i->shape.is_tuple)) {
      ++it;
      continue;
    }
    const std::int64_t index = *it;
    for (const Instruction* x : i->operands()) {
      if (varies[std::size_t(x->index)]) chosen.insert(x->index);
    }
    chosen.erase(index);
    it = std::make_reverse_iterator(chosen.lower_bound(index));
  }
  Residuals out;
  for (const std::int64_t n : chosen) out.values.push_back(at(n));
  return out;
}

std::vector<Instruction*> linear_part(const Derivative& d, const Residuals& residuals,
                                      std::span<Instruction* const> residual_values,
                                      std::span<Instruction* const> tangent_values,
                                      Computation* target) {
  ir::Cloner cloner(*d.computation, target);
  for (std::size_t k = 0; k < residuals.values.size(); ++k) {
    cloner.map(residuals.values[k], residual_values[k]);
  }
  std::size_t next = 0;
  for (const Instruction* t : d.tangent_arguments) {
    if (t != nullptr) cloner.map(t, tangent_values[next++]);
  }
  std::vector<Instruction*> out;
  for (const Instruction* t : d.tangents) {
    out.push_back(t == nullptr ? nullptr : cloner.clone_with_operands(*t));
  }
  return out;
}

}  // namespace tessera::transforms
