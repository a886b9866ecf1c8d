// SPDX-License-Identifier: Apache-2.0
// Sorts, transforms, gathers and scatters: one kernel, operands as they stand.
#include "src/codegen/emit/emitter.h"
#include "src/codegen/emit/loop_emitter.h"
#include "src/codegen/kernels/elementwise/random_bits.h"
#include "src/codegen/kernels/fft/fft.h"
#include "src/codegen/kernels/indexed/gather.h"
#include "src/codegen/kernels/indexed/scatter.h"
#include "src/codegen/kernels/reductions/reduce_window.h"
#include "src/codegen/kernels/reductions/select_and_scatter.h"
#include "src/codegen/kernels/sorts/sort.h"
#include "src/codegen/kernels/sorts/topk.h"

namespace tessera::codegen {
namespace {

bool emit(Emitter& e, const ir::Instruction& i, KernelDescriptor kernel,
          std::vector<runtime::KernelTask::Reuse> reuse = {}) {
  if (!kernel) return false;
  std::vector<SlotId> inputs;
  for (const ir::Instruction* o : i.operands()) inputs.push_back(e.slot(*o));
  e.task(i, std::move(kernel), std::move(inputs), e.results(i), std::move(reuse));
  return true;
}

}  // namespace

bool emit_sort(Emitter& e, const ir::Instruction& i) {
  // A row is read entirely before it is written.
  std::vector<runtime::KernelTask::Reuse> reuse;
  for (std::size_t k = 0; k < i.operands().size(); ++k) {
    reuse.push_back({int(k), int(k), false, false});
  }
  return emit(e, i, sort_kernel(i), std::move(reuse));
}
bool emit_topk(Emitter& e, const ir::Instruction& i) { return emit(e, i, topk_kernel(i)); }
bool emit_reduce_window(Emitter& e, const ir::Instruction& i) {
  const ir::Instruction& array = *i.operand(0);
  if (i.operands().size() != 2 || !e.inlined(array)) return emit(e, i, reduce_window_kernel(i));
  Loop loop(e, array.shape.dims);
  auto program = loop.program(loop.value(array));
  std::vector<SlotId> inputs = loop.inputs();
  KernelDescriptor kernel = reduce_window_kernel(i, std::move(program), int(inputs.size()));
  inputs.push_back(e.slot(*i.operand(1)));
  e.task(i, std::move(kernel), std::move(inputs), e.results(i));
  return true;
}
bool emit_random_bits(Emitter& e, const ir::Instruction& i) {
  return emit(e, i, random_bits_kernel(i));
}
bool emit_random_state(Emitter& e, const ir::Instruction& i) {
  return emit(e, i, random_state_kernel(i));
}
bool emit_select_and_scatter(Emitter& e, const ir::Instruction& i) {
  return emit(e, i, select_and_scatter_kernel(i));
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
bool emit_gather(Emitter& e, const ir::Instruction& i) { return emit(e, i, gather_kernel(i)); }
bool emit_scatter(Emitter& e, const ir::Instruction& i) {
  ScatterPlan plan = scatter_plan(i);
  if (plan.sums_tables) {
    e.task(i, std::move(plan.kernel), {e.slot(*i.operand(2)), e.slot(*i.operand(1))}, e.results(i));
    return true;
  }
  return emit(e, i, std::move(plan.kernel), {{0, 0, true, false}});
}

}  // namespace tessera::codegen
