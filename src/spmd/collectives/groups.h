// SPDX-License-Identifier: Apache-2.0
// Which devices take part together, compared and put together by what they are, not by how they are
// written.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "src/ir/module.h"

namespace tessera::spmd {

using DeviceLists = std::vector<std::vector<std::int64_t>>;

/// Groups along axes of one mesh are told apart by their axes; only others, and those whose lists
/// are asked for, are expanded, each once.
class GroupTable {
 public:
  explicit GroupTable(std::int64_t devices) : devices_(devices) {}

  std::int64_t devices() const { return devices_; }
  const DeviceLists& lists(const ir::DeviceGroups& groups) { return lists(entry(groups)); }
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
  /// (size, stride) of the positions in a group, major to minor, as few as there can be.
  using Digits = std::vector<std::pair<std::int64_t, std::int64_t>>;
  struct Entry {
    ir::DeviceGroups groups;
    DeviceLists lists;  ///< sorted; empty: not asked for yet
    int ordered = 0, unordered = 0;
  };
  Entry& entry(const ir::DeviceGroups& groups);
  const DeviceLists& lists(Entry& e);
  bool along_axes(const ir::DeviceGroups& groups) const;
  void number_by_axes(Entry* e);
  void number_by_lists(Entry* e);
  bool on_one_mesh(const ir::DeviceGroups& a, const ir::DeviceGroups& b) const;
  /// Of the axes of both, on one mesh: lists in the order of their first devices. Nothing if they
  /// share an axis, or lack devices.
  std::optional<DeviceLists> along_both(const ir::DeviceGroups& major,
                                        const ir::DeviceGroups& minor) const;

  std::int64_t devices_;
  std::deque<Entry> known_;
  /// As long as all groups are along axes of one order of the devices.
  std::optional<DeviceIds> order_;
  std::map<Digits, int> ordered_axes_, unordered_axes_;
  /// From then on.
  bool by_lists_ = false;
  std::map<DeviceLists, int> ordered_, unordered_;
};

/// Lists as axes of a mesh, if they are that (text and time then don't grow with the devices).
ir::DeviceGroups as_groups(DeviceLists lists, const MeshRef& mesh, std::int64_t devices);

}  // namespace tessera::spmd
