// SPDX-License-Identifier: Apache-2.0
// Algebra of replica groups: composition of two groupings, equality, conversion to mesh axes.
#include "src/spmd/collectives/groups.h"

#include <algorithm>
#include <set>

#include "src/base/contains.h"
#include "src/sharding/axes/device_order.h"

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

/// By the device that comes first of all in each.
void sort_by_first(DeviceLists* lists) {
  std::vector<std::pair<std::int64_t, std::size_t>> firsts;
  for (std::size_t g = 0; g < lists->size(); ++g) {
    firsts.emplace_back(*std::min_element((*lists)[g].begin(), (*lists)[g].end()), g);
  }
  std::sort(firsts.begin(), firsts.end());
  DeviceLists out;
  out.reserve(lists->size());
  for (const auto& [first, g] : firsts) out.push_back(std::move((*lists)[g]));
  *lists = std::move(out);
}

DeviceLists sorted_members(DeviceLists lists) {
  for (auto& list : lists) std::sort(list.begin(), list.end());
  std::sort(lists.begin(), lists.end());
  return lists;
}

}  // namespace

bool GroupTable::along_axes(const ir::DeviceGroups& groups) const {
  return groups.symbolic() && groups.mesh->num_devices() == devices_;
}

GroupTable::Entry& GroupTable::entry(const ir::DeviceGroups& groups) {
  for (Entry& e : known_) {
    if (e.groups == groups) return e;
  }
  if (!by_lists_ && along_axes(groups) && (!order_ || *order_ == groups.mesh->device_ids)) {
    order_ = groups.mesh->device_ids;
  } else if (!by_lists_) {
    by_lists_ = true;
    for (Entry& e : known_) number_by_lists(&e);
  }
  Entry& e = known_.emplace_back();
  e.groups = groups;
  if (by_lists_) {
    number_by_lists(&e);
  } else {
    number_by_axes(&e);
  }
  return e;
}

const DeviceLists& GroupTable::lists(Entry& e) {
  if (e.lists.empty()) {
    e.lists = e.groups.expand(devices_);
    std::sort(e.lists.begin(), e.lists.end());
  }
  return e.lists;
}

/// Both numbers count different groups in the order in which they were met. So those that groups
/// have by their axes are those that they would have by their lists.
void GroupTable::number_by_lists(Entry* e) {
  e->ordered = ordered_.emplace(lists(*e), int(ordered_.size())).first->second;
  e->unordered =
      unordered_.emplace(sorted_members(lists(*e)), int(unordered_.size())).first->second;
}

void GroupTable::number_by_axes(Entry* e) {
  const Dims strides = e->groups.mesh->strides();
  std::vector<Digit> digits;
  for (const int a : e->groups.axes) {
    digits.push_back({e->groups.mesh->axes[std::size_t(a)].size, strides[std::size_t(a)]});
  }
  const auto key = [](const std::vector<Digit>& of) {
    Digits out;
    for (const Digit& d : joined_digits(of)) out.emplace_back(d.size, d.stride);
    return out;
  };
  e->ordered = ordered_axes_.emplace(key(digits), int(ordered_axes_.size())).first->second;
  std::erase_if(digits, [](const Digit& d) { return d.size == 1; });
  std::sort(digits.begin(), digits.end(),
            [](const Digit& a, const Digit& b) { return a.stride > b.stride; });
  e->unordered = unordered_axes_.emplace(key(digits), int(unordered_axes_.size())).first->second;
}

bool GroupTable::on_one_mesh(const ir::DeviceGroups& a, const ir::DeviceGroups& b) const {
  return along_axes(a) && along_axes(b) && (a.mesh == b.mesh || *a.mesh == *b.mesh);
}

std::optional<DeviceLists> GroupTable::along_both(const ir::DeviceGroups& major,
                                                  const ir::DeviceGroups& minor) const {
  IndexList axes;
  for (const IndexList* list : {&major.axes, &minor.axes}) {
    for (const int a : *list) {
      if (major.mesh->axes[std::size_t(a)].size == 1) continue;
      if (contains(axes, a)) return std::nullopt;
      axes.push_back(a);
    }
  }
  DeviceLists lists = ir::DeviceGroups::over(major.mesh, std::move(axes)).expand(devices_);
  if (!covers(Places(lists, devices_))) return std::nullopt;
  sort_by_first(&lists);
  return lists;
}

std::optional<ir::DeviceGroups> GroupTable::reached_over(const ir::DeviceGroups& inner,
                                                         const ir::DeviceGroups& outer,
                                                         bool in_order) {
  if (on_one_mesh(inner, outer)) {
    auto lists = along_both(outer, inner);
    if (!lists) return std::nullopt;
    if (!in_order) {
      for (auto& list : *lists) std::sort(list.begin(), list.end());
    }
    return as_groups(std::move(*lists), inner.mesh, devices_);
  }
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
  if (on_one_mesh(inner, outer)) {
    auto lists = along_both(inner, outer);
    if (!lists) return std::nullopt;
    return as_groups(std::move(*lists), inner.mesh, devices_);
  }
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
