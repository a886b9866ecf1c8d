// SPDX-License-Identifier: Apache-2.0
// The user's partitioning callbacks for a batch of calls.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/frontend/run/execute.h"
#include "src/ir/hooks.h"

namespace tessera::frontend {

/// Calls the callbacks of one entry without the batch, and adds it to what they return. Devices
/// that hold different entries do the same: an axis on which the batch lies is one that the
/// callbacks and the per-device function of an entry leave alone.
class BatchedPartitioner final : public ir::CustomPartitioner, public DeviceListener {
 public:
  BatchedPartitioner(std::shared_ptr<ir::CustomPartitioner> entry, Batch batch)
      : entry_(std::move(entry)), batch_(std::move(batch)) {}

  void bind(const Mesh& mesh, std::vector<Device> devices) override;

  std::string name() const override { return entry_->name(); }
  bool has_infer_callback() const override { return entry_->has_infer_callback(); }
  bool has_propagate_callback() const override { return entry_->has_propagate_callback(); }
  std::optional<ir::FactorRuleSpec> rule(
      const MeshRef& mesh, const std::vector<ir::ShapeWithSharding>& args,
      const std::vector<ir::ShapeWithSharding>& results) override;
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
  const std::shared_ptr<ir::CustomPartitioner> entry_;
  const Batch batch_;
};

}  // namespace tessera::frontend
