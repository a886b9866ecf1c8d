// SPDX-License-Identifier: Apache-2.0
// What moving, computing and holding cost on a machine, in seconds: all that compares two ways to
// run a program asks here.
#pragma once

#include <utility>

#include <tessera/network.h>

#include "src/base/key_writer.h"
#include "src/base/small_vector.h"
#include "src/cost/collectives.h"
#include "src/ir/module.h"

namespace tessera::cost {

/// The machine that is assumed where the user describes none. Its ratios are what counts, and were
/// tuned on programs exported from JAX beside XLA's partitioner: bytes received decide, a
/// collective weighs as much as 256 of them, and a flop as 0.003.
Network assumed_network();

/// A network, and prices on it.
class Machine {
 public:
  Machine() : Machine(assumed_network()) {}
  explicit Machine(Network network);

  const Network& network() const { return network_; }
  /// A collective's time depends on its bytes alone, whichever axes it goes along.
  bool is_uniform() const { return uniform_; }

  /// Of the axes of a mesh.
  void extend(Route* route, const LogicalMesh& mesh, int axis) const;
  Route route(const LogicalMesh& mesh, const IndexList& axes) const;

  /// Of one collective; 0 bytes take no time.
  double collective(ir::Opcode kind, double bytes, const Route& route) const {
    if (uniform_) return bytes > 0 ? start_ + bytes * per_byte_ : 0;
    return collective_seconds(kind, bytes, route, network_);
  }
  /// Of permutes that bring these bytes together.
  double permutes(double bytes, int count, const Route& route) const;
  /// Of a collective, whatever it brings.
  double start() const { return start_; }
  /// Of bytes over the fastest link.
  double least_of_bytes(double bytes) const { return bytes * fastest_; }
  /// No collective that brings these bytes takes less.
  double least(double bytes) const { return bytes > 0 ? start_ + bytes * fastest_ : 0; }
  /// Of arithmetic.
  double work(double flops) const { return flops * per_flop_; }
  /// Of bytes that are written to memory, or read, once.
  double pass(double bytes) const { return bytes * per_memory_byte_; }

  friend bool operator==(const Machine& a, const Machine& b) { return a.network_ == b.network_; }

 private:
  Network network_;
  bool uniform_ = false;
  double start_ = 0, per_byte_ = 0, fastest_ = 0, per_flop_ = 0, per_memory_byte_ = 0;
};

/// All that the price of a reshard on the mesh depends on: not that of work.
void add_transfers_to_key(KeyWriter& key, const Machine& machine, const LogicalMesh& mesh);

// What no description of a machine says. With the four ratios of assumed_network these are all the
// numbers that were tuned.

/// What a byte of a reshard's temporary arrays costs, in passes over memory: decides between plans
/// that are alike otherwise.
inline constexpr double kPassesOfPeak = 0.5;
/// In bytes received: a step of a reshard that costs nothing else, so that shorter plans win.
inline constexpr double kBytesOfStep = 1e-3;
/// What a materialised byte costs the solver, in passes over memory, each time an array is made;
/// and how much more, at first, where a solution exceeds its memory.
inline constexpr double kPassesOfHeld = 1, kPassesOfScarce = 20;
/// Memory that a solution may take, in terms of what the propagated program takes.
inline constexpr double kMemoryGrowth = 1.25;
/// Part of the cost that a solution must save.
inline constexpr double kWorthwhile = 0.001;

}  // namespace tessera::cost
