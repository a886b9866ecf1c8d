// SPDX-License-Identifier: Apache-2.0
// Shardings on meshes of the same devices whose axes don't go together: other device orders, other
// factorizations.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "src/sharding/axes/tensor_sharding.h"

namespace tessera::spmd {

/// The sharding can be expressed by axes of `mesh` by TensorSharding::on.
bool representable_on(const TensorSharding& sharding, const MeshRef& mesh);

/// A sharding on `mesh`, whose axes are prime, that cuts each dim into as many parts: shards of
/// both have the same shapes, and one permute of devices leads from one to the other. Of several
/// such shardings one that leaves all devices their shards, else one that cuts no named axis. Open
/// flags, priorities and groups are kept.
/// ShardingError if the meshes have different numbers of devices.
TensorSharding equivalent_on(const TensorSharding& sharding, const MeshRef& mesh);

/// The same on one mesh, looked for once: the search goes over all devices, and many ops have the
/// same shardings.
class StandIns {
 public:
  explicit StandIns(MeshRef mesh) : mesh_(std::move(mesh)) {}
  const TensorSharding& of(const TensorSharding& sharding);

 private:
  MeshRef mesh_;
  std::deque<std::pair<TensorSharding, TensorSharding>> known_;  // few: looked through in order
};

/// (source, target) of the permute between two shardings with the same number of parts per dim,
/// whatever their meshes; devices that keep their shard are included.
std::vector<std::pair<std::int64_t, std::int64_t>> reorder_pairs(const TensorSharding& from,
                                                                 const TensorSharding& to);

}  // namespace tessera::spmd
