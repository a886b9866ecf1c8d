// SPDX-License-Identifier: Apache-2.0
// Cost and memory of compiled programs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tessera/network.h>

namespace tessera {

/// Memory of one device in bytes, known before the program runs.
struct MemoryAnalysis {
  /// Arguments, results, temporaries, and results in the memory of donated arguments.
  std::int64_t argument_bytes = 0, output_bytes = 0, temp_bytes = 0, alias_bytes = 0;
  /// Largest total at any time of the run.
  std::int64_t peak_bytes_per_device = 0;
  /// The same of what is in a device's host memories, of kinds `pinned_host` and `unpinned_host`.
  /// It isn't part of the numbers above.
  std::int64_t host_argument_bytes = 0, host_output_bytes = 0, host_temp_bytes = 0,
               host_alias_bytes = 0;
  /// Largest total in host memory at any time of the run.
  std::int64_t peak_host_bytes_per_device = 0;
  /// Where several processes run the program: the most that this one holds, for all of its devices
  /// together, of what others send it or what it packs for them, besides results; for the time of
  /// an exchange. It isn't part of the numbers above.
  std::int64_t exchange_bytes_per_process = 0;
};

/// The cost of one collective instruction of a device's program.
struct CollectiveCost {
  std::string kind;         ///< kind: "all-gather", ...
  std::string instruction;  ///< name of the instruction
  std::string location;     ///< "file:line" of the operation that needs it
  /// The mesh axes it communicates over, with the number of devices along each that take part;
  /// empty if its groups aren't those of mesh axes.
  std::vector<std::pair<std::string, std::int64_t>> axes;
  std::int64_t group_size = 1;  ///< number of devices of a group
  double bytes = 0;             ///< bytes received by one device, each time
  double times = 1;             ///< number of times it runs; once per loop of unknown length
  double seconds = 0;           ///< estimated time, each time
};

/// The cost of one run on one device.
struct CostAnalysis {
  /// Floating-point operations, and bytes received from other devices.
  double flops = 0, bytes_received = 0;
  /// Number of elements that exp, log, tanh, sqrt and similar functions are applied to; `flops`
  /// counts each as one.
  double transcendentals = 0;
  /// Bytes read from and written to the device's memory, with elementwise operations fused into
  /// their users.
  double bytes_accessed = 0;

  /// Totals of one kind of collective.
  struct Kind {
    std::int64_t count = 0;         ///< number of instructions
    double bytes = 0, seconds = 0;  ///< bytes received, and estimated time
    friend bool operator==(const Kind&, const Kind&) = default;
  };
  /// Totals by kind of collective, all trips of loops included.
  std::map<std::string, Kind> kinds;
  /// All collectives, the most expensive first.
  std::vector<CollectiveCost> collectives;

  /// Estimated time of computation on the described machine: for each operation the longer of its
  /// arithmetic and its memory traffic (the roofline model).
  double compute_seconds = 0;
  /// Estimated time of all collectives.
  double collective_seconds = 0;
  /// Estimated time of the program as scheduled: operations run in the program's order, and each
  /// collective overlaps with those between it and its first use, one collective at a time. Between
  /// the larger of the two times above and their sum.
  double overlapped_seconds = 0;
  /// Estimated time if nothing overlaps: a rough upper bound.
  double step_seconds() const { return compute_seconds + collective_seconds; }
  /// Returns a table of the `most` most expensive collectives, and totals.
  std::string to_text(std::size_t most = 20) const;
};

}  // namespace tessera
