// SPDX-License-Identifier: Apache-2.0
// What collectives bring to a device, and how long that takes on the links they go over.
#pragma once

#include <cstdint>
#include <string>

#include <tessera/network.h>

#include "src/base/small_vector.h"
#include "src/ir/module.h"

namespace tessera::cost {

/// What one of the `n` devices of a group receives, given the bytes b of its result: all-gather and
/// all-to-all b(n-1)/n, all-reduce 2b(n-1)/n, reduce-scatter b(n-1), all others b.
inline double received_bytes(ir::Opcode collective, double result_bytes, double n) {
  switch (collective) {
    case ir::Opcode::all_gather:
    case ir::Opcode::all_gather_start:
    case ir::Opcode::all_to_all:
      return result_bytes * (n - 1) / n;
    case ir::Opcode::all_reduce:
    case ir::Opcode::all_reduce_start:
      return 2 * result_bytes * (n - 1) / n;
    case ir::Opcode::reduce_scatter:
      return result_bytes * (n - 1);
    default:
      return result_bytes;
  }
}
/// Of one run of a collective or its start; of a permute 0 if no shard moves; of recv what comes.
/// 0 for any other instruction. `devices`: of the whole program.
double received_bytes(const ir::Instruction& instruction, std::int64_t devices);

/// What received_bytes is of: collectives and their starts, and recv; not what ends one.
bool communicates(const ir::Instruction& instruction);
/// "all-gather", of a start too.
std::string kind_of_collective(const ir::Instruction& collective);

/// The axes that the groups of a collective go along.
class Route {
 public:
  struct Stage {
    Network::Link link{};
    double devices = 1;  ///< of a group, along the axis
    int axis = -1;
  };

  /// Pieces of one axis that come one after the other are one stage.
  void add(const Network::Link& link, double devices, int axis) {
    if (devices <= 1) return;
    devices_ *= devices;
    if (!stages_.empty() && stages_.back().axis == axis) {
      stages_.back().devices *= devices;
    } else {
      stages_.push_back({link, devices, axis});
    }
  }
  void add(const Route& other) {
    for (const Stage& s : other.stages_) add(s.link, s.devices, s.axis);
  }
  const SmallVector<Stage, 4>& stages() const { return stages_; }
  /// Of a group.
  double devices() const { return devices_; }

 private:
  SmallVector<Stage, 4> stages_;
  double devices_ = 1;
};

/// Of one run of a collective that brings a device these bytes; none take no time. How it goes is
/// told where Network is declared.
double collective_seconds(ir::Opcode kind, double bytes, const Route& route,
                          const Network& network);

}  // namespace tessera::cost
