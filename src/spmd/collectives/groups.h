// SPDX-License-Identifier: Apache-2.0
// Which devices take part together, compared and put together by what they are, not by how they are
// written.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "src/ir/module.h"

namespace tessera::spmd {

using DeviceLists = std::vector<std::vector<std::int64_t>>;

/// Expands each groups once.
class GroupTable {
 public:
  explicit GroupTable(std::int64_t devices) : devices_(devices) {}

  std::int64_t devices() const { return devices_; }
  const DeviceLists& lists(const ir::DeviceGroups& groups) { return *entry(groups).lists; }
  /// Equal numbers: the same devices are together; `ordered`: and in the same order.
  int id(const ir::DeviceGroups& groups, bool ordered) {
    const Entry& e = entry(groups);
    return ordered ? e.ordered : e.unordered;
  }
  /// The groups of one collective for one over `inner` and then one over `outer`: all that a device
  /// hears from by way of both. Nothing if that isn't one. `in_order`: of a gather along one dim.
  std::optional<ir::DeviceGroups> reached_over(const ir::DeviceGroups& inner,
                                               const ir::DeviceGroups& outer, bool in_order);
  /// Of one reduce-scatter for one over `inner` and then one over `outer` along the same dim.
  std::optional<ir::DeviceGroups> scattered_over(const ir::DeviceGroups& inner,
                                                 const ir::DeviceGroups& outer);

 private:
  struct Entry {
    const DeviceLists* lists = nullptr;
    int ordered = 0, unordered = 0;
  };
  const Entry& entry(const ir::DeviceGroups& groups);

  std::int64_t devices_;
  std::vector<std::pair<ir::DeviceGroups, Entry>> known_;
  std::map<DeviceLists, int> ordered_, unordered_;
};

/// Lists as axes of a mesh, if they are that (text and time then don't grow with the devices).
ir::DeviceGroups as_groups(DeviceLists lists, const MeshRef& mesh, std::int64_t devices);

}  // namespace tessera::spmd
