// SPDX-License-Identifier: Apache-2.0
// Puts bodies of remats and primals of custom derivatives in place.
#include "src/passes/expand_derivative_ops.h"

#include <vector>

#include "src/ir/cloner.h"
#include "src/ir/post_order.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

std::vector<Instruction*> behind_barrier(ir::Builder& b, const Instruction& op) {
  const std::vector<Instruction*>& operands = op.operands();
  if (operands.empty()) return {};
  const bool one = operands.size() == 1;
  Instruction* barrier = b.unary(Opcode::opt_barrier, one ? operands[0] : b.tuple(operands));
  barrier->set_control_predecessors(op.control_predecessors());
  if (one) return {barrier};
  std::vector<Instruction*> out;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    out.push_back(b.get_tuple_element(barrier, std::int64_t(k)));
  }
  return out;
}

/// `result` is the callee's; the op may state shardings of it.
Instruction* with_sharding_of(ir::Builder& b, const Instruction& op, Instruction* result) {
  if (!op.has_sharding()) return result;
  Instruction* out = nullptr;
  if (result->shape.is_tuple) {
    std::vector<Instruction*> elements;
    for (std::size_t k = 0; k < result->shape.elements.size(); ++k) {
      elements.push_back(b.get_tuple_element(result, std::int64_t(k)));
    }
    out = b.tuple(elements);
  } else {
    out = b.emit(Opcode::sharding_constraint, {result}, ir::ShardingConstraintAttrs{});
  }
  out->sharding = op.sharding;
  return out;
}

/// Users of single elements use those themselves.
void give_result(Instruction* op, Instruction* result) {
  op->replace_all_uses_with(result);
  if (!result->is(Opcode::tuple) || result->has_sharding()) return;
  for (Instruction* user : result->users()) {
    if (!user->is(Opcode::get_tuple_element) || user->has_sharding()) continue;
    const std::int64_t index = user->get<ir::GetTupleElementAttrs>().index;
    user->replace_all_uses_with(result->operand(std::size_t(index)));
  }
}

bool expand_derivative_op(Instruction& i, ir::PatternRewriter& r) {
  Instruction* op = &i;
  ir::Builder& b = r.builder();
  const auto* remat = op->attrs.get_if<ir::RematAttrs>();
  const bool apart = remat != nullptr && remat->differentiated && remat->prevent_cse;
  ir::CloneOptions options;
  options.default_metadata = op->metadata;
  Instruction* result = ir::inline_computation(
      op->parent, *op->called(0),
      apart || !op->control_predecessors().empty() ? behind_barrier(b, *op) : op->operands(),
      options);
  give_result(op, with_sharding_of(b, *op, result));
  r.erase(op);
  return true;
}

std::size_t expand_callees_first(const std::vector<ir::Computation*>& callees_first) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("expand-derivative-ops")
                   .add({Opcode::remat, Opcode::custom_derivative}, expand_derivative_op));
  std::size_t count = 0;
  for (ir::Computation* c : callees_first) {
    count += ir::walk_and_apply_patterns(c, patterns, ir::InsertionPoint::in_place);
  }
  return count;
}

}  // namespace

std::size_t expand_derivative_ops(ir::Module* module) {
  const std::size_t count = expand_callees_first(ir::post_order({module->entry()}));
  if (count > 0) module->remove_dead_computations();
  return count;
}

std::size_t expand_derivative_ops_in(ir::Computation* computation) {
  return expand_callees_first(ir::post_order({computation}));
}

}  // namespace tessera::passes
