// SPDX-License-Identifier: Apache-2.0
// What a compiled program costs, and what a described machine makes of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tessera/error.h>

namespace tessera {

/// Bytes per device, known before running.
struct MemoryAnalysis {
  std::int64_t argument_bytes = 0, output_bytes = 0, temp_bytes = 0, alias_bytes = 0;
  std::int64_t peak_bytes_per_device = 0;
};

/// A described machine: how fast the links along each axis of a mesh are, and the devices.
///
/// A collective over one axis of n devices takes n-1 steps as in a ring (an all-reduce twice as
/// many): `steps * latency + bytes received / bandwidth`. Over several axes it goes axis by axis,
/// the slowest link with the least data: an all-gather begins there, a reduce-scatter ends there. A
/// permute takes its bytes over the slowest link that it uses, and the latency of each axis.
struct Network {
  /// Between neighbours along an axis; what one device can receive in each second.
  struct Link {
    double bytes_per_second = 100e9;
    double latency_seconds = 1e-6;
    friend bool operator==(const Link&, const Link&) = default;
  };
  /// By the names of the mesh's axes.
  std::map<std::string, Link> axes{};
  /// Of axes that aren't named above.
  Link other{};
  /// Of one device.
  double flops_per_second = 100e12;
  double memory_bytes_per_second = 1e12;

  /// From text, items between commas or on lines of their own, `#` begins a remark:
  /// `data=50GB/s:1us, model=300GB/s:500ns, *=100GB/s:2us, flops=200T, memory=1.5TB/s`. `*` is
  /// `other`; what isn't given keeps its default. ValueError with the item.
  static Network parse(const std::string& text, Location location = Location::current());
  const Link& link(const std::string& axis) const;
  /// As parse reads it.
  std::string to_string() const;
  friend bool operator==(const Network&, const Network&) = default;
};

/// One collective instruction of a device's program.
struct CollectiveCost {
  std::string kind;         ///< "all-gather", ...
  std::string instruction;  ///< its name in the program
  std::string location;     ///< "file:line" of the operation that needs it
  /// The axes along which it goes, and how many devices of each take part; empty if its groups
  /// aren't those of axes.
  std::vector<std::pair<std::string, std::int64_t>> axes;
  std::int64_t group_size = 1;
  double bytes = 0;    ///< received by one device, each time
  double times = 1;    ///< how often it runs; of loops of unknown length once a loop
  double seconds = 0;  ///< each time
};

/// Of one execution on one device.
struct CostAnalysis {
  double flops = 0, bytes_received = 0;
  /// Elements of exp, log, tanh, sqrt and the like; `flops` counts each as one.
  double transcendentals = 0;
  /// Read and written in the device's memory. Elementwise operations are part of what uses them.
  double bytes_accessed = 0;

  struct Kind {
    std::int64_t count = 0;  ///< instructions
    double bytes = 0, seconds = 0;
    friend bool operator==(const Kind&, const Kind&) = default;
  };
  /// By kind of collective, loops counted as often as they run.
  std::map<std::string, Kind> kinds;
  /// The dearest first.
  std::vector<CollectiveCost> collectives;

  /// On the machine that was described, each operation at the pace of arithmetic or of memory,
  /// whichever takes longer.
  double compute_seconds = 0;
  double collective_seconds = 0;
  /// Of the step as it is scheduled: operations one after the other in the program's order, each
  /// collective beside them from where it stands until its first use, one collective at a time.
  /// Between the larger of the two sums above and both together.
  double overlapped_seconds = 0;
  /// Nothing overlapped: a rough upper bound of the step's time.
  double step_seconds() const { return compute_seconds + collective_seconds; }
  /// A table of the `most` dearest collectives, and the sums.
  std::string to_text(std::size_t most = 20) const;
};

}  // namespace tessera
