// SPDX-License-Identifier: Apache-2.0
// Ops that run unchanged on shards, as long as only factors are split along which the op is
// independent.
#include <algorithm>

#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

bool gathers_for_want_of_form(ComputationPartitioner& p, const ir::Instruction& source,
                              std::size_t i, const Value& v, const ComputeLayout& layout) {
  const std::vector<TensorSharding>& results = p.declared(source);
  return !std::all_of(results.begin(), results.end(), is_whole) && !is_whole(v.sharding) &&
         v.sharding.unreduced.empty() && is_whole(layout.operands[i]) &&
         !needs_whole_operand(source, i);
}

void partition_by_rule(ComputationPartitioner& p, const ir::Instruction& source) {
  std::optional<FactorRule> rule = rule_for(source);
  bool arrays = true;
  for (const ir::Instruction* o : source.operands()) arrays &= o->shape.is_array();
  for (const Shape& s : flatten(source.shape)) arrays &= s.is_array();
  if (!rule || !arrays) {
    return p.replicate(source, "no partitioned form is known for it");
  }
  for (Factor& f : rule->factors) {
    if (f.kind != FactorKind::pass_through) f.kind = FactorKind::need_replication;
  }
  ComputeLayout layout = p.layout_for(source, *rule);
  std::vector<ir::Instruction*> operands;
  for (std::size_t i = 0; i < source.operands().size(); ++i) {
    const ir::Instruction& o = *source.operand(i);
    Value* v = p.operand_value(o);
    operands.push_back(nullptr);
    if (gathers_for_want_of_form(p, source, i, *v, layout)) {
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
