// SPDX-License-Identifier: Apache-2.0
// Splits arrays into the shards of devices, and compares results of devices with global arrays.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/arrays/literal.h"
#include "src/ir/module.h"

namespace tessera::testing {

/// A device's shard; the padding of uneven dims is filled with NaN (floats) or large numbers.
Literal shard_of(const Literal& whole, const TensorSharding& sharding, std::int64_t device);

/// The arguments of each device's program. Leaves of tuples have a sharding each.
std::vector<std::vector<Literal>> shard_arguments(const ir::Module& partitioned,
                                                  const std::vector<Literal>& arguments);

/// The first difference between the devices' results and the global result, if there is one.
/// `tolerance` 0: bit for bit. Otherwise |a - b| <= tolerance * (1 + largest |b|), NaN equals NaN.
std::optional<std::string> difference(const std::vector<Literal>& results, const Literal& whole,
                                      const std::vector<TensorSharding>& shardings,
                                      double tolerance);

}  // namespace tessera::testing
