// SPDX-License-Identifier: Apache-2.0
// Which mesh axes a collective spans.
#include "src/cost/collective_axes.h"

#include <algorithm>
#include <array>

namespace tessera::cost {

CollectiveAxes::CollectiveAxes(const ir::Module& module)
    : devices_(module.num_partitions),
      everyone_(std::max<std::int64_t>(1, module.num_partitions * module.replica_count)) {
  if (!module.mesh || module.mesh->num_devices() != devices_) return;
  const LogicalMesh& mesh = *module.mesh;
  const Dims strides = mesh.strides();
  for (std::size_t i = 0; i < mesh.axes.size(); ++i) {
    const MeshAxis& a = mesh.axes[i];
    // Pieces of one axis stand together.
    if (!axes_.empty() && axes_.back().name == a.name) {
      axes_.back().size *= a.size;
      axes_.back().stride = strides[i];
    } else {
      axes_.push_back({a.name, a.size, strides[i]});
    }
  }
  order_ = mesh.device_ids;
}

AxisSpan CollectiveAxes::of(const ir::Instruction& collective) const {
  if (const auto* permute = collective.attrs.get_if<ir::PermuteAttrs>()) {
    return of_pairs(permute->source_target_pairs);
  }
  const auto* attrs = collective.attrs.get_if<ir::CollectiveAttrs>();
  if (attrs == nullptr) return {};
  const ir::DeviceGroups& groups = attrs->groups;
  if (!groups.symbolic()) {
    if (!groups.lists.empty()) return of_lists(groups.lists);
    AxisSpan all;
    for (const Axis& a : axes_) {
      if (a.size > 1) all.emplace_back(a.name, a.size);
    }
    return all;
  }
  AxisSpan out;
  for (const int index : groups.axes) {
    const MeshAxis& axis = groups.mesh->axes[std::size_t(index)];
    if (axis.size == 1) continue;
    const auto same = [&](const auto& entry) { return entry.first == axis.name; };
    const auto it = std::find_if(out.begin(), out.end(), same);
    if (it == out.end()) {
      out.emplace_back(axis.name, axis.size);
    } else {
      it->second *= axis.size;
    }
  }
  return out;
}

AxisSpan CollectiveAxes::of_pairs(const DevicePairs& list) const {
  const auto [it, fresh] = permutes_.try_emplace(list.place());
  if (fresh) {
    std::vector<std::array<std::int64_t, 2>> pairs;
    for (const auto& [source, target] : list) {
      if (source != target) pairs.push_back({source, target});
    }
    it->second = {list, of_lists(pairs)};
  }
  return it->second.second;
}

template <class Group>
AxisSpan CollectiveAxes::of_lists(const std::vector<Group>& groups) const {
  AxisSpan out;
  for (const Axis& axis : axes_) {
    std::int64_t most = 1;
    // By coordinate: the group, from 1, that met it last.
    std::vector<std::size_t> met(std::size_t(axis.size), 0);
    for (std::size_t g = 0; g < groups.size() && most < axis.size; ++g) {
      std::int64_t different = 0;
      for (const std::int64_t device : groups[g]) {
        if (device < 0 || device >= devices_) continue;
        const std::int64_t p = order_.empty() ? device : order_.position_of(device);
        if (p < 0) continue;
        std::size_t& last = met[std::size_t(p / axis.stride % axis.size)];
        different += last != g + 1;
        last = g + 1;
      }
      most = std::max(most, different);
    }
    if (most > 1) out.emplace_back(axis.name, most);
  }
  return out;
}

std::int64_t CollectiveAxes::group_size(const ir::Instruction& collective,
                                        const AxisSpan& axes) const {
  if (const auto* attrs = collective.attrs.get_if<ir::CollectiveAttrs>()) {
    return attrs->groups.group_size(everyone_);
  }
  std::int64_t n = 1;
  for (const auto& [name, size] : axes) n *= size;
  return n;
}

Route CollectiveAxes::route(const ir::Instruction& collective, const AxisSpan& axes,
                            const Network& network) const {
  Route route;
  int number = 0;
  for (const auto& [name, size] : axes) route.add(network.link(name), double(size), number++);
  const auto members = double(group_size(collective, axes));
  if (route.devices() == members) return route;
  Network::Link slowest = axes.empty() ? network.other : network.link(axes[0].first);
  for (const auto& [name, size] : axes) {
    const Network::Link& link = network.link(name);
    slowest.bytes_per_second = std::min(slowest.bytes_per_second, link.bytes_per_second);
    slowest.latency_seconds = std::max(slowest.latency_seconds, link.latency_seconds);
  }
  Route ring;
  ring.add(slowest, members, 0);
  return ring;
}

}  // namespace tessera::cost
