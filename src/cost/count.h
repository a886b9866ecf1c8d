// SPDX-License-Identifier: Apache-2.0
// What a partitioned program communicates and multiplies, per device.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "src/cost/machine.h"
#include "src/ir/module.h"

namespace tessera::cost {

struct CommunicationCount {
  struct Kind {
    std::int64_t count = 0;  ///< instructions, however often they run
    double bytes = 0;        ///< received by one device, in all runs
  };
  std::map<std::string, Kind> kinds;  ///< "all-gather", ...
  double total_bytes = 0;
  double executed = 0;  ///< collectives, as often as they run
  double seconds = 0;   ///< of all collectives, one after the other
  /// By cost::dot_flops, of all dots and convolutions that one device executes.
  double dot_flops = 0;
  /// Communicating loops whose trip count isn't known; they count once.
  std::int64_t unknown_trip_counts = 0;
};

/// Counts a device program: bytes received are those of received_bytes. A loop's body counts as
/// often as it runs. Of a conditional's branches, that which receives most counts for what is
/// communicated; for work, that which has most of it.
CommunicationCount count_communication(const ir::Module& module, const Machine& machine = {});

}  // namespace tessera::cost
