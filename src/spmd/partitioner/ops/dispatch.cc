// SPDX-License-Identifier: Apache-2.0
// Chooses the partitioning function of an instruction by its op family.
#include "src/spmd/factor_rule.h"
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

namespace {

using ir::Opcode;

[[noreturn]] void refuse(const ir::Instruction& source, const std::string& why) {
  throw NotImplementedError(op_label(source) + " can't be partitioned in this version: " + why,
                            source.location());
}

using Handler = void (*)(PartitionContext&, const ir::Instruction&);

void partition_bitcast_convert(PartitionContext& p, const ir::Instruction& source) {
  const bool same_dims = source.shape.dims == source.operand(0)->shape.dims;
  return same_dims ? partition_elementwise(p, source) : partition_by_rule(p, source);
}
void partition_partition_id(PartitionContext& p, const ir::Instruction& source) {
  if (p.source.manual_axes().empty() && p.module.devices() > 1) {
    refuse(source, "which device it is belongs into per-device code");
  }
  replicate(p, source, "");
}

/// Of an op with a family of its own; null for others.
Handler handler_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::constant:
      return partition_constant;
    case Opcode::iota:
      return partition_iota;
    case Opcode::rng:
      return partition_rng;
    case Opcode::broadcast:
      return partition_broadcast;
    case Opcode::reshape:
      return partition_reshape;
    case Opcode::dot:
      return partition_dot;
    case Opcode::convolution:
      return partition_convolution;
    case Opcode::reduce_window:
      return partition_reduce_window;
    case Opcode::select_and_scatter:
      return partition_select_and_scatter;
    case Opcode::reduce:
      return partition_reduce;
    case Opcode::slice:
      return partition_slice;
    case Opcode::pad:
      return partition_pad;
    case Opcode::reverse:
      return partition_reverse;
    case Opcode::concatenate:
      return partition_concatenate;
    case Opcode::dynamic_slice:
      return partition_dynamic_slice;
    case Opcode::dynamic_update_slice:
      return partition_dynamic_update_slice;
    case Opcode::gather:
      return partition_gather;
    case Opcode::scatter:
      return partition_scatter;
    case Opcode::tuple:
      return partition_tuple;
    case Opcode::get_tuple_element:
      return partition_get_tuple_element;
    case Opcode::call:
      return partition_call;
    case Opcode::while_:
      return partition_while;
    case Opcode::conditional:
      return partition_conditional;
    case Opcode::opt_barrier:
      return partition_barrier;
    case Opcode::sharding_constraint:
      return partition_constraint;
    case Opcode::manual_computation:
      return partition_manual;
    case Opcode::custom_partitioning:
      return partition_custom_partitioning;
    case Opcode::custom_call:
      return partition_custom_call;
    case Opcode::topk:
      return partition_top_k;
    case Opcode::sort:
      return partition_sort;
    case Opcode::fft:
      return partition_fft;
    case Opcode::rng_bit_generator:
      return partition_rng_bit_generator;
    case Opcode::propagation_barrier:
    case Opcode::pvary:
      return partition_marker;
    case Opcode::transpose:
    case Opcode::device_placement:
      return partition_elementwise;
    case Opcode::bitcast_convert:
      return partition_bitcast_convert;
    case Opcode::partition_id:
      return partition_partition_id;
    default:
      return nullptr;
  }
}

}  // namespace

void partition_instruction(PartitionContext& p, const ir::Instruction& source) {
  if (const Handler handler = handler_of(source.opcode)) return handler(p, source);
  if (ir::is_collective(source.opcode)) {
    if (!p.source.manual_axes().empty()) return partition_collective(p, source);
    refuse(source, "collectives belong into per-device code");
  }
  if (ir::has_side_effect(source.opcode)) refuse(source, "it talks to the host");
  if (ir::is_elementwise(source.opcode)) return partition_elementwise(p, source);
  // Unchanged on shards of the factors that its rule passes through.
  if (rule_for(source)) return partition_by_rule(p, source);
  replicate(p, source, "no partitioned form is known for it");
}

}  // namespace tessera::spmd
