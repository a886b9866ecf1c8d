// SPDX-License-Identifier: Apache-2.0
// Over which axes of a module's mesh its collectives go.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/cost/collectives.h"
#include "src/ir/module.h"

namespace tessera::cost {

/// Axes of a mesh, by name, and how many devices along each take part in one group.
using AxisSpan = std::vector<std::pair<std::string, std::int64_t>>;

/// Where a module's collectives go, in axes of its mesh.
class CollectiveAxes {
 public:
  explicit CollectiveAxes(const ir::Module& module);
  /// Empty if its groups aren't those of axes; an axis counts with the devices of one group along
  /// it.
  AxisSpan of(const ir::Instruction& collective) const;
  /// Devices of a group; of a permute those that its axes span.
  std::int64_t group_size(const ir::Instruction& collective, const AxisSpan& axes) const;
  /// Groups that are no product of axes are one ring of all members, over the slowest link.
  Route route(const ir::Instruction& collective, const AxisSpan& axes,
              const Network& network) const;

 private:
  AxisSpan of_pairs(const DevicePairs& list) const;
  template <class Group>
  AxisSpan of_lists(const std::vector<Group>& groups) const;

  struct Axis {
    std::string name;
    std::int64_t size, stride;
  };
  std::vector<Axis> axes_;
  DeviceIds order_;  ///< empty: a device's position is its own number
  std::int64_t devices_, everyone_;
  /// By where the list is, which is kept: looking at all devices is for once.
  mutable std::unordered_map<const void*, std::pair<DevicePairs, AxisSpan>> permutes_;
};

}  // namespace tessera::cost
