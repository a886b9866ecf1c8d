// SPDX-License-Identifier: Apache-2.0
// Tuples, calls, loops and branches. Predicates are equal on all devices, so that all of them meet
// at each collective.
#include "src/base/check.h"
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

namespace {

/// The leaves of an operand in the layouts of a callee's parameter, packed.
ir::Instruction* argument(PartitionContext& p, const ir::Instruction& operand,
                          const ir::Instruction& parameter, const std::string& reason) {
  std::vector<Value*> leaves = p.values.declared_leaves(operand);
  std::vector<TensorSharding> requested = p.source.shardings(parameter);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i]->shape.is_array()) leaves[i] = p.values.reshard(leaves[i], requested[i], reason);
  }
  return p.values.pack(operand.shape, leaves);
}

}  // namespace

void partition_marker(PartitionContext& p, const ir::Instruction& source) {
  p.values.define(source, p.values.computed_leaves(*source.operand(0)));
}

void partition_tuple(PartitionContext& p, const ir::Instruction& source) {
  std::vector<Value*> out;
  for (const ir::Instruction* o : source.operands()) {
    for (Value* v : p.values.computed_leaves(*o)) out.push_back(v);
  }
  p.values.define(source, std::move(out));
}

void partition_get_tuple_element(PartitionContext& p, const ir::Instruction& source) {
  const ir::Instruction& tuple = *source.operand(0);
  const std::vector<Value*>& all = p.values.computed_leaves(tuple);
  std::size_t begin = 0;
  const std::int64_t index = source.get<ir::GetTupleElementAttrs>().index;
  for (std::int64_t i = 0; i < index; ++i) {
    begin += flatten(tuple.shape.elements[std::size_t(i)]).size();
  }
  std::size_t count = flatten(tuple.shape.elements[std::size_t(index)]).size();
  p.values.define(source, std::vector<Value*>(all.begin() + std::ptrdiff_t(begin),
                                              all.begin() + std::ptrdiff_t(begin + count)));
}

void partition_call(PartitionContext& p, const ir::Instruction& source) {
  const ir::Computation& callee = *source.called().front();
  ir::Computation* local = p.module.partitioned(callee);
  std::vector<ir::Instruction*> operands;
  for (std::size_t i = 0; i < source.operands().size(); ++i) {
    operands.push_back(argument(p, *source.operand(i), *callee.parameter(i),
                                "argument " + std::to_string(i) + " of " + callee.name()));
  }
  ir::Instruction* x = p.b().call(local, operands);
  x->backend_config = source.backend_config;
  p.values.define(source, x, p.source.shardings(*callee.root()));
}

void partition_while(PartitionContext& p, const ir::Instruction& source) {
  const ir::Computation &condition = *source.called()[0], &body = *source.called()[1];
  const std::vector<TensorSharding> carried = p.source.shardings(*body.parameter(0));
  for (const auto& other :
       {p.source.shardings(*body.root()), p.source.shardings(*condition.parameter(0))}) {
    for (std::size_t i = 0; i < carried.size(); ++i) {
      TESSERA_CHECK(same_layout(carried[i], other[i]),
                    source.describe() + ": the layouts of carried value " + std::to_string(i) +
                        " don't agree: " + carried[i].to_spec_string() + " and " +
                        other[i].to_spec_string());
    }
  }
  TESSERA_CHECK(is_fully_replicated(p.source.sharding(*condition.root())),
                source.describe() + ": the loop's predicate is not replicated");
  ir::Computation* local_condition = p.module.partitioned(condition);
  ir::Computation* local_body = p.module.partitioned(body);
  ir::Instruction* init =
      argument(p, *source.operand(0), *body.parameter(0), "carried value of while");
  ir::Instruction* x = p.b().while_loop(local_condition, local_body, init,
                                        source.get<ir::WhileAttrs>().known_trip_count);
  x->backend_config = source.backend_config;
  x->frontend_attributes = source.frontend_attributes;
  p.values.define(source, x, carried);
}

void partition_conditional(PartitionContext& p, const ir::Instruction& source) {
  Value* selector = p.values.declared(*source.operand(0));
  selector = p.values.reshard(selector, p.source.replicated(selector->shape.rank()),
                              "predicate of conditional");
  std::vector<ir::Instruction*> operands;
  std::vector<ir::Computation*> branches;
  const std::vector<TensorSharding> results = p.source.shardings(*source.called().front()->root());
  for (std::size_t i = 0; i < source.called().size(); ++i) {
    const ir::Computation& branch = *source.called()[i];
    std::vector<TensorSharding> mine = p.source.shardings(*branch.root());
    for (std::size_t k = 0; k < mine.size(); ++k) {
      TESSERA_CHECK(same_layout(mine[k], results[k]), source.describe() +
                                                          ": the branches' layouts of result " +
                                                          std::to_string(k) + " don't agree");
    }
    branches.push_back(p.module.partitioned(branch));
    operands.push_back(argument(p, *source.operand(i + 1), *branch.parameter(0),
                                "argument of branch " + std::to_string(i)));
  }
  ir::Instruction* x = p.b().conditional(selector->local, operands, branches);
  x->backend_config = source.backend_config;
  p.values.define(source, x, results);
}

void partition_barrier(PartitionContext& p, const ir::Instruction& source) {
  const ir::Instruction& o = *source.operand(0);
  const std::vector<TensorSharding> layouts = p.source.shardings(o);
  ir::Instruction* in = p.values.pack(o.shape, p.values.declared_leaves(o));
  ir::Instruction* x = p.b().emit_shaped(ir::Opcode::opt_barrier, in->shape, {in});
  p.values.define(source, x, layouts);
}

}  // namespace tessera::spmd
