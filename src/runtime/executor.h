// SPDX-License-Identifier: Apache-2.0
// Walks a plan for all devices of this process at once.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "src/runtime/plan.h"

namespace tessera::runtime {

struct RunOptions {
  /// Replicated inputs given as separate buffers are compared; RuntimeError if they differ.
  bool check_replicas = false;
};

/// What the exchanges did: bytes received by one device, and how many, by Exchange::Kind.
struct RunCounters {
  static constexpr std::size_t kKinds = 7;
  std::array<std::int64_t, kKinds> bytes{}, count{};
};

/// args[i][d]: parameter i on device d; the result likewise. Memory of arguments is reused where
/// no other handle on it exists: keep a handle on what must survive.
std::vector<std::vector<DeviceBuffer>> run(const Plan& plan,
                                           std::vector<std::vector<DeviceBuffer>> args,
                                           const RunOptions& options = {},
                                           RunCounters* counters = nullptr);

}  // namespace tessera::runtime
