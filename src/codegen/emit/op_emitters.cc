// SPDX-License-Identifier: Apache-2.0
// The table of the operations that have an emitter: what is more than a loop over elements or
// another name of a value.
#include "src/codegen/emit/emitter.h"
#include "src/codegen/kernels/elementwise/random_bits.h"
#include "src/codegen/kernels/indexed/gather.h"
#include "src/codegen/kernels/reductions/windows/select_and_scatter.h"
#include "src/codegen/kernels/sorts/sort.h"
#include "src/codegen/kernels/sorts/topk.h"

namespace tessera::codegen {
namespace {

using ir::Opcode;

/// One step, from the operands to the results as they stand, by the kernel that `describe` gives.
/// Empty if it has none for these types and attributes.
template <KernelDescriptor (*describe)(const ir::Instruction&)>
bool by_kernel(Emitter& e, const ir::Instruction& i) {
  return emit_operands_to_results(e, i, describe(i));
}

struct OpEmitter {
  Opcode opcode;
  EmitOp emit;
};

constexpr OpEmitter kOpEmitters[] = {
    {Opcode::broadcast, emit_broadcast},
    {Opcode::iota, emit_iota},
    {Opcode::transpose, emit_movement},
    {Opcode::slice, emit_movement},
    {Opcode::reverse, emit_movement},
    {Opcode::concatenate, emit_movement},
    {Opcode::pad, emit_movement},
    {Opcode::dynamic_slice, emit_movement},
    {Opcode::dynamic_update_slice, emit_movement},
    {Opcode::device_placement, emit_placement},
    {Opcode::dot, emit_dot},
    {Opcode::convolution, emit_convolution},
    {Opcode::reduce, emit_reduce},
    {Opcode::map, emit_reduce},
    {Opcode::reduce_window, emit_reduce_window},
    {Opcode::select_and_scatter, by_kernel<select_and_scatter_kernel>},
    {Opcode::gather, by_kernel<gather_kernel>},
    {Opcode::scatter, emit_scatter},
    {Opcode::sort, by_kernel<sort_kernel>},
    {Opcode::topk, by_kernel<topk_kernel>},
    {Opcode::fft, emit_fft},
    {Opcode::rng_bit_generator, by_kernel<random_bits_kernel>},
    {Opcode::rng_get_and_update_state, by_kernel<random_state_kernel>},
    {Opcode::all_gather, emit_collective},
    {Opcode::all_reduce, emit_collective},
    {Opcode::reduce_scatter, emit_collective},
    {Opcode::all_to_all, emit_collective},
    {Opcode::collective_permute, emit_collective},
    {Opcode::collective_broadcast, emit_collective},
    {Opcode::while_, emit_while},
    {Opcode::conditional, emit_conditional},
};

}  // namespace

EmitOp emitter_of(Opcode opcode) {
  for (const OpEmitter& op : kOpEmitters) {
    if (op.opcode == opcode) return op.emit;
  }
  return nullptr;
}

}  // namespace tessera::codegen
