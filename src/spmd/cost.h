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
  /// The same of a flop of a dot. Where dots are dearer they are shared out along more axes.
  double bytes_per_dot_flop = 0.003;
  /// What one costs besides that is beyond those that a device has as the shardings stand.
  double bytes_per_repeated_flop = 0;
  /// Dots that every device computes alike are shared out, and the result gathered, where that
  /// costs less.
  bool share_copies = false;
  /// What stays the same while a loop runs counts as moved once, before the loop, when an op in it
  /// chooses its layout: then it is had as the op needs it, and held so all along.
  bool steady_moves_once = false;
};

}  // namespace tessera::spmd
