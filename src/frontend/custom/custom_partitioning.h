// SPDX-License-Identifier: Apache-2.0
// The user's partitioning callbacks as an ir::CustomPartitioner.
#pragma once

#include <tessera/custom_partitioning.h>

#include "src/frontend/run/execute.h"
#include "src/ir/hooks.h"

namespace tessera::frontend {

/// The user's callbacks as the partitioner calls them. One per staged call.
class UserPartitioner : public ir::CustomPartitioner, public DeviceListener {
 public:
  explicit UserPartitioner(internal::BoundCallbacks callbacks) : callbacks_(std::move(callbacks)) {}

  /// The user's mesh and devices, known once the program is placed. Without a mesh callbacks see
  /// tilings.
  void bind(const Mesh& mesh, std::vector<Device> devices) override;

  std::string name() const override { return callbacks_.name; }
  std::optional<ir::FactorRuleSpec> rule(
      const MeshRef& mesh, const std::vector<ir::ShapeWithSharding>& args,
      const std::vector<ir::ShapeWithSharding>& results) override;
  bool has_infer_callback() const override { return callbacks_.infer != nullptr; }
  bool has_propagate_callback() const override { return callbacks_.propagate != nullptr; }
  std::vector<TensorSharding> infer_sharding_from_operands(
      const MeshRef& mesh, const std::vector<ir::ShapeWithSharding>& args,
      const std::vector<ir::ShapeWithSharding>& results) override;
  std::vector<TensorSharding> propagate_user_sharding(
      const MeshRef& mesh, const std::vector<ir::ShapeWithSharding>& results) override;
  Partition partition(ir::Module* module, const MeshRef& mesh,
                      const std::vector<ir::ShapeWithSharding>& args,
                      const std::vector<ir::ShapeWithSharding>& results) override;
  std::shared_ptr<ir::CustomPartitioner> on_batch(const Batch& batch) override;

 private:
  ShapeInfos infos(const std::vector<ir::ShapeWithSharding>& values) const;
  std::vector<TensorSharding> read_back(const std::vector<Sharding>& given, const MeshRef& mesh,
                                        const std::vector<ir::ShapeWithSharding>& values,
                                        const std::string& callback, const std::string& what) const;

  internal::BoundCallbacks callbacks_;
  Mesh mesh_;
  std::vector<Device> devices_;
};

}  // namespace tessera::frontend
