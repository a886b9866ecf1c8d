// SPDX-License-Identifier: Apache-2.0
// The partitioner of an identity that is told how its operand is sharded.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "src/ir/hooks.h"

namespace tessera::ir {

/// Gives its operand as it is, and takes any sharding. It is told each one that it is partitioned
/// for: the search partitions a program several times, the last time as it stays.
class IdentityPartitioner : public CustomPartitioner {
 public:
  std::optional<FactorRuleSpec> rule(const MeshRef&, const std::vector<ShapeWithSharding>& args,
                                     const std::vector<ShapeWithSharding>&) final;
  bool has_infer_callback() const final { return false; }
  bool has_propagate_callback() const final { return false; }
  std::vector<TensorSharding> infer_sharding_from_operands(
      const MeshRef&, const std::vector<ShapeWithSharding>&,
      const std::vector<ShapeWithSharding>&) final;
  std::vector<TensorSharding> propagate_user_sharding(const MeshRef&,
                                                      const std::vector<ShapeWithSharding>&) final;
  Partition partition(Module* module, const MeshRef& mesh,
                      const std::vector<ShapeWithSharding>& args,
                      const std::vector<ShapeWithSharding>&) final;
  std::shared_ptr<CustomPartitioner> on_batch(const Batch&) final { return shared_from_this(); }

 protected:
  virtual void see(const TensorSharding& sharding) = 0;
};

}  // namespace tessera::ir
