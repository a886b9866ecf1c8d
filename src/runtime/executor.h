// SPDX-License-Identifier: Apache-2.0
// Runs a plan for all devices of this process at once.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "src/runtime/plan.h"

namespace tessera::runtime {

class LocalPlan;

struct RunOptions {
  /// Compare replicated inputs that are passed as separate buffers; RuntimeError if they differ.
  bool check_replicas = false;
  /// With several processes: what this one runs. Buffers of other processes' devices are empty, of
  /// arguments as of results.
  LocalPlan* local = nullptr;
};

/// Statistics of exchanges by Exchange::Kind: bytes received by one device, and their number.
struct RunCounters {
  static constexpr std::size_t kKinds = 7;
  std::array<std::int64_t, kKinds> bytes{}, count{};
  bool any() const {
    return std::any_of(count.begin(), count.end(), [](std::int64_t n) { return n > 0; });
  }
};

/// args[i][d]: parameter i on device d; the result likewise. Memory of arguments is reused if there
/// is no other handle on it: keep a handle on arguments that must survive.
std::vector<std::vector<DeviceBuffer>> run(const Plan& plan,
                                           std::vector<std::vector<DeviceBuffer>> args,
                                           const RunOptions& options = {},
                                           RunCounters* counters = nullptr);

/// The same for one device of this process, with one buffer for each parameter and result: the
/// caller keeps the arguments, with handles of its own, until it returns. No handles are taken on
/// them.
void run_on_one(const Plan& plan, std::span<const DeviceBuffer* const> arguments,
                std::span<DeviceBuffer> results);

}  // namespace tessera::runtime
