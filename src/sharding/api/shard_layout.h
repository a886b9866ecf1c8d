// SPDX-License-Identifier: Apache-2.0
// Where the parts of one array lie: what a sharding says about one shape.
#pragma once

#include <memory>
#include <vector>

#include <tessera/sharding.h>

#include "src/base/shape.h"

namespace tessera {

struct ShardLayout {
  Dims shard_shape;
  /// Devices that hold a part, in the order of the sharding's devices, and what they hold.
  std::vector<Device> devices;
  std::vector<Index> indices;
  /// First element of each device's part, per dim.
  std::vector<Dims> offsets;
  /// Numbers the devices that hold the same elements of the same partial sum.
  std::vector<std::int64_t> replica_ids;
  /// Of unreduced axes: the array is the sum of what the devices along them hold.
  bool partial_sums = false;
};

/// Computed once for equal shardings and shapes, and shared. IndivisibleError or ShardingError if
/// the sharding doesn't fit the shape, NotImplementedError if it says nothing about single devices
/// (manual, unknown).
std::shared_ptr<const ShardLayout> layout_of_parts(const Sharding& s, const Dims& shape,
                                                   Location location = {});
/// The same where devices hold elements of the array itself: NotImplementedError for partial sums.
std::shared_ptr<const ShardLayout> shard_layout(const Sharding& s, const Dims& shape,
                                                Location location = {});

}  // namespace tessera
