// SPDX-License-Identifier: Apache-2.0
// One handler per op family. Each defines the values of one source instruction.
#pragma once

#include "src/spmd/partitioner/context.h"

namespace tessera::spmd {

void partition_instruction(ComputationPartitioner& p, const ir::Instruction& source);

// sources.cc
void partition_constant(ComputationPartitioner& p, const ir::Instruction& source);
void partition_iota(ComputationPartitioner& p, const ir::Instruction& source);
void partition_rng(ComputationPartitioner& p, const ir::Instruction& source);
// elementwise.cc
void partition_elementwise(ComputationPartitioner& p, const ir::Instruction& source);
void partition_broadcast(ComputationPartitioner& p, const ir::Instruction& source);
void partition_transpose(ComputationPartitioner& p, const ir::Instruction& source);
void partition_constraint(ComputationPartitioner& p, const ir::Instruction& source);
// by_rule.cc: ops that run unchanged on shards of their pass-through factors
void partition_by_rule(ComputationPartitioner& p, const ir::Instruction& source);
/// Whether an operand, `v`, would be gathered for that layout although it is split, and a result as
/// well, and the op doesn't take it whole by its nature: for want of a form.
bool gathers_for_want_of_form(ComputationPartitioner& p, const ir::Instruction& source,
                              std::size_t i, const Value& v, const ComputeLayout& layout);
// dot.cc
void partition_dot(ComputationPartitioner& p, const ir::Instruction& source);
// windows.cc
void partition_convolution(ComputationPartitioner& p, const ir::Instruction& source);
void partition_reduce_window(ComputationPartitioner& p, const ir::Instruction& source);
// select_and_scatter.cc
void partition_select_and_scatter(ComputationPartitioner& p, const ir::Instruction& source);
/// Such an op between a pad and a slice that undoes it, if that is what the slice is of.
bool partition_cut_of_select_and_scatter(ComputationPartitioner& p, const ir::Instruction& slice);
// reduce.cc
void partition_reduce(ComputationPartitioner& p, const ir::Instruction& source);
// top_k.cc
void partition_top_k(ComputationPartitioner& p, const ir::Instruction& source);
// fourier.cc
void partition_fft(ComputationPartitioner& p, const ir::Instruction& source);
// random_bits.cc
void partition_rng_bit_generator(ComputationPartitioner& p, const ir::Instruction& source);
// sort.cc
void partition_sort(ComputationPartitioner& p, const ir::Instruction& source);
// reshape.cc
void partition_reshape(ComputationPartitioner& p, const ir::Instruction& source);
// moves.cc
void partition_slice(ComputationPartitioner& p, const ir::Instruction& source);
void partition_pad(ComputationPartitioner& p, const ir::Instruction& source);
void partition_reverse(ComputationPartitioner& p, const ir::Instruction& source);
void partition_concatenate(ComputationPartitioner& p, const ir::Instruction& source);
// dynamic.cc
void partition_dynamic_slice(ComputationPartitioner& p, const ir::Instruction& source);
void partition_dynamic_update_slice(ComputationPartitioner& p, const ir::Instruction& source);
// gather_scatter.cc
void partition_gather(ComputationPartitioner& p, const ir::Instruction& source);
void partition_scatter(ComputationPartitioner& p, const ir::Instruction& source);
// control_flow.cc
void partition_tuple(ComputationPartitioner& p, const ir::Instruction& source);
void partition_get_tuple_element(ComputationPartitioner& p, const ir::Instruction& source);
void partition_call(ComputationPartitioner& p, const ir::Instruction& source);
void partition_while(ComputationPartitioner& p, const ir::Instruction& source);
void partition_conditional(ComputationPartitioner& p, const ir::Instruction& source);
void partition_barrier(ComputationPartitioner& p, const ir::Instruction& source);
// custom.cc
void partition_custom_partitioning(ComputationPartitioner& p, const ir::Instruction& source);
void partition_custom_call(ComputationPartitioner& p, const ir::Instruction& source);
// manual.cc
void partition_manual(ComputationPartitioner& p, const ir::Instruction& source);
/// A collective of the user's within a manual computation whose other axes are automatic.
void partition_collective(ComputationPartitioner& p, const ir::Instruction& source);

/// The constant, copies looked through, equals `value`.
bool is_literal(const ir::Instruction& x, const Literal& value);

/// A value that holds zeros wherever another device's part lies, so that partial sums move it
/// exactly: floats as integers of the same bits. `restore` brings the sum back.
ir::Instruction* as_bits(ir::Builder& b, ir::Instruction* x);
ir::Instruction* from_bits(ir::Builder& b, ir::Instruction* x, DType dtype);
/// The type that as_bits gives.
DType bits_type(DType dtype);

}  // namespace tessera::spmd
