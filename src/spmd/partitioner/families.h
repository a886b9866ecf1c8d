// SPDX-License-Identifier: Apache-2.0
// Two handlers per op family, one for each stage; op_table.cc has a row of them per op. `plan_`
// says in which layout an op is to be computed: its operands are brought there by reshards.
// (`place_` puts it there itself.) `partition_` is given the op in that layout, and defines what
// one device computes of it.
#pragma once

#include <initializer_list>
#include <vector>

#include "src/spmd/partitioner/context.h"
#include "src/spmd/rules/factor_rule.h"

namespace tessera::spmd {

/// The layout that an op is computed in.
struct OpPlan {
  std::vector<TensorSharding> operands, results;
  std::vector<ir::Opcode> partial_ops = {};  ///< by result, what joins its partial values: add
};

/// Puts the op, its operands resharded, into the program with explicit reshards.
void plan_instruction(PartitionContext& p, const ir::Instruction& source);
void partition_instruction(PartitionContext& p, const ir::Instruction& source);

// by_rule.cc
/// The rule with no other factors to be split than what passes through, and of these kinds.
FactorRule split_only(FactorRule rule, std::initializer_list<FactorKind> kinds);
/// With none along which windows glide.
FactorRule without_windows(FactorRule rule);
// plan.cc: what several families have
OpPlan planned(const ComputeLayout& layout);
/// Operands and results as propagation says.
OpPlan plan_at_boundary(PartitionContext& p, const ir::Instruction& source);
OpPlan plan_replicated(PartitionContext& p, const ir::Instruction& source);
/// All devices have the operands, and results are as propagation says.
OpPlan plan_from_replicated(PartitionContext& p, const ir::Instruction& source);
/// Puts in the op with that plan.
void place(PartitionContext& p, const ir::Instruction& source, const OpPlan& plan);
/// The same with these operands. Returns the leaves.
const std::vector<Value*>& place_on(PartitionContext& p, const ir::Instruction& source,
                                    std::vector<ir::Instruction*> operands, const OpPlan& plan);

// sources.cc
void place_constant(PartitionContext& p, const ir::Instruction& source);
void partition_constant(PartitionContext& p, const ir::Instruction& source);
void place_iota(PartitionContext& p, const ir::Instruction& source);
void partition_iota(PartitionContext& p, const ir::Instruction& source);
void partition_rng(PartitionContext& p, const ir::Instruction& source);
// elementwise.cc
OpPlan plan_elementwise(PartitionContext& p, const ir::Instruction& source);
void partition_elementwise(PartitionContext& p, const ir::Instruction& source);
void place_broadcast(PartitionContext& p, const ir::Instruction& source);
void partition_broadcast(PartitionContext& p, const ir::Instruction& source);
OpPlan plan_transpose(PartitionContext& p, const ir::Instruction& source);
void partition_constraint(PartitionContext& p, const ir::Instruction& source);
OpPlan plan_placement(PartitionContext& p, const ir::Instruction& source);
// by_rule.cc: ops that run unchanged on shards of their pass-through factors
OpPlan plan_by_rule(PartitionContext& p, const ir::Instruction& source);
void partition_by_rule(PartitionContext& p, const ir::Instruction& source);
/// Whether an operand, `v`, would be gathered for that layout although it is split, and a result as
/// well, and the op could do with a part of it: only for lack of a partitioned form.
bool gathers_for_lack_of_form(PartitionContext& p, const ir::Instruction& source, std::size_t i,
                              const Value& v, const ComputeLayout& layout);
/// The op as the sum, bit for bit, of arrays of which all devices but one have zeros. `partial`:
/// how these are laid out, `to`: how the sum shall be.
void define_sum_of_bits(PartitionContext& p, const ir::Instruction& source, ir::Instruction* local,
                        const TensorSharding& partial, const TensorSharding& to);
/// Operands gathered, the op computed in full on each device.
void replicate(PartitionContext& p, const ir::Instruction& source, const std::string& reason);
// dot.cc
OpPlan plan_dot(PartitionContext& p, const ir::Instruction& source);
void partition_dot(PartitionContext& p, const ir::Instruction& source);
// windows.cc
OpPlan plan_convolution(PartitionContext& p, const ir::Instruction& source);
void partition_convolution(PartitionContext& p, const ir::Instruction& source);
OpPlan plan_reduce_window(PartitionContext& p, const ir::Instruction& source);
void partition_reduce_window(PartitionContext& p, const ir::Instruction& source);
// select_and_scatter.cc
void place_select_and_scatter(PartitionContext& p, const ir::Instruction& source);
void partition_select_and_scatter(PartitionContext& p, const ir::Instruction& source);
/// Such an op between a pad and a slice that undoes it, if that is what the slice is of.
bool place_cut_of_select_and_scatter(PartitionContext& p, const ir::Instruction& slice);
bool partition_cut_of_select_and_scatter(PartitionContext& p, const ir::Instruction& slice);
// reduce.cc
OpPlan plan_reduce(PartitionContext& p, const ir::Instruction& source);
void partition_reduce(PartitionContext& p, const ir::Instruction& source);
// top_k.cc
OpPlan plan_top_k(PartitionContext& p, const ir::Instruction& source);
void partition_top_k(PartitionContext& p, const ir::Instruction& source);
// fourier.cc
OpPlan plan_fft(PartitionContext& p, const ir::Instruction& source);
void partition_fft(PartitionContext& p, const ir::Instruction& source);
// random_bits.cc
void partition_rng_bit_generator(PartitionContext& p, const ir::Instruction& source);
// sort.cc
OpPlan plan_sort(PartitionContext& p, const ir::Instruction& source);
void partition_sort(PartitionContext& p, const ir::Instruction& source);
// reshape.cc
OpPlan plan_reshape(PartitionContext& p, const ir::Instruction& source);
void partition_reshape(PartitionContext& p, const ir::Instruction& source);
// moves.cc
void place_slice(PartitionContext& p, const ir::Instruction& source);
void partition_slice(PartitionContext& p, const ir::Instruction& source);
OpPlan plan_pad(PartitionContext& p, const ir::Instruction& source);
void partition_pad(PartitionContext& p, const ir::Instruction& source);
OpPlan plan_reverse(PartitionContext& p, const ir::Instruction& source);
void partition_reverse(PartitionContext& p, const ir::Instruction& source);
void place_concatenate(PartitionContext& p, const ir::Instruction& source);
void partition_concatenate(PartitionContext& p, const ir::Instruction& source);
// dynamic.cc
OpPlan plan_dynamic_slice(PartitionContext& p, const ir::Instruction& source);
void partition_dynamic_slice(PartitionContext& p, const ir::Instruction& source);
OpPlan plan_dynamic_update_slice(PartitionContext& p, const ir::Instruction& source);
void partition_dynamic_update_slice(PartitionContext& p, const ir::Instruction& source);
// gather_scatter.cc
OpPlan plan_gather(PartitionContext& p, const ir::Instruction& source);
void partition_gather(PartitionContext& p, const ir::Instruction& source);
OpPlan plan_scatter(PartitionContext& p, const ir::Instruction& source);
void partition_scatter(PartitionContext& p, const ir::Instruction& source);
// control_flow.cc: what says where arrays go, in both stages
/// Its operand, whatever propagation made of it.
void partition_marker(PartitionContext& p, const ir::Instruction& source);
void partition_tuple(PartitionContext& p, const ir::Instruction& source);
void partition_get_tuple_element(PartitionContext& p, const ir::Instruction& source);
void partition_call(PartitionContext& p, const ir::Instruction& source);
void partition_while(PartitionContext& p, const ir::Instruction& source);
void partition_conditional(PartitionContext& p, const ir::Instruction& source);
void partition_barrier(PartitionContext& p, const ir::Instruction& source);
// custom.cc
void partition_custom_partitioning(PartitionContext& p, const ir::Instruction& source);
OpPlan plan_custom_call(PartitionContext& p, const ir::Instruction& source);
void partition_custom_call(PartitionContext& p, const ir::Instruction& source);
// manual.cc
void place_manual(PartitionContext& p, const ir::Instruction& source);
void partition_manual(PartitionContext& p, const ir::Instruction& source);
/// A collective of the user's within a manual computation whose other axes are automatic.
void place_collective(PartitionContext& p, const ir::Instruction& source);
void partition_collective(PartitionContext& p, const ir::Instruction& source);

/// The constant, copies looked through, equals `value`.
bool is_literal(const ir::Instruction& x, const Literal& value);

}  // namespace tessera::spmd
