// SPDX-License-Identifier: Apache-2.0
// The implementation behind NamedSharding.
#pragma once

#include "src/sharding/api/sharding_impl.h"

namespace tessera::internal {

class NamedShardingImpl final : public ShardingImpl {
 public:
  static constexpr ShardingClass kClass = ShardingClass::named;
  NamedShardingImpl(Mesh mesh, PartitionSpec spec, std::string memory_kind)
      : ShardingImpl({}, std::move(memory_kind)), mesh_(std::move(mesh)), spec_(std::move(spec)) {}

  ShardingClass sharding_class() const override { return kClass; }
  Tiling tiling(std::int64_t ndim, Location location) const override;
  bool is_fully_replicated() const override;
  std::shared_ptr<const ShardingImpl> with_memory_kind(std::string kind) const override;
  std::string to_string() const override;
  bool same(const ShardingImpl& other) const override;
  std::size_t hash() const override;

  const std::vector<Device>& devices() const override { return MeshAccess::devices(mesh_); }
  std::int64_t device_count() const override { return mesh_.size(); }
  bool is_abstract() const override { return mesh_.is_abstract(); }
  const Mesh& mesh() const { return mesh_; }
  const PartitionSpec& spec() const { return spec_; }

 private:
  Mesh mesh_;
  PartitionSpec spec_;
};

}  // namespace tessera::internal
