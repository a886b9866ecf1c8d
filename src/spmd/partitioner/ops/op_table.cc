// SPDX-License-Identifier: Apache-2.0
// What becomes of each op in the two stages of the partitioner.
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

namespace {

using ir::Opcode;

using Planner = OpPlan (*)(PartitionContext&, const ir::Instruction&);

template <Planner plan>
void by_plan(PartitionContext& p, const ir::Instruction& source) {
  place(p, source, plan(p, source));
}

[[noreturn]] void refuse(const ir::Instruction& source, const std::string& why) {
  throw NotImplementedError(op_label(source) + " can't be partitioned in this version: " + why,
                            source.location());
}

void partition_partition_id(PartitionContext& p, const ir::Instruction& source) {
  replicate(p, source, "");
}

void refuse_host(PartitionContext&, const ir::Instruction& source) {
  refuse(source, "it talks to the host");
}

using Handler = void (*)(PartitionContext&, const ir::Instruction&);

struct Handlers {
  Handler place = nullptr;      ///< into the program with explicit reshards
  Handler partition = nullptr;  ///< into one device's
};

struct Row {
  Opcode opcode;
  Handlers handlers;
};

// Of ops with a family of their own.
const Row kRows[] = {
    {Opcode::constant, {place_constant, partition_constant}},
    {Opcode::iota, {place_iota, partition_iota}},
    {Opcode::rng, {by_plan<plan_from_replicated>, partition_rng}},
    {Opcode::rng_bit_generator, {by_plan<plan_from_replicated>, partition_rng_bit_generator}},
    {Opcode::partition_id, {by_plan<plan_replicated>, partition_partition_id}},
    {Opcode::broadcast, {place_broadcast, partition_broadcast}},
    {Opcode::transpose, {by_plan<plan_transpose>, partition_elementwise}},
    {Opcode::device_placement, {by_plan<plan_placement>, partition_elementwise}},
    {Opcode::reshape, {by_plan<plan_reshape>, partition_reshape}},
    {Opcode::dot, {by_plan<plan_dot>, partition_dot}},
    {Opcode::convolution, {by_plan<plan_convolution>, partition_convolution}},
    {Opcode::reduce_window, {by_plan<plan_reduce_window>, partition_reduce_window}},
    {Opcode::select_and_scatter, {place_select_and_scatter, partition_select_and_scatter}},
    {Opcode::reduce, {by_plan<plan_reduce>, partition_reduce}},
    {Opcode::slice, {place_slice, partition_slice}},
    {Opcode::pad, {by_plan<plan_pad>, partition_pad}},
    {Opcode::reverse, {by_plan<plan_reverse>, partition_reverse}},
    {Opcode::concatenate, {place_concatenate, partition_concatenate}},
    {Opcode::dynamic_slice, {by_plan<plan_dynamic_slice>, partition_dynamic_slice}},
    {Opcode::dynamic_update_slice,
     {by_plan<plan_dynamic_update_slice>, partition_dynamic_update_slice}},
    {Opcode::gather, {by_plan<plan_gather>, partition_gather}},
    {Opcode::scatter, {by_plan<plan_scatter>, partition_scatter}},
    {Opcode::topk, {by_plan<plan_top_k>, partition_top_k}},
    {Opcode::sort, {by_plan<plan_sort>, partition_sort}},
    {Opcode::fft, {by_plan<plan_fft>, partition_fft}},
    {Opcode::custom_call, {by_plan<plan_custom_call>, partition_custom_call}},
    {Opcode::custom_partitioning, {by_plan<plan_at_boundary>, partition_custom_partitioning}},
    {Opcode::manual_computation, {place_manual, partition_manual}},
    // These say where arrays go, in both stages.
    {Opcode::tuple, {partition_tuple, partition_tuple}},
    {Opcode::get_tuple_element, {partition_get_tuple_element, partition_get_tuple_element}},
    {Opcode::call, {partition_call, partition_call}},
    {Opcode::while_, {partition_while, partition_while}},
    {Opcode::conditional, {partition_conditional, partition_conditional}},
    {Opcode::opt_barrier, {partition_barrier, partition_barrier}},
    {Opcode::sharding_constraint, {partition_constraint, partition_constraint}},
    {Opcode::propagation_barrier, {partition_marker, partition_marker}},
    {Opcode::pvary, {partition_marker, partition_marker}},
};

Handlers handlers_of(const ir::Instruction& op) {
  for (const Row& row : kRows) {
    if (row.opcode == op.opcode) return row.handlers;
  }
  if (ir::is_collective(op.opcode)) return {place_collective, partition_collective};
  if (ir::has_side_effect(op.opcode)) return {by_plan<plan_at_boundary>, refuse_host};
  // Of elements that are cut into others, or joined, a dim is about the parts.
  const bool cuts_elements =
      op.is(Opcode::bitcast_convert) && op.shape.dims != op.operand(0)->shape.dims;
  if (ir::is_elementwise(op.opcode) && !cuts_elements) {
    return {by_plan<plan_elementwise>, partition_elementwise};
  }
  return {by_plan<plan_by_rule>, partition_by_rule};
}

}  // namespace

void plan_instruction(PartitionContext& p, const ir::Instruction& source) {
  handlers_of(source).place(p, source);
}

void partition_instruction(PartitionContext& p, const ir::Instruction& source) {
  handlers_of(source).partition(p, source);
}

}  // namespace tessera::spmd
