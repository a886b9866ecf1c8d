// SPDX-License-Identifier: Apache-2.0
// shard_alike: an op that gives its operands, which it partitions in one way.
#include <tessera/sharding/shard_alike.h>

#include <memory>
#include <optional>

#include "src/frontend/custom/batched_partitioning.h"
#include "src/frontend/trace/trace.h"

namespace tessera::frontend {

namespace {

using ir::ShapeWithSharding;

/// Corresponding dims are one factor.
class AlikePartitioner final : public ir::CustomPartitioner {
 public:
  std::string name() const override { return "shard_alike"; }
  bool has_infer_callback() const override { return false; }
  bool has_propagate_callback() const override { return false; }
  std::vector<TensorSharding> infer_sharding_from_operands(
      const MeshRef&, const std::vector<ShapeWithSharding>&,
      const std::vector<ShapeWithSharding>&) override {
    TESSERA_CHECK(false, "shard_alike has a rule");
    return {};
  }
  std::vector<TensorSharding> propagate_user_sharding(
      const MeshRef&, const std::vector<ShapeWithSharding>&) override {
    TESSERA_CHECK(false, "shard_alike has a rule");
    return {};
  }

  std::optional<ir::FactorRuleSpec> rule(const MeshRef&, const std::vector<ShapeWithSharding>& args,
                                         const std::vector<ShapeWithSharding>&) override {
    ir::FactorRuleSpec out;
    std::vector<IndexList> dims;
    for (const std::int64_t size : args[0].shape.dims) {
      dims.push_back({int(out.factor_sizes.size())});
      out.factor_names.push_back("d" + std::to_string(out.factor_sizes.size()));
      out.factor_sizes.push_back(size);
    }
    out.operands = out.results = {dims, dims};
    return out;
  }

  Partition partition(ir::Module* module, const MeshRef& mesh,
                      const std::vector<ShapeWithSharding>& args,
                      const std::vector<ShapeWithSharding>& results) override {
    TensorSharding both = TensorSharding::replicated_on(mesh, args[0].shape.rank());
    for (const ShapeWithSharding& r : results) {
      if (!r.sharding || r.sharding->kind != TensorSharding::Kind::axes) continue;
      if (!both.is_replicated()) break;
      both = r.sharding->closed();
      both.unreduced.clear();
    }
    Partition out;
    out.args = out.results = {both, both};
    ir::Builder b(module->add_computation(name()));
    std::vector<ir::Instruction*> parts;
    for (const ShapeWithSharding& a : args) {
      parts.push_back(b.parameter(std::int64_t(parts.size()),
                                  Shape(a.shape.dtype, both.shard_dims(a.shape.dims))));
    }
    out.body = b.computation();
    out.body->set_root(b.tuple(parts));
    return out;
  }

  std::shared_ptr<ir::CustomPartitioner> on_batch(const Batch& batch) override {
    return std::make_shared<BatchedPartitioner>(shared_from_this(), batch);
  }
};

std::pair<Array, Array> alike(const Array& x, const Array& y, Location location) {
  // One for all programs, so that equal ones are compiled once.
  static const auto partitioner = std::make_shared<AlikePartitioner>();
  const std::vector<Array> out = as_one_program("shard_alike", location, [&] {
    Trace& outer = *Trace::current();
    Trace inner("shard_alike", &outer);
    std::vector<Array> both{inner.add_parameter(abstract_value(x)),
                            inner.add_parameter(abstract_value(y))};
    ir::Computation* body = inner.finish(both, location);
    const Shape shape = Shape::tuple({abstract_value(x).shape, abstract_value(y).shape});
    ir::CustomPartitioningAttrs attrs;
    attrs.partitioner = partitioner;
    return apply_many(ir::Opcode::custom_partitioning, std::vector<Array>{x, y}, attrs, location,
                      "shard_alike", &shape,
                      [&](ir::Module*) { return std::vector<ir::Computation*>{body}; });
  });
  return {out[0], out[1]};
}

}  // namespace

}  // namespace tessera::frontend

namespace tessera::internal {

std::pair<std::vector<Array>, std::vector<Array>> shard_alike_leaves(
    const std::vector<Array>& x, const std::vector<Array>& y,
    const std::function<void(TreeVisitor&)>& walk_x,
    const std::function<void(TreeVisitor&)>& walk_y, Location location) {
  const std::vector<std::string> paths = leaf_paths(walk_x);
  if (paths != leaf_paths(walk_y)) {
    throw ValueError("shard_alike: the trees differ: one has " + std::to_string(x.size()) +
                         " arrays and the other " + std::to_string(y.size()) +
                         ", or they have other names",
                     location);
  }
  const frontend::Trace* trace = frontend::Trace::current();
  const bool per_device = trace != nullptr && trace->manual_scope() != nullptr;
  std::pair<std::vector<Array>, std::vector<Array>> out;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const Shape a = frontend::abstract_value(x[k]).shape, b = frontend::abstract_value(y[k]).shape;
    if (a.dims != b.dims) {
      throw ShapeError("shard_alike: the arrays" + (paths[k].empty() ? "" : " at " + paths[k]) +
                           " have shapes " + a.to_string() + " and " + b.to_string() +
                           "; they must have the same dims",
                       location);
    }
    const auto [left, right] =
        per_device ? std::pair(x[k], y[k]) : frontend::alike(x[k], y[k], location);
    out.first.push_back(left);
    out.second.push_back(right);
  }
  return out;
}

}  // namespace tessera::internal
