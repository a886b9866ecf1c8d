// SPDX-License-Identifier: Apache-2.0
// inspect_array_sharding: an identity whose partitioning tells how its operand is sharded.
#include <tessera/custom/host_callback.h>

#include <mutex>

#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/run/execute.h"
#include "src/frontend/run/shardings.h"
#include "src/ir/custom_calls/identity_partitioner.h"

namespace tessera {

using frontend::Trace;
using internal::impl_of;

namespace {

/// Remembers how its operand was sharded last.
class Inspector final : public ir::IdentityPartitioner, public frontend::DeviceListener {
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

 private:
  void see(const TensorSharding& sharding) override {
    const std::lock_guard lock(mutex_);
    seen_ = frontend::sharding_of_result(sharding, devices_, mesh_);
  }

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
