// SPDX-License-Identifier: Apache-2.0
#include "src/passes/alike.h"

#include <algorithm>

namespace tessera::passes {

using ir::Opcode;

namespace {

/// Computes a function of its parameters.
bool is_function(const ir::Computation& c) {
  return std::all_of(c.instructions().begin(), c.instructions().end(), [](const auto& i) {
    return i->is(Opcode::parameter) || i->is(Opcode::opt_barrier) || is_pure(*i);
  });
}

/// Channels only name a collective.
bool equal_attributes(const ir::Attributes& a, const ir::Attributes& b) {
  if (const auto* x = a.get_if<ir::CollectiveAttrs>()) {
    const auto* y = b.get_if<ir::CollectiveAttrs>();
    if (y == nullptr) return false;
    return x->groups == y->groups && x->dims == y->dims;
  }
  if (const auto* x = a.get_if<ir::PermuteAttrs>()) {
    const auto* y = b.get_if<ir::PermuteAttrs>();
    return y != nullptr && x->source_target_pairs == y->source_target_pairs;
  }
  return a == b;
}

bool equal_computations(const ir::Computation& a, const ir::Computation& b) {
  if (&a == &b) return true;
  const auto &x = a.instructions(), &y = b.instructions();
  if (x.size() != y.size() || a.root()->index != b.root()->index) return false;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const ir::Instruction &i = *x[k], &j = *y[k];
    if (i.operands.size() != j.operands.size() || i.called.size() != j.called.size()) return false;
    for (std::size_t o = 0; o < i.operands.size(); ++o) {
      if (i.operands[o]->index != j.operands[o]->index) return false;
    }
    if (!equal_but_for_operands(i, j)) return false;
  }
  return true;
}

}  // namespace

bool is_pure(const ir::Instruction& i) {
  if (ir::has_side_effect(i.opcode) || !i.control_predecessors.empty()) return false;
  switch (i.opcode) {
    case Opcode::parameter:
    case Opcode::rng:
    case Opcode::opt_barrier:  // keeps what is recomputed on purpose apart
    case Opcode::custom_call:
    case Opcode::call:
    case Opcode::after_all:
      return false;
    case Opcode::while_:
    case Opcode::conditional:
      return std::all_of(i.called.begin(), i.called.end(),
                         [](const ir::Computation* c) { return is_function(*c); });
    default:
      return true;
  }
}

bool equal_but_for_operands(const ir::Instruction& a, const ir::Instruction& b) {
  return a.opcode == b.opcode && a.shape == b.shape && equal_attributes(a.attrs, b.attrs) &&
         a.sharding == b.sharding &&
         std::equal(a.called.begin(), a.called.end(), b.called.begin(), b.called.end(),
                    [](const ir::Computation* x, const ir::Computation* y) {
                      return equal_computations(*x, *y);
                    });
}

}  // namespace tessera::passes
