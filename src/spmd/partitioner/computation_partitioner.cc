// SPDX-License-Identifier: Apache-2.0
// A computation in another form, instruction by instruction.
#include "src/spmd/partitioner/computation_partitioner.h"

#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

ComputationPartitioner::ComputationPartitioner(ModulePartitioner& module,
                                               const ir::Computation& source,
                                               ir::Computation* target)
    : module_(module),
      source_(module, source),
      emit_(target, module.mesh(), module.imported()),
      report_(module.log(), emit_),
      rows_(emit_, report_),
      reshards_(emit_, report_, rows_),
      values_(module, source_, emit_, reshards_),
      layouts_(module, source_, values_),
      context_{module, source_, layouts_, values_, emit_, rows_, reshards_, report_} {}

ir::Instruction* ComputationPartitioner::broadcast_from(const TensorSharding& given,
                                                        ir::Instruction* x) {
  // The other devices add nothing to a sum of bits.
  ir::Builder& b = emit_.b();
  ir::Instruction* bits = as_bits(b, x);
  ir::Instruction* mine =
      b.compare(ir::Direction::eq, b.convert(b.partition_id(), s32), emit_.index(given.device));
  bits = b.select(b.splat(mine, bits->shape.dims), bits,
                  b.splat(emit_.constant_scalar(bits->shape.dtype, 0), bits->shape.dims));
  IndexList all;
  for (std::size_t a = 0; a < module_.mesh()->axes.size(); ++a) all.push_back(int(a));
  bits = b.all_reduce(bits, ir::scalar_computation(b.module(), ir::Opcode::add, bits->shape.dtype),
                      emit_.groups(all));
  ReshardReason reason("parameter on one device");
  reason.from = given.to_spec_string();
  reason.to = "replicated";
  reason.full_gather = true;
  report_.note(bits, reason);
  return from_bits(b, bits, x->shape.dtype);
}

void ComputationPartitioner::partition_parameter(const ir::Instruction& parameter, bool is_entry) {
  const ShardBuilder::OpScope scope(emit_, parameter);
  std::vector<TensorSharding> shardings = source_.shardings(parameter);
  ir::Instruction* local =
      emit_.b().parameter(parameter.get<ir::ParameterAttrs>().number,
                          module_.shape_of(parameter.shape, shardings), parameter.name);
  const bool lowers = module_.stage() == PartitionStage::device;
  if (is_entry || !lowers) local->sharding = parameter.sharding;
  local->frontend_attributes = parameter.frontend_attributes;
  std::vector<ir::Instruction*> parts = emit_.unpack(local);
  if (is_entry && lowers && !parameter.sharding.empty()) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const TensorSharding& given =
          parameter.sharding[parameter.sharding.size() == parts.size() ? i : 0];
      if (given.kind == TensorSharding::Kind::maximal && module_.devices() > 1) {
        parts[i] = broadcast_from(given, parts[i]);
      }
      parts[i] = reshards_.reordered(parts[i], given, shardings[i], "parameter on another order");
    }
  }
  values_.define(parameter, parts, shardings);
}

void ComputationPartitioner::emit_results(bool is_entry) {
  const ir::Instruction& root = *source_.computation().root();
  const ShardBuilder::OpScope scope(emit_, root);
  std::vector<ir::Instruction*> results;
  for (Value* v : values_.declared_leaves(root)) {
    const std::size_t at = root.sharding.size() == 1 ? 0 : results.size();
    results.push_back(v->local);
    if (module_.stage() == PartitionStage::reshards || !is_entry || at >= root.sharding.size())
      continue;
    results.back() =
        reshards_.reordered(v->local, v->sharding, root.sharding[at], "result on another order");
  }
  ir::Instruction* local = emit_.pack(root.shape, results);
  if (module_.stage() == PartitionStage::reshards) return set_annotated_root(local, root);
  emit_.b().computation()->set_root(local);
  if (is_entry && !local->is(ir::Opcode::parameter)) local->sharding = root.sharding;
}

void ComputationPartitioner::set_annotated_root(ir::Instruction* local,
                                                const ir::Instruction& root) {
  // Others that have the layout may say it in their own way: arguments, on another order of the
  // devices.
  const bool is_free = local->users().empty() && !local->is(ir::Opcode::parameter) &&
                       !local->is(ir::Opcode::manual_computation);
  if (!is_free && local->sharding != root.sharding) {
    local = emit_.b().unary(ir::Opcode::copy, local);
  }
  local->sharding = root.sharding;
  emit_.b().computation()->set_root(local);
  module_.origins()->try_emplace(local, &root);
}

void ComputationPartitioner::note_origins(const ir::Instruction& op) {
  const auto& all = emit_.b().computation()->instructions();
  for (; noted_ < all.size(); ++noted_) module_.origins()->try_emplace(all[noted_].get(), &op);
}

void ComputationPartitioner::run(bool is_entry) {
  const bool lowers = module_.stage() == PartitionStage::device;
  for (const ir::Instruction* parameter : source_.computation().parameters()) {
    partition_parameter(*parameter, is_entry);
    if (!lowers) note_origins(*parameter);
  }
  for (const auto& instruction : source_.computation().instructions()) {
    if (instruction->is(ir::Opcode::parameter)) continue;
    const ShardBuilder::OpScope scope(emit_, *instruction);
    if (lowers) {
      partition_instruction(context_, *instruction);
    } else {
      plan_instruction(context_, *instruction);
      note_origins(*instruction);
    }
  }
  emit_results(is_entry);
}

}  // namespace tessera::spmd
