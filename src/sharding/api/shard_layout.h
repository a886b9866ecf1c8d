// SPDX-License-Identifier: Apache-2.0
// The shards of one array: a sharding applied to one shape.
#pragma once

#include <memory>
#include <vector>

#include <tessera/sharding.h>

#include "src/base/arrays/shape.h"

namespace tessera {

struct ShardLayout {
  Dims shard_shape;
  /// Devices that hold a part, in the order of the sharding's devices, and the part of each.
  std::vector<Device> devices;
  std::vector<Index> indices;
  /// First element of each device's part, per dim.
  std::vector<Dims> offsets;
  /// Numbers the copies among the devices that hold the same elements of the same partial sum.
  std::vector<std::int64_t> replica_ids;
  /// Whether there are unreduced axes: the array is the sum of the parts of the devices along them,
  /// or what else the sharding's kind says.
  bool partial_sums = false;
};

/// Computed once per sharding and shape, and shared. IndivisibleError or ShardingError if the
/// sharding doesn't fit the shape, NotImplementedError if it doesn't define the parts of devices
/// (manual, unknown).
std::shared_ptr<const ShardLayout> layout_of_parts(const Sharding& s, const Dims& shape,
                                                   Location location = {});
/// The same for shardings without unreduced axes: NotImplementedError for partial sums.
std::shared_ptr<const ShardLayout> shard_layout(const Sharding& s, const Dims& shape,
                                                Location location = {});

}  // namespace tessera
