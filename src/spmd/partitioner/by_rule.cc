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
  std::vector<ir::Instruction*> operands;
  for (Value* v : p.operands_in(source, layout.operands)) operands.push_back(v->local);
  ir::Instruction* x = p.emit_local(source, operands, p.local_tuple(source.shape, layout.results));
  std::vector<ir::Instruction*> parts = p.unpack(x);
  std::vector<Shape> shapes = flatten(source.shape);
  std::vector<Value*> results;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    results.push_back(p.make(parts[i], layout.results[i], shapes[i]));
  }
  p.define_from(source, results);
}

}  // namespace tessera::spmd
