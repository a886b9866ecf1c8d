// SPDX-License-Identifier: Apache-2.0
// The time of collectives on a described network.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <tessera/cost_analysis.h>

#include "src/ir/module.h"

namespace tessera::compiler {

/// Axes of a mesh, by name, and how many devices along each take part in one group.
using AxisSpan = std::vector<std::pair<std::string, std::int64_t>>;

/// Where a module's collectives go, in axes of its mesh.
class CollectiveAxes {
 public:
  explicit CollectiveAxes(const ir::Module& module);
  /// Empty if its groups aren't those of axes; an axis counts with the devices of one group along
  /// it.
  AxisSpan of(const ir::Instruction& collective) const;

 private:
  AxisSpan of_lists(const std::vector<std::vector<std::int64_t>>& groups) const;

  struct Axis {
    std::string name;
    std::int64_t size, stride;
  };
  std::vector<Axis> axes_;
  std::vector<std::int64_t> position_;  ///< of each device; empty: its own number
  std::int64_t devices_;
};

/// Of one run, as Network says it. `kind`: "all-gather", ...; `bytes`: received by one device.
double collective_seconds(const std::string& kind, double bytes, std::int64_t group_size,
                          const AxisSpan& axes, const Network& network);

}  // namespace tessera::compiler
