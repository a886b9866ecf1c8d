// SPDX-License-Identifier: Apache-2.0
// Algebra of replica groups: composition of two groupings, equality, conversion to mesh axes.
#include "src/spmd/collectives/groups.h"

#include <algorithm>
#include <set>

#include "src/base/contains.h"

namespace tessera::spmd {
namespace {

/// Each device's place: which list, and where in it; -1 for those in none.
struct Places {
  IndexList list, place;

  Places(const DeviceLists& lists, std::int64_t devices)
      : list(std::size_t(devices), -1), place(std::size_t(devices), -1) {
    for (std::size_t g = 0; g < lists.size(); ++g) {
      for (std::size_t k = 0; k < lists[g].size(); ++k) {
        const std::int64_t d = lists[g][k];
        if (d < 0 || d >= devices) continue;
        list[std::size_t(d)] = int(g);
        place[std::size_t(d)] = int(k);
      }
    }
  }
};

/// One list a device; all members of a list must have the same one. In the order of their first
/// members.
std::optional<DeviceLists> agreed(const DeviceLists& of_device) {
  DeviceLists out;
  for (std::size_t d = 0; d < of_device.size(); ++d) {
    const auto& mine = of_device[d];
    if (std::set<std::int64_t>(mine.begin(), mine.end()).size() != mine.size()) return std::nullopt;
    if (!contains(mine, std::int64_t(d))) return std::nullopt;
    const std::int64_t first = *std::min_element(mine.begin(), mine.end());
    if (first == std::int64_t(d)) {
      out.push_back(mine);
    } else if (of_device[std::size_t(first)] != mine) {
      return std::nullopt;
    }
  }
  return out;
}

bool covers(const Places& p) { return !contains(p.list, -1); }

MeshRef mesh_of(const ir::DeviceGroups& a, const ir::DeviceGroups& b) {
  return a.mesh ? a.mesh : b.mesh;
}

}  // namespace

const GroupTable::Entry& GroupTable::entry(const ir::DeviceGroups& groups) {
  for (const auto& [known, e] : known_) {
    if (known == groups) return e;
  }
  DeviceLists lists = groups.expand(devices_);
  std::sort(lists.begin(), lists.end());
  DeviceLists sorted = lists;
  for (auto& list : sorted) std::sort(list.begin(), list.end());
  std::sort(sorted.begin(), sorted.end());
  Entry e;
  const auto it = ordered_.emplace(std::move(lists), int(ordered_.size())).first;
  e.lists = &it->first;
  e.ordered = it->second;
  e.unordered = unordered_.emplace(std::move(sorted), int(unordered_.size())).first->second;
  return known_.emplace_back(groups, e).second;
}

std::optional<ir::DeviceGroups> GroupTable::reached_over(const ir::DeviceGroups& inner,
                                                         const ir::DeviceGroups& outer,
                                                         bool in_order) {
  const DeviceLists &in = lists(inner), &out = lists(outer);
  const Places pi(in, devices_), po(out, devices_);
  if (!covers(pi) || !covers(po)) return std::nullopt;
  DeviceLists all(static_cast<std::size_t>(devices_));
  for (std::size_t d = 0; d < all.size(); ++d) {
    for (const std::int64_t m : out[std::size_t(po.list[d])]) {
      const auto& group = in[std::size_t(pi.list[std::size_t(m)])];
      all[d].insert(all[d].end(), group.begin(), group.end());
    }
    if (!in_order) std::sort(all[d].begin(), all[d].end());
  }
  auto joined = agreed(all);
  if (!joined) return std::nullopt;
  return as_groups(std::move(*joined), mesh_of(inner, outer), devices_);
}

std::optional<ir::DeviceGroups> GroupTable::scattered_over(const ir::DeviceGroups& inner,
                                                           const ir::DeviceGroups& outer) {
  const DeviceLists &in = lists(inner), &out = lists(outer);
  const Places pi(in, devices_), po(out, devices_);
  if (!covers(pi) || !covers(po)) return std::nullopt;
  DeviceLists all(static_cast<std::size_t>(devices_));
  for (std::size_t d = 0; d < all.size(); ++d) {
    const auto& mine = out[std::size_t(po.list[d])];
    const std::size_t minor = mine.size(), major = in[std::size_t(pi.list[d])].size();
    all[d].assign(minor * major, -1);
    for (const std::int64_t m : mine) {
      // The part of the inner scatter that meets there must be the same.
      if (pi.place[std::size_t(m)] != pi.place[d]) return std::nullopt;
      for (const std::int64_t q : in[std::size_t(pi.list[std::size_t(m)])]) {
        const std::size_t at =
            std::size_t(pi.place[std::size_t(q)]) * minor + std::size_t(po.place[std::size_t(q)]);
        if (at >= all[d].size() || all[d][at] >= 0) return std::nullopt;
        all[d][at] = q;
      }
    }
  }
  auto joined = agreed(all);
  if (!joined) return std::nullopt;
  return as_groups(std::move(*joined), mesh_of(inner, outer), devices_);
}

ir::DeviceGroups as_groups(DeviceLists lists, const MeshRef& mesh, std::int64_t devices) {
  ir::DeviceGroups plain;
  plain.lists = std::move(lists);
  if (!mesh || mesh->num_devices() != devices || plain.lists.empty()) return plain;
  const auto& first = plain.lists.front();
  // An axis varies first at the member whose number is the product of the axes minor to it.
  std::vector<std::pair<std::size_t, int>> axes;
  for (int a = 0; a < int(mesh->axes.size()); ++a) {
    const std::int64_t at = mesh->coordinate(first[0], a);
    for (std::size_t k = 1; k < first.size(); ++k) {
      if (mesh->coordinate(first[k], a) == at) continue;
      axes.emplace_back(k, a);
      break;
    }
  }
  std::sort(axes.rbegin(), axes.rend());
  IndexList chosen;
  for (const auto& a : axes) chosen.push_back(a.second);
  const ir::DeviceGroups symbolic = ir::DeviceGroups::over(mesh, chosen);
  DeviceLists is = symbolic.expand(devices), sorted = plain.lists;
  std::sort(is.begin(), is.end());
  std::sort(sorted.begin(), sorted.end());
  return is == sorted ? symbolic : plain;
}

}  // namespace tessera::spmd
