// SPDX-License-Identifier: Apache-2.0
// One handler per op family. Each defines the values of one source instruction.
#pragma once

#include "src/spmd/partitioner/context.h"

namespace tessera::spmd {

void partition_instruction(PartitionContext& p, const ir::Instruction& source);

// sources.cc
void partition_constant(PartitionContext& p, const ir::Instruction& source);
void partition_iota(PartitionContext& p, const ir::Instruction& source);
void partition_rng(PartitionContext& p, const ir::Instruction& source);
// elementwise.cc
void partition_elementwise(PartitionContext& p, const ir::Instruction& source);
void partition_broadcast(PartitionContext& p, const ir::Instruction& source);
void partition_transpose(PartitionContext& p, const ir::Instruction& source);
void partition_constraint(PartitionContext& p, const ir::Instruction& source);
void partition_placement(PartitionContext& p, const ir::Instruction& source);
// by_rule.cc: ops that run unchanged on shards of their pass-through factors
void partition_by_rule(PartitionContext& p, const ir::Instruction& source);
/// Whether an operand, `v`, would be gathered for that layout although it is split, and a result as
/// well, and the op could do with a part of it: only for lack of a partitioned form.
bool gathers_for_lack_of_form(PartitionContext& p, const ir::Instruction& source, std::size_t i,
                              const Value& v, const ComputeLayout& layout);
/// Operands gathered, the op computed in full on each device.
void replicate(PartitionContext& p, const ir::Instruction& source, const std::string& reason);
// dot.cc
void partition_dot(PartitionContext& p, const ir::Instruction& source);
// windows.cc
void partition_convolution(PartitionContext& p, const ir::Instruction& source);
void partition_reduce_window(PartitionContext& p, const ir::Instruction& source);
// select_and_scatter.cc
void partition_select_and_scatter(PartitionContext& p, const ir::Instruction& source);
/// Such an op between a pad and a slice that undoes it, if that is what the slice is of.
bool partition_cut_of_select_and_scatter(PartitionContext& p, const ir::Instruction& slice);
// reduce.cc
void partition_reduce(PartitionContext& p, const ir::Instruction& source);
// top_k.cc
void partition_top_k(PartitionContext& p, const ir::Instruction& source);
// fourier.cc
void partition_fft(PartitionContext& p, const ir::Instruction& source);
// random_bits.cc
void partition_rng_bit_generator(PartitionContext& p, const ir::Instruction& source);
// sort.cc
void partition_sort(PartitionContext& p, const ir::Instruction& source);
// reshape.cc
void partition_reshape(PartitionContext& p, const ir::Instruction& source);
// moves.cc
void partition_slice(PartitionContext& p, const ir::Instruction& source);
void partition_pad(PartitionContext& p, const ir::Instruction& source);
void partition_reverse(PartitionContext& p, const ir::Instruction& source);
void partition_concatenate(PartitionContext& p, const ir::Instruction& source);
// dynamic.cc
void partition_dynamic_slice(PartitionContext& p, const ir::Instruction& source);
void partition_dynamic_update_slice(PartitionContext& p, const ir::Instruction& source);
// gather_scatter.cc
void partition_gather(PartitionContext& p, const ir::Instruction& source);
void partition_scatter(PartitionContext& p, const ir::Instruction& source);
// control_flow.cc
void partition_tuple(PartitionContext& p, const ir::Instruction& source);
void partition_get_tuple_element(PartitionContext& p, const ir::Instruction& source);
void partition_call(PartitionContext& p, const ir::Instruction& source);
void partition_while(PartitionContext& p, const ir::Instruction& source);
void partition_conditional(PartitionContext& p, const ir::Instruction& source);
void partition_barrier(PartitionContext& p, const ir::Instruction& source);
// custom.cc
void partition_custom_partitioning(PartitionContext& p, const ir::Instruction& source);
void partition_custom_call(PartitionContext& p, const ir::Instruction& source);
// manual.cc
void partition_manual(PartitionContext& p, const ir::Instruction& source);
/// A collective of the user's within a manual computation whose other axes are automatic.
void partition_collective(PartitionContext& p, const ir::Instruction& source);

/// The constant, copies looked through, equals `value`.
bool is_literal(const ir::Instruction& x, const Literal& value);

}  // namespace tessera::spmd
