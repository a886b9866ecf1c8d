// SPDX-License-Identifier: Apache-2.0
// Dots, convolutions and reductions: kernels that may need their operands in another order or type
// first.
#include "src/codegen/emit/emitter.h"
#include "src/codegen/emit/loop_emitter.h"
#include "src/codegen/kernels/convolutions/convolution.h"
#include "src/codegen/kernels/loops/shared_inputs.h"
#include "src/codegen/kernels/products/dot.h"
#include "src/codegen/kernels/reductions/reduce.h"

namespace tessera::codegen {

namespace {

/// Whether the loops can turn one type into the other.
bool converts(const Shape& shape, DType to) {
  return shape.dtype == to || conversion(shape.dtype, to) != nullptr;
}

/// An operand in the type and the order in which the kernel takes it.
SlotId operand(Emitter& e, const ir::Instruction& i, std::size_t k, DType t, const Dims& order) {
  const ir::Instruction& o = *i.operand(k);
  if (!e.inlined(o)) {
    const SlotId s = e.converted(i, e.slot(o), o.shape, t);
    return e.transposed(i, s, Shape(t, o.shape.dims), order);
  }
  const SlotId out = e.temporary(o.shape.byte_count(), e.facts(o).classes);
  emit_in_order(e, i, o, e.operand_order(i, k), out);
  return out;
}

}  // namespace

bool emit_dot(Emitter& e, const ir::Instruction& i) {
  // Products in a wider type than the operands': converting first is exact.
  const DType t = i.shape.dtype;
  DType types[2] = {i.operand(0)->shape.dtype, i.operand(1)->shape.dtype};
  if (!dot_takes_narrow(types[0], types[1], t)) {
    for (const ir::Instruction* side : i.operands()) {
      if (!converts(side->shape, t)) return false;
    }
    types[0] = types[1] = t;
  }
  DotPlan plan = dot_kernel(i, types[0], types[1]);
  if (!plan.kernel) return false;
  const auto input = [&](std::size_t k, const DotSide& side) {
    return side.shared ? e.slot(*i.operand(k)->operand(0))
                       : operand(e, i, k, types[k], side.transpose);
  };
  std::vector<SlotId> inputs = {input(0, plan.lhs), input(1, plan.rhs)};
  e.task(i, std::move(plan.kernel), std::move(inputs), {e.result(i)});
  return true;
}

bool emit_convolution(Emitter& e, const ir::Instruction& i) {
  // Sums of 16-bit floats are accumulated in f32 and rounded once.
  const DType t =
      is_floating(i.shape.dtype) && byte_size(i.shape.dtype) < 4 ? DType::f32 : i.shape.dtype;
  const Shape made_type(t, i.shape.dims);
  for (const ir::Instruction* o : i.operands()) {
    if (!converts(o->shape, t)) return false;
  }
  if (!converts(made_type, i.shape.dtype)) return false;
  ConvolutionPlan plan = convolution_kernel(i, t);
  if (!plan.kernel) return false;
  std::vector<SlotId> inputs = {operand(e, i, 0, t, plan.input), operand(e, i, 1, t, plan.filter)};
  if (plan.result.empty() && t == i.shape.dtype) {
    e.task(i, std::move(plan.kernel), std::move(inputs), {e.result(i)});
    return true;
  }
  const Shape made(t, plan.made);
  SlotId out = e.temporary(made.byte_count(), e.facts(i).classes);
  e.task(i, std::move(plan.kernel), std::move(inputs), {out});
  out = e.transposed(i, out, made, plan.result);
  e.alias(i, {e.converted(i, out, made_type, i.shape.dtype)});
  return true;
}

bool emit_reduce(Emitter& e, const ir::Instruction& i) {
  if (i.is(ir::Opcode::map)) return emit_operands_to_results(e, i, map_kernel(i));
  std::vector<SlotId> inputs;
  std::vector<ReduceOperand> operands;
  const std::size_t k = i.operands().size() / 2;
  const Dims order = reduce_order(i);
  for (std::size_t n = 0; n < k; ++n) {
    const ir::Instruction& o = *i.operand(n);
    operands.push_back({int(inputs.size()), nullptr});
    if (!order.empty()) {
      inputs.push_back(operand(e, i, n, o.shape.dtype, order));
    } else if (e.inlined(o)) {
      Loop loop(e, o.shape.dims);
      operands.back().program = loop.program(loop.value(o));
      inputs.insert(inputs.end(), loop.inputs().begin(), loop.inputs().end());
    } else {
      inputs.push_back(e.slot(o));
    }
  }
  ReducePlan plan = reduce_kernel(i, operands, int(inputs.size()));
  if (!plan.kernel) return false;
  Accesses& access = plan.kernel.access;
  if (!order.empty()) access.results = Share::whole;
  if (access.makes_own()) {
    for (const ReduceOperand& o : operands) {
      const std::size_t end =
          &o == &operands.back() ? inputs.size() : std::size_t((&o + 1)->first_input);
      const std::vector<SlotId> own(inputs.begin() + o.first_input,
                                    inputs.begin() + std::ptrdiff_t(end));
      const std::vector<bool> of_operand =
          o.program
              ? shared_inputs(*o.program, i.operand(0)->shape.element_count(), e.byte_counts(own))
              : std::vector<bool>(own.size(), true);
      for (const bool own : of_operand)
        access.operands.push_back({own ? Share::own : Share::whole});
    }
  }
  for (std::size_t n = k; n < 2 * k; ++n) inputs.push_back(e.slot(*i.operand(n)));
  e.task(i, std::move(plan.kernel), std::move(inputs), e.results(i));
  return true;
}

}  // namespace tessera::codegen
