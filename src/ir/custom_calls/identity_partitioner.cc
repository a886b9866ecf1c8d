// SPDX-License-Identifier: Apache-2.0
// An identity that is told how its operand is sharded: what it states, and its per-device body.
#include "src/ir/custom_calls/identity_partitioner.h"

#include <tessera/error.h>

#include <string>

#include "src/ir/rewrite/builder.h"

namespace tessera::ir {

std::optional<FactorRuleSpec> IdentityPartitioner::rule(const MeshRef&,
                                                        const std::vector<ShapeWithSharding>& args,
                                                        const std::vector<ShapeWithSharding>&) {
  FactorRuleSpec out;
  std::vector<IndexList> dims;
  for (const std::int64_t size : args[0].shape.dims) {
    dims.push_back({int(dims.size())});
    out.factor_names.push_back("f" + std::to_string(dims.size()));
    out.factor_sizes.push_back(size);
  }
  out.operands = {dims};
  out.results = {dims};
  return out;
}

std::vector<TensorSharding> IdentityPartitioner::infer_sharding_from_operands(
    const MeshRef&, const std::vector<ShapeWithSharding>&, const std::vector<ShapeWithSharding>&) {
  throw InternalError("an inspected array has a rule");
}

std::vector<TensorSharding> IdentityPartitioner::propagate_user_sharding(
    const MeshRef&, const std::vector<ShapeWithSharding>&) {
  throw InternalError("an inspected array has a rule");
}

CustomPartitioner::Partition IdentityPartitioner::partition(
    Module* module, const MeshRef& mesh, const std::vector<ShapeWithSharding>& args,
    const std::vector<ShapeWithSharding>&) {
  const Shape& shape = args[0].shape;
  const TensorSharding s =
      args[0].sharding ? *args[0].sharding : TensorSharding::replicated_on(mesh, shape.rank());
  see(s);
  Builder b(module->add_computation(name()));
  Instruction* p = b.parameter(0, Shape(shape.dtype, s.shard_dims(shape.dims)));
  b.computation()->set_root(b.tuple({p}));
  return {{s}, {s}, b.computation()};
}

}  // namespace tessera::ir
