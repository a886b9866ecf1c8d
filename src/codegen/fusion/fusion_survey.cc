// SPDX-License-Identifier: Apache-2.0
// What fusion knows of a computation whatever its options are.
#include "src/codegen/fusion/fusion_survey.h"

#include "src/codegen/kernels/convolutions/convolution.h"
#include "src/codegen/kernels/products/dot.h"
#include "src/codegen/kernels/reductions/reduce.h"
#include "src/codegen/kernels/reductions/windows/reduce_window.h"

namespace tessera::codegen {

using ir::Instruction;
using ir::Opcode;

namespace {

/// The order in which the user's kernel takes an operand; empty if it takes it as it is.
Dims operand_order(const Instruction& user, std::size_t k) {
  if (user.is(Opcode::reduce)) return reduce_order(user);
  for (const Instruction* side : user.operands()) {
    if (side->shape.dtype != user.shape.dtype) return {};
  }
  if (user.is(Opcode::dot)) {
    const DotPlan plan = dot_kernel(user, user.shape.dtype, user.shape.dtype);
    return plan.kernel ? (k == 0 ? plan.lhs : plan.rhs).transpose : Dims();
  }
  if (is_floating(user.shape.dtype) && byte_size(user.shape.dtype) < 4) return {};
  const ConvolutionPlan plan = convolution_kernel(user, user.shape.dtype);
  return plan.kernel ? (k == 0 ? plan.input : plan.filter) : Dims();
}

}  // namespace

bool FusionPlanner::Survey::takes_programs(const ir::Instruction& user) {
  const auto [it, added] = takes_programs_.try_emplace(user.index, false);
  if (added) {
    it->second = user.is(ir::Opcode::reduce) ? reduce_takes_programs(user)
                                             : reduce_window_takes_programs(user);
  }
  return it->second;
}

const Dims& FusionPlanner::Survey::order_of(const ir::Instruction& user, std::size_t k) {
  const auto [it, added] = orders_.try_emplace({user.index, k});
  if (added) it->second = operand_order(user, k);
  return it->second;
}

double FusionPlanner::Survey::cost(const ir::Instruction& i, std::size_t chain,
                                   std::set<const ir::Instruction*>* seen, int* arrays) const {
  if (!seen->insert(&i).second || known(i) || i.shape.element_count() == 1) return 0;
  if (i.is(ir::Opcode::iota)) return 0.3;
  if (i.is(ir::Opcode::broadcast)) return i.operand(0)->shape.is_scalar() ? 0 : 0.3;
  if ((seen->size() > 1 && stored[at(i)]) || !is_loop_op[at(i)] || seen->size() > chain) {
    ++*arrays;
    return 0;
  }
  if (is_counted[at(i)]) {
    ++*arrays;
    return prices::element::kInput;
  }
  double out = operation_cost(i);
  if (is_element_gather(i)) {
    ++*arrays;
    return out + cost(*i.operand(1), chain, seen, arrays);
  }
  for (const ir::Instruction* o : i.operands()) out += cost(*o, chain, seen, arrays);
  return out;
}

}  // namespace tessera::codegen
