// SPDX-License-Identifier: Apache-2.0
#include "src/frontend/shardings.h"

#include <optional>

#include "src/sharding/tiling.h"

namespace tessera::frontend {

MeshRef logical_mesh_of(const Mesh& mesh) { return make_logical_mesh(mesh.shape()); }

TensorSharding to_tensor_sharding(const Sharding& sharding, std::int64_t rank) {
  if (NamedSharding::is(sharding)) {
    const NamedSharding named(sharding);
    MeshRef mesh = logical_mesh_of(named.mesh());
    TensorSharding out = TensorSharding::replicated_on(mesh, rank);
    const auto& entries = named.spec().entries();
    for (std::size_t d = 0; d < entries.size() && d < out.dims.size(); ++d) {
      out.dims[d].open = entries[d].is_unconstrained();
      for (const std::string& axis : entries[d].axes()) {
        out.dims[d].axes.push_back(mesh->find(axis));
      }
    }
    for (const std::string& axis : named.spec().unreduced()) {
      out.unreduced.push_back(mesh->find(axis));
    }
    return out;
  }
  const std::int64_t n = sharding.num_devices();
  if (n == 1) return TensorSharding::replicated_on(nullptr, rank);
  const std::vector<Tiling> tilings = parse_tilings(sharding.to_hlo_text(rank));
  const std::vector<std::int64_t> ranks{rank};
  TensorSharding out = from_tilings(tilings, ranks, n)[0];
  if (out.kind == TensorSharding::Kind::axes && out.dims.empty() && rank > 0) {
    out.dims.resize(std::size_t(rank));
  }
  return out;
}

Sharding replicated_sharding(const std::vector<Device>& devices, const Mesh& mesh) {
  if (!mesh.empty()) return NamedSharding(mesh, PartitionSpec());
  if (devices.size() == 1) return SingleDeviceSharding(devices[0]);
  return GSPMDSharding::get_replicated(devices);
}

namespace {

/// The names of a dim's axes, sub-axes joined; empty if some axis is used in part only.
std::optional<std::vector<std::string>> whole_axes(const TensorSharding& s,
                                                   const std::vector<int>& axes) {
  std::vector<std::string> names;
  std::int64_t covered = 1;
  for (int index : axes) {
    const MeshAxis& axis = s.mesh->axes[std::size_t(index)];
    if (axis.size == 1 && axis.full != 1) continue;
    if (covered == 1) {
      if (axis.pre != 1) return std::nullopt;
      names.push_back(axis.name);
      covered = axis.size;
    } else {
      if (names.back() != axis.name || axis.pre != covered) return std::nullopt;
      covered *= axis.size;
    }
    if (covered == axis.full) covered = 1;
  }
  if (covered != 1) return std::nullopt;
  return names;
}

}  // namespace

Sharding from_tensor_sharding(const TensorSharding& s, const std::vector<Device>& devices,
                              const Mesh& mesh) {
  if (s.kind == TensorSharding::Kind::maximal) {
    return SingleDeviceSharding(devices[std::size_t(s.device)]);
  }
  if (!s.mesh || s.is_replicated()) return replicated_sharding(devices, mesh);
  if (!mesh.empty() && same_mesh(s.mesh, logical_mesh_of(mesh))) {
    std::vector<SpecEntry> entries;
    bool expressible = true;
    for (const DimSharding& dim : s.dims) {
      auto names = whole_axes(s, dim.axes);
      expressible = expressible && names.has_value();
      if (!names) break;
      entries.push_back(names->empty()       ? SpecEntry()
                        : names->size() == 1 ? SpecEntry(names->front())
                                             : SpecEntry(*names));
    }
    if (expressible) {
      while (!entries.empty() && entries.back().is_none()) entries.pop_back();
      return NamedSharding(mesh, PartitionSpec::from_entries(std::move(entries)));
    }
  }
  return GSPMDSharding(devices, to_tiling(s).to_string());
}

}  // namespace tessera::frontend
