// SPDX-License-Identifier: Apache-2.0
// Which mesh axes a collective spans, and its time as ring stages, axis by axis, on a Network.
#include "src/compiler/collective_time.h"

#include <algorithm>
#include <set>

namespace tessera::compiler {

CollectiveAxes::CollectiveAxes(const ir::Module& module) : devices_(module.num_partitions) {
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
  if (mesh.device_ids.empty()) return;
  position_.resize(std::size_t(devices_));
  for (std::size_t p = 0; p < mesh.device_ids.size(); ++p) {
    position_[std::size_t(mesh.device_ids[p])] = std::int64_t(p);
  }
}

AxisSpan CollectiveAxes::of(const ir::Instruction& collective) const {
  if (const auto* permute = collective.attrs.get_if<ir::PermuteAttrs>()) {
    std::vector<std::vector<std::int64_t>> pairs;
    for (const auto& [source, target] : permute->source_target_pairs) {
      if (source != target) pairs.push_back({source, target});
    }
    return of_lists(pairs);
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

AxisSpan CollectiveAxes::of_lists(const std::vector<std::vector<std::int64_t>>& groups) const {
  AxisSpan out;
  for (const Axis& axis : axes_) {
    std::int64_t most = 1;
    for (const auto& group : groups) {
      std::set<std::int64_t> met;
      for (const std::int64_t device : group) {
        if (device < 0 || device >= devices_) continue;
        const std::int64_t p = position_.empty() ? device : position_[std::size_t(device)];
        met.insert(p / axis.stride % axis.size);
      }
      most = std::max(most, std::int64_t(met.size()));
      if (most == axis.size) break;
    }
    if (most > 1) out.emplace_back(axis.name, most);
  }
  return out;
}

double collective_seconds(const std::string& kind, double bytes, std::int64_t group_size,
                          const AxisSpan& axes, const Network& network) {
  if (bytes <= 0) return 0;
  struct Stage {
    Network::Link link;
    double devices;
  };
  std::vector<Stage> stages;
  double product = 1;
  for (const auto& [name, size] : axes) {
    stages.push_back({network.link(name), double(size)});
    product *= double(size);
  }
  if (kind == "collective-permute" || kind == "recv") {
    double slowest = network.other.bytes_per_second, latency = 0;
    if (!stages.empty()) slowest = stages[0].link.bytes_per_second;
    for (const Stage& s : stages) {
      slowest = std::min(slowest, s.link.bytes_per_second);
      latency += s.link.latency_seconds;
    }
    if (stages.empty()) latency = network.other.latency_seconds;
    return latency + bytes / slowest;
  }
  // Groups that are no product of axes: one ring of all members.
  if (stages.empty() || product != double(group_size)) {
    Network::Link link = stages.empty() ? network.other : stages[0].link;
    for (const Stage& s : stages) {
      link.bytes_per_second = std::min(link.bytes_per_second, s.link.bytes_per_second);
      link.latency_seconds = std::max(link.latency_seconds, s.link.latency_seconds);
    }
    stages = {{link, double(group_size)}};
  }
  std::stable_sort(stages.begin(), stages.end(), [](const Stage& a, const Stage& b) {
    return a.link.bytes_per_second < b.link.bytes_per_second;
  });
  const double n = double(group_size);
  const double rounds = kind == "all-reduce" ? 2 : 1;
  double seconds = 0, held = 1;
  for (const Stage& s : stages) {
    // Parts of 1/(n-1) of the bytes come from each other device; a stage brings as many as the
    // stages before it have put together, from each device along its axis.
    double part = bytes / std::max(1.0, n - 1) * held * (s.devices - 1);
    if (kind == "all-to-all") part = bytes * n / std::max(1.0, n - 1) * (s.devices - 1) / s.devices;
    held *= s.devices;
    seconds += rounds * (s.devices - 1) * s.link.latency_seconds + part / s.link.bytes_per_second;
  }
  return seconds;
}

}  // namespace tessera::compiler
