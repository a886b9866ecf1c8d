// SPDX-License-Identifier: Apache-2.0
// What a program is compiled for: requests, the environment's defaults, and devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tessera/network.h>
#include <tessera/sharding/layouts.h>

namespace tessera::compiler {

/// What to do about a reshard that gathers an entire array on each device without need.
enum class FullGathers : std::uint8_t { warn, error, ignore };

/// What the user of one function may ask for. What is empty is as the environment says.
struct Requests {
  std::optional<Layouts> layouts{};             ///< TESSERA_LAYOUTS, else solved
  std::optional<std::int64_t> memory_budget{};  ///< TESSERA_MEMORY_BUDGET
  std::optional<Network> network{};             ///< TESSERA_NETWORK
};

/// A description as Network::parse takes it, or the name of a file that holds one: the text of a
/// description has a '='. ValueError; IoError.
Network read_network(const std::string& given);

/// Which device runs what, as in XLA: partition p of replica r is logical device
/// r * num_partitions + p.
struct DeviceAssignment {
  std::int64_t num_replicas = 1, num_partitions = 1;
  /// Device ids of the logical devices, in order. Empty: logical device d is device d.
  std::vector<std::int64_t> ids{};

  std::int64_t num_devices() const { return num_replicas * num_partitions; }
  std::int64_t logical(std::int64_t replica, std::int64_t partition) const {
    return replica * num_partitions + partition;
  }
  std::int64_t device(std::int64_t replica, std::int64_t partition) const {
    const std::int64_t d = logical(replica, partition);
    return ids.empty() ? d : ids.at(std::size_t(d));
  }
  friend bool operator==(const DeviceAssignment&, const DeviceAssignment&) = default;
};

/// All that a program is compiled by: caches of executables have all of it in their keys.
struct Options {
  /// What is requested, and what the environment says of the rest: the only place that reads what
  /// it says of compilations. ValueError for another value than a variable may have.
  explicit Options(const Requests& requests);
  Options() : Options(Requests{}) {}

  Layouts layouts = Layouts::solved;
  /// Bytes that one device may hold where shardings are solved for; empty: hardly more than the
  /// propagated program.
  std::optional<std::int64_t> memory_budget;
  /// What layouts and reshards are chosen for; empty: cost::assumed_network.
  std::optional<Network> network;
  /// TESSERA_FULL_GATHER.
  FullGathers full_gathers = FullGathers::warn;
  /// TESSERA_EVALUATOR_OPS=error: a program with ops that only the evaluator runs is refused.
  bool refuse_evaluator_ops = false;
  /// TESSERA_WINDOW_DOTS_FROM.
  std::int64_t collective_matmul_from_bytes = 0;
  /// Keep the modules between the stages, for as_text().
  bool keep_stages = true;
  /// For how many replicas and partitions, and on which devices. None: as the module says
  /// (replica_count, num_partitions), in order. A module that says 1 is given what stands here; any
  /// other number must be the same (CompileError).
  std::optional<DeviceAssignment> assignment{};
  /// The module is one device's program already: nothing is propagated or partitioned.
  bool partitioned_input = false;
  /// False: it is to be looked at, not to be run. The work then doesn't grow with the devices, and
  /// memory is estimated for devices of which each has its own copy of everything.
  bool runs = true;
  /// Where several processes run it together: the process of each logical device. Empty: all
  /// devices are of this process.
  std::vector<std::int32_t> process_of{};
};

}  // namespace tessera::compiler
