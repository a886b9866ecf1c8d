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

}  // namespace

void partition_instruction(ComputationPartitioner& p, const ir::Instruction& source) {
  switch (source.opcode) {
    case Opcode::constant:
      return partition_constant(p, source);
    case Opcode::iota:
      return partition_iota(p, source);
    case Opcode::rng:
      return partition_rng(p, source);
    case Opcode::broadcast:
      return partition_broadcast(p, source);
    case Opcode::transpose:
      return partition_transpose(p, source);
    case Opcode::reshape:
      return partition_reshape(p, source);
    case Opcode::dot:
      return partition_dot(p, source);
    case Opcode::convolution:
      return partition_convolution(p, source);
    case Opcode::reduce_window:
      return partition_reduce_window(p, source);
    case Opcode::select_and_scatter:
      return partition_select_and_scatter(p, source);
    case Opcode::reduce:
      return partition_reduce(p, source);
    case Opcode::slice:
      return partition_slice(p, source);
    case Opcode::pad:
      return partition_pad(p, source);
    case Opcode::reverse:
      return partition_reverse(p, source);
    case Opcode::concatenate:
      return partition_concatenate(p, source);
    case Opcode::dynamic_slice:
      return partition_dynamic_slice(p, source);
    case Opcode::dynamic_update_slice:
      return partition_dynamic_update_slice(p, source);
    case Opcode::gather:
      return partition_gather(p, source);
    case Opcode::scatter:
      return partition_scatter(p, source);
    case Opcode::tuple:
      return partition_tuple(p, source);
    case Opcode::get_tuple_element:
      return partition_get_tuple_element(p, source);
    case Opcode::call:
      return partition_call(p, source);
    case Opcode::while_:
      return partition_while(p, source);
    case Opcode::conditional:
      return partition_conditional(p, source);
    case Opcode::opt_barrier:
      return partition_barrier(p, source);
    case Opcode::sharding_constraint:
      return partition_constraint(p, source);
    case Opcode::propagation_barrier:
    case Opcode::pvary:
      return p.define(source, p.raw_leaves(*source.operand(0)));
    case Opcode::manual_computation:
      return partition_manual(p, source);
    case Opcode::custom_partitioning:
      return partition_custom_partitioning(p, source);
    case Opcode::custom_call:
      return partition_custom_call(p, source);
    case Opcode::bitcast_convert:
      if (source.shape.dims == source.operand(0)->shape.dims) {
        return partition_elementwise(p, source);
      }
      return partition_by_rule(p, source);
    case Opcode::topk:
      return partition_top_k(p, source);
    case Opcode::sort:
      return partition_sort(p, source);
    case Opcode::fft:
      return partition_fft(p, source);
    case Opcode::rng_bit_generator:
      return partition_rng_bit_generator(p, source);
    case Opcode::partition_id:
      if (p.manual_axes().empty() && p.module().devices() > 1) {
        refuse(source, "which device it is belongs into per-device code");
      }
      return p.replicate(source, "");
    default:
      break;
  }
  if (ir::is_collective(source.opcode)) {
    if (!p.manual_axes().empty()) return partition_collective(p, source);
    refuse(source, "collectives belong into per-device code");
  }
  if (ir::has_side_effect(source.opcode)) refuse(source, "it talks to the host");
  if (ir::is_elementwise(source.opcode)) return partition_elementwise(p, source);
  // Unchanged on shards of the factors that its rule passes through.
  if (rule_for(source)) return partition_by_rule(p, source);
  p.replicate(source, "no partitioned form is known for it");
}

}  // namespace tessera::spmd
