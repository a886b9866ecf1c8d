// SPDX-License-Identifier: Apache-2.0
// Kernels that take operands as they stand: of operations that need no more, and with what some
// have beside that.
#include "src/codegen/emit/emitter.h"
#include "src/codegen/emit/loop_emitter.h"
#include "src/codegen/kernels/fft/fft.h"
#include "src/codegen/kernels/indexed/scatter.h"
#include "src/codegen/kernels/reductions/windows/reduce_window.h"

namespace tessera::codegen {

bool emit_operands_to_results(Emitter& e, const ir::Instruction& i, KernelDescriptor kernel) {
  if (!kernel) return false;
  std::vector<SlotId> inputs = e.operand_slots(i);
  std::vector<runtime::KernelTask::Reuse> reuse = kernel.reuse;
  e.task(i, std::move(kernel), std::move(inputs), e.results(i), std::move(reuse));
  return true;
}

bool emit_reduce_window(Emitter& e, const ir::Instruction& i) {
  const ir::Instruction& array = *i.operand(0);
  if (i.operands().size() != 2 || !e.inlined(array)) {
    return emit_operands_to_results(e, i, reduce_window_kernel(i));
  }
  Loop loop(e, array.shape.dims);
  auto program = loop.program(loop.value(array));
  std::vector<SlotId> inputs = loop.inputs();
  KernelDescriptor kernel = reduce_window_kernel(i, std::move(program), int(inputs.size()));
  inputs.push_back(e.slot(*i.operand(1)));
  e.task(i, std::move(kernel), std::move(inputs), e.results(i));
  return true;
}
bool emit_fft(Emitter& e, const ir::Instruction& i) {
  std::vector<FftStep> steps = fft_steps(i);
  if (steps.empty()) return false;
  SlotId at = e.slot(*i.operand(0));
  for (std::size_t k = 0; k < steps.size(); ++k) {
    FftStep& step = steps[k];
    const SlotId out =
        k + 1 == steps.size() ? e.result(i) : e.temporary(step.bytes, e.facts(i).classes);
    std::vector<runtime::KernelTask::Reuse> reuse;
    if (step.in_place) reuse.push_back({0, 0, false, false});
    e.task(i, std::move(step.kernel), {at}, {out}, std::move(reuse));
    at = out;
  }
  return true;
}
bool emit_scatter(Emitter& e, const ir::Instruction& i) {
  ScatterPlan plan = scatter_plan(i);
  if (plan.sums_tables) {
    e.task(i, std::move(plan.kernel), {e.slot(*i.operand(2)), e.slot(*i.operand(1))}, e.results(i));
    return true;
  }
  plan.kernel.reuse = {{0, 0, true}};
  return emit_operands_to_results(e, i, std::move(plan.kernel));
}

}  // namespace tessera::codegen
