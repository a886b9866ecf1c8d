// SPDX-License-Identifier: Apache-2.0
// Descriptions of machines: links between devices, arithmetic and memory.
#pragma once

#include <map>
#include <string>

#include <tessera/error.h>

namespace tessera {

/// A description of a machine: the links along each axis of a mesh, and the devices.
///
/// A collective over one axis of n devices takes n - 1 steps, as in a ring (an all-reduce twice as
/// many): `start + steps * latency + bytes received / bandwidth`. Over several axes it goes axis by
/// axis, with the least data over the slowest link: an all-gather begins there, a reduce-scatter
/// ends there; an all-to-all goes from each device to each other instead, if that is faster. A
/// permute sends its bytes over the slowest link that it uses and pays the latency of each axis.
/// @code
/// Network pod = Network::parse("data=50GB/s:2us, model=300GB/s:1us, flops=200T, memory=2TB/s");
/// CostAnalysis cost = jit(f).lower(x, w).compile().cost_analysis(pod);
/// @endcode
struct Network {
  /// The link between neighbours along an axis.
  struct Link {
    double bytes_per_second = 100e9;  ///< what one device can receive in a second
    double latency_seconds = 1e-6;    ///< additional time of each step
    friend bool operator==(const Link&, const Link&) = default;
  };
  /// Links by the names of the mesh's axes.
  std::map<std::string, Link> axes{};
  /// Link of all other axes.
  Link other{};
  /// Time to start a collective, in addition, whatever it moves.
  double start_seconds = 0;
  /// Floating-point operations of one device in a second.
  double flops_per_second = 100e12;
  /// Memory bandwidth of one device.
  double memory_bytes_per_second = 1e12;

  /// Parses a description: items separated by commas or newlines, with `#` before comments, as in
  /// `data=50GB/s:1us, model=300GB/s:500ns, *=100GB/s:2us, start=5us, flops=200T, memory=1.5TB/s`.
  /// An axis has a bandwidth and, after a colon, a latency; `*` is `other`. What isn't listed keeps
  /// its default.
  /// @throws ValueError, with the item, if one can't be parsed or is given twice.
  static Network parse(const std::string& text, Location location = Location::current());
  /// Returns the link of an axis, or `other`.
  const Link& link(const std::string& axis) const;
  /// Returns the description in the form that `parse` reads.
  std::string to_string() const;
  friend bool operator==(const Network&, const Network&) = default;
};

}  // namespace tessera
