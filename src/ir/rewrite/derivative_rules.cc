// SPDX-License-Identifier: Apache-2.0
// Traces the rules of custom derivatives.
#include "src/ir/rewrite/derivative_rules.h"

#include <vector>

#include "src/ir/hooks.h"
#include "src/ir/shapes/shape_inference.h"

namespace tessera::ir {
namespace {

/// How many operands have tangents.
std::size_t count_of_tangents(const Instruction& op) {
  std::size_t count = 0;
  for (auto k = std::size_t(op.get<CustomDerivativeAttrs>().nondiff); k < op.operands().size();
       ++k) {
    const Shape& s = op.operand(k)->shape;
    count += s.is_array() && (is_floating(s.dtype) || is_complex(s.dtype)) ? 1 : 0;
  }
  return count;
}

}  // namespace

void trace_rules(Instruction* op) {
  auto attrs = op->get<CustomDerivativeAttrs>();
  TESSERA_CHECK(!attrs.symbolic_zeros, op->describe() + " has a rule for each set of zeros");
  if (op->called().size() > 1) return;
  if (attrs.rules == nullptr) {
    throw ValueError("the custom derivative " + op->describe() + " of " +
                         (attrs.label.empty() ? op->called(0)->name() : attrs.label) +
                         " has no rule: the text that it was read from lacks its computations",
                     op->location());
  }
  const std::vector<bool> perturbed(count_of_tangents(*op), true);
  std::vector<Computation*> called = op->called();
  if (attrs.kind == CustomDerivativeAttrs::Kind::jvp) {
    called.push_back(attrs.rules->jvp(*op, perturbed));
  } else {
    const DerivativeRules::Vjp vjp = attrs.rules->vjp(*op, perturbed);
    called.insert(called.end(), {vjp.forward, vjp.backward});
    attrs.residuals = vjp.residuals;
  }
  infer_shape(op->opcode, op->operands(), attrs, called, &op->shape, op->location(),
              op->parent->module()->grid());
  op->attrs = std::move(attrs);
  op->set_called(std::move(called));
}

}  // namespace tessera::ir
