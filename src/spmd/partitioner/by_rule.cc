// SPDX-License-Identifier: Apache-2.0
// Ops that run unchanged on shards, as long as only factors are split along which the op is
// independent.
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

void partition_by_rule(ComputationPartitioner& p, const ir::Instruction& source) {
  std::optional<FactorRule> rule = rule_for(source);
  bool arrays = true;
  for (const ir::Instruction* o : source.operands) arrays &= o->shape.is_array();
  for (const Shape& s : flatten(source.shape)) arrays &= s.is_array();
  if (!rule || !arrays) {
    return p.replicate(source, "no partitioned form is known for it");
  }
  for (Factor& f : rule->factors) {
    if (f.kind != FactorKind::pass_through) f.kind = FactorKind::need_replication;
  }
  ComputeLayout layout = p.layout_for(source, *rule);
  bool split_result = false;
  for (const TensorSharding& s : p.declared(source)) split_result |= !is_whole(s);
  std::vector<ir::Instruction*> operands;
  for (std::size_t i = 0; i < source.operands.size(); ++i) {
    const ir::Instruction& o = *source.operand(i);
    Value* v = p.operand_value(o);
    // What an op takes whole by its nature has that as its target; here it is our lack of a form.
    const bool forced = split_result && !is_whole(v->sharding) && v->sharding.unreduced.empty() &&
                        is_whole(layout.operands[i]) && !needs_whole_operand(source, i);
    operands.push_back(nullptr);
    if (forced) {
      p.gathered(source, i, v, "it needs the dims whole that are split", &operands.back());
    } else {
      operands.back() = p.reshard(v, layout.operands[i], p.operand_reason(source, i))->local;
    }
  }
  ir::Instruction* x = p.emit_local(source, operands, p.local_tuple(source.shape, layout.results));
  std::vector<ir::Instruction*> parts = p.unpack(x);
  std::vector<Shape> shapes = flatten(source.shape);
  std::vector<Value*> results;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    results.push_back(p.make(parts[i], layout.results[i], shapes[i]));
  }
  p.define(source, results);
}

}  // namespace tessera::spmd
