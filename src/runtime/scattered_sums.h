// SPDX-License-Identifier: Apache-2.0
// All-reduces across processes in two steps: each process makes the sums of a part of the elements,
// of which it gets all terms, and then gives them to all. Sums are added up in the order of the
// group, and so have the bits that one process gives.
#pragma once

#include "src/runtime/direct_exchange.h"

namespace tessera::runtime {

struct ScatteredSums {
  DirectExchange scatter, gather;

  /// Whether it is worthwhile: not for the smallest ones, which are sent by everyone to everyone in
  /// one step, nor for the largest, or where processes have many terms each.
  static bool fits(const Plan& plan, const Exchange& exchange,
                   const std::vector<std::int32_t>& process_of);
  /// Among all devices. RuntimeError if a device is in no group.
  static ScatteredSums of(const Plan& plan, const Exchange& exchange, const LocalPlan& local);
};

}  // namespace tessera::runtime
