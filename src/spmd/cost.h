// SPDX-License-Identifier: Apache-2.0
// The cost model of the partitioner and of the reshard planner.
#pragma once

#include <cstdint>

namespace tessera::spmd {

/// What moving an array costs besides the bytes that one device receives: a charge per collective,
/// and a small one that breaks ties. All that the reshard planner knows of a cost model.
struct TransferCost {
  /// Bytes-equivalent of starting one collective.
  double latency_bytes = 256;
  /// Bytes-equivalent of a byte of peak memory above source + target shard.
  double bytes_per_peak_byte = 0.01;
  friend bool operator==(const TransferCost&, const TransferCost&) = default;
};

/// What the planners minimise: bytes that one device receives, plus charges for starting
/// collectives, for memory and for work.
struct CostModel {
  TransferCost transfer;
  /// Bytes-equivalent of one flop executed by one device.
  double bytes_per_flop = 0.003;
};

}  // namespace tessera::spmd
