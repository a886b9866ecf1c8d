// SPDX-License-Identifier: Apache-2.0
// inspect_array_sharding: an identity whose partitioning tells how its operand is sharded.
#include <tessera/host_callback.h>

#include <mutex>

#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/run/execute.h"
#include "src/frontend/run/shardings.h"
#include "src/ir/hooks.h"

namespace tessera {

using frontend::Trace;
using internal::impl_of;

namespace {

/// Gives its operand as it is, and remembers how that was sharded last: the search partitions a
/// program several times, the last time as it stays.
class Inspector : public ir::CustomPartitioner, public frontend::DeviceListener {
 public:
  explicit Inspector(std::function<void(const Sharding&)> f) : f_(std::move(f)) {}

  void bind(const Mesh& mesh, std::vector<Device> devices) override {
    const std::lock_guard lock(mutex_);
    mesh_ = mesh;
    devices_ = std::move(devices);
    if (devices_.size() == 1) seen_ = SingleDeviceSharding(devices_[0]);
  }
  void compiled() override {
    std::optional<Sharding> seen;
    {
      const std::lock_guard lock(mutex_);
      seen.swap(seen_);
    }
    if (seen) f_(*seen);
  }

  std::string name() const override { return "inspect_array_sharding"; }
  std::optional<ir::FactorRuleSpec> rule(const MeshRef&,
                                         const std::vector<ir::ShapeWithSharding>& args,
                                         const std::vector<ir::ShapeWithSharding>&) override {
    ir::FactorRuleSpec out;
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
  bool has_infer_callback() const override { return false; }
  bool has_propagate_callback() const override { return false; }
  std::vector<TensorSharding> infer_sharding_from_operands(
      const MeshRef&, const std::vector<ir::ShapeWithSharding>&,
      const std::vector<ir::ShapeWithSharding>&) override {
    throw InternalError("an inspected array has a rule");
  }
  std::vector<TensorSharding> propagate_user_sharding(
      const MeshRef&, const std::vector<ir::ShapeWithSharding>&) override {
    throw InternalError("an inspected array has a rule");
  }
  Partition partition(ir::Module* module, const MeshRef& mesh,
                      const std::vector<ir::ShapeWithSharding>& args,
                      const std::vector<ir::ShapeWithSharding>&) override {
    const Shape& shape = args[0].shape;
    const TensorSharding s =
        args[0].sharding ? *args[0].sharding : TensorSharding::replicated_on(mesh, shape.rank());
    {
      const std::lock_guard lock(mutex_);
      seen_ = frontend::sharding_of_result(s, devices_, mesh_);
    }
    ir::Builder b(module->add_computation(name()));
    ir::Instruction* p = b.parameter(0, Shape(shape.dtype, s.shard_dims(shape.dims)));
    b.computation()->set_root(b.tuple({p}));
    return {{s}, {s}, b.computation()};
  }
  std::shared_ptr<ir::CustomPartitioner> on_batch(const Batch&) override {
    return shared_from_this();
  }

 private:
  std::function<void(const Sharding&)> f_;
  std::mutex mutex_;
  Mesh mesh_;
  std::vector<Device> devices_;
  std::optional<Sharding> seen_;
};

}  // namespace

void inspect_array_sharding(const Array& x, std::function<void(const Sharding&)> f,
                            Location location) {
  Trace* trace = Trace::current();
  if (!trace) return f(x.sharding(location));
  if (trace->manual_scope()) {
    throw ValueError(
        "inspect_array_sharding within per-device code, where each device has its own value; "
        "valid: outside of it",
        location);
  }
  const Shape& shape = impl_of(x, location).shape;
  ir::Builder b(trace->module()->add_computation("inspect_array_sharding"));
  b.computation()->set_root(b.tuple({b.parameter(0, shape)}));
  ir::CustomPartitioningAttrs attrs;
  attrs.partitioner = std::make_shared<Inspector>(std::move(f));
  attrs.has_side_effect = true;  // it stays though nobody reads its result
  const Shape result = Shape::tuple({shape});
  const std::vector<Array> operands{x};
  frontend::apply_many(ir::Opcode::custom_partitioning, operands, attrs, location,
                       "inspect_array_sharding", &result,
                       [&](ir::Module*) { return std::vector<ir::Computation*>{b.computation()}; });
}

}  // namespace tessera
