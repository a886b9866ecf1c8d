// SPDX-License-Identifier: Apache-2.0
// Converts between public shardings (mesh and spec) and TensorSharding on a logical mesh.
#include "src/sharding/api/lowering.h"

#include <algorithm>
#include <map>

#include "src/base/check.h"
#include "src/sharding/api/named_sharding.h"

namespace tessera {
namespace {

std::map<Device, std::int64_t> numbers_of(std::span<const Device> devices) {
  std::map<Device, std::int64_t> out;
  for (std::size_t i = 0; i < devices.size(); ++i) out.emplace(devices[i], std::int64_t(i));
  return out;
}

/// The index of each device in the assignment. Empty if the device sets differ.
std::optional<std::vector<std::int64_t>> logical_ids(const std::vector<Device>& devices,
                                                     std::span<const Device> assignment) {
  if (devices.size() != assignment.size()) return std::nullopt;
  const auto number = numbers_of(assignment);
  std::vector<std::int64_t> out;
  out.reserve(devices.size());
  for (const Device& d : devices) {
    const auto it = number.find(d);
    if (it == number.end()) return std::nullopt;
    out.push_back(it->second);
  }
  return out;
}

/// The tiling with device i replaced by ids[i].
Tiling renamed(const Tiling& t, const std::vector<std::int64_t>& ids) {
  Tiling out = t;
  if (t.kind == Tiling::Kind::maximal) out.device = ids[std::size_t(t.device)];
  if (t.kind != Tiling::Kind::tiled) return out;
  out.devices = t.device_list();
  for (std::int64_t& d : out.devices) d = ids[std::size_t(d)];
  out.reshape.clear();
  out.perm.clear();
  return out.canonical();
}

[[noreturn]] void other_devices(const std::string& what, std::span<const Device> assignment) {
  std::string list;
  for (std::size_t i = 0; i < assignment.size() && i < 16; ++i) {
    list += (i ? ", " : "") + assignment[i].to_string();
  }
  if (assignment.size() > 16) list += ", ...";
  throw ShardingError(what + " is not over the devices of the program, which are " + list);
}

}  // namespace

MeshRef to_logical_mesh(const Mesh& mesh, std::span<const Device> assignment) {
  std::vector<std::pair<std::string, std::int64_t>> axes = mesh.shape();
  if (assignment.empty()) return make_logical_mesh(std::move(axes));
  const auto& devices = internal::MeshAccess::devices(mesh);
  if (std::equal(devices.begin(), devices.end(), assignment.begin(), assignment.end())) {
    return make_logical_mesh(std::move(axes));
  }
  auto ids = logical_ids(devices, assignment);
  if (!ids) other_devices(mesh.to_string(), assignment);
  return make_logical_mesh(std::move(axes), std::move(*ids));
}

Sharding on_devices(const Sharding& s, std::span<const Device> devices) {
  if (!NamedSharding::is(s) || !s.is_abstract()) return s;
  const NamedSharding named(s);
  TESSERA_CHECK(named.mesh().size() == std::int64_t(devices.size()),
                s.to_string() + " is for a different number of devices");
  if (internal::is_placeholder_device(devices[0])) return s;
  const Mesh mesh =
      internal::MeshAccess::on_devices(named.mesh(), {devices.begin(), devices.end()});
  return NamedSharding(mesh, named.spec(), s.memory_kind(), Location{});
}

TensorSharding spec_to_axes(const PartitionSpec& spec, const MeshRef& mesh, std::int64_t ndim) {
  TESSERA_CHECK(std::int64_t(spec.size()) <= ndim, spec.to_string() + " is too long");
  TensorSharding out = TensorSharding::replicated_on(mesh, ndim);
  auto append = [&](const std::string& name, IndexList* axes) {
    bool found = false;
    for (std::size_t k = 0; k < mesh->axes.size(); ++k) {
      if (mesh->axes[k].name != name) continue;
      axes->push_back(int(k));
      found = true;
    }
    TESSERA_CHECK(found, "axis '" + name + "' is not in the mesh");
  };
  for (std::size_t i = 0; i < spec.size(); ++i) {
    out.dims[i].open = spec[i].is_unconstrained();
    for (const std::string& a : spec[i].axes()) append(a, &out.dims[i].axes);
  }
  for (const std::string& a : spec.unreduced()) append(a, &out.unreduced);
  std::sort(out.unreduced.begin(), out.unreduced.end());
  if (const auto kind = spec.unreduced_kind()) out.reduction = reduction_of(*kind);
  return out;
}

Reduction reduction_of(UnreducedKind kind) {
  switch (kind) {
    case UnreducedKind::max:
      return Reduction::max;
    case UnreducedKind::min:
      return Reduction::min;
    case UnreducedKind::sum:
      break;
  }
  return Reduction::sum;
}

std::optional<UnreducedKind> unreduced_kind_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return UnreducedKind::sum;
    case Reduction::max:
      return UnreducedKind::max;
    case Reduction::min:
      return UnreducedKind::min;
    case Reduction::other:
      break;
  }
  return std::nullopt;
}

TensorSharding to_tensor_sharding(const Sharding& s, std::int64_t ndim,
                                  std::span<const Device> assignment) {
  // Throws if the rank doesn't fit.
  const Tiling tiling = s.impl().tiling(ndim, {});
  if (NamedSharding::is(s)) {
    const NamedSharding named(s);
    return spec_to_axes(named.spec(), to_logical_mesh(named.mesh(), assignment), ndim);
  }
  const std::vector<Device>& devices = s.impl().devices();
  Tiling t = tiling;
  std::int64_t n = std::int64_t(devices.size());
  if (!assignment.empty() &&
      !std::equal(devices.begin(), devices.end(), assignment.begin(), assignment.end())) {
    const auto ids = logical_ids(devices, assignment);
    if (!ids) other_devices(s.to_string(), assignment);
    t = renamed(tiling, *ids);
  }
  const std::int64_t ranks[] = {ndim};
  return from_tilings(std::span(&t, 1), ranks, n)[0];
}

std::optional<PartitionSpec> to_partition_spec(const TensorSharding& s) {
  if (s.kind != TensorSharding::Kind::axes || !s.manual.empty()) return std::nullopt;
  bool whole = true;
  // Adjacent pieces that make up an axis are that axis.
  auto names = [&](const IndexList& axes) {
    std::vector<std::string> out;
    std::int64_t filled = 0;
    for (int i : axes) {
      const MeshAxis& a = s.mesh->axes[std::size_t(i)];
      if (a.pre == 1) {
        whole = whole && filled == 0;
        out.push_back(a.name);
        filled = a.size;
      } else {
        whole = whole && filled == a.pre && out.back() == a.name;
        filled *= a.size;
      }
      if (filled == a.full) filled = 0;
    }
    whole = whole && filled == 0;
    return out;
  };
  std::vector<SpecEntry> entries;
  for (const DimSharding& d : s.dims) {
    entries.push_back(SpecEntry(names(d.axes)));
    if (!whole) return std::nullopt;
  }
  while (!entries.empty() && entries.back().is_none()) entries.pop_back();
  IndexList unreduced = s.unreduced;
  std::sort(unreduced.begin(), unreduced.end());
  const std::vector<std::string> parts = names(unreduced);
  if (!whole) return std::nullopt;
  const PartitionSpec spec = PartitionSpec::from_entries(std::move(entries));
  if (parts.empty()) return spec;
  const auto kind = unreduced_kind_of(s.reduction);
  if (!kind) return std::nullopt;
  return spec.with_unreduced(parts, *kind, Location{});
}

namespace {

/// The same with parts that are joined so; a tiling, of which the sharding was read, is of sums.
NamedSharding joined_by(const NamedSharding& s, UnreducedKind kind) {
  const PartitionSpec& spec = s.spec();
  if (spec.unreduced().empty()) return s;
  return NamedSharding(s.mesh(), spec.with_unreduced(spec.unreduced(), kind, Location{}),
                       s.memory_kind(), Location{});
}

}  // namespace

Sharding to_public_sharding(const TensorSharding& s, const Mesh& mesh,
                            std::span<const Device> assignment) {
  if (s.mesh && !mesh.empty() && same_mesh(s.mesh, to_logical_mesh(mesh, assignment))) {
    // By name first: a tiling doesn't show axes of size 1.
    if (auto spec = to_partition_spec(s)) return NamedSharding(mesh, *spec, Location{});
  }
  const GSPMDSharding plain({assignment.begin(), assignment.end()}, to_tiling(s).to_string());
  const auto kind = unreduced_kind_of(s.reduction);
  const bool is_sum = s.unreduced.empty() || s.reduction == Reduction::sum;
  if (is_sum || kind) {
    if (auto named = to_named_sharding(plain, mesh, s.rank())) {
      return is_sum ? *named : joined_by(*named, *kind);
    }
  }
  if (is_sum) return plain;
  throw NotImplementedError("the sharding " + s.to_spec_string() +
                            " has no form for the user: no spec over " + mesh.to_string() +
                            " is of its axes, and shardings by tiles are of sums only");
}

std::optional<NamedSharding> to_named_sharding(const Sharding& s, const Mesh& mesh,
                                               std::int64_t ndim) {
  if (mesh.empty()) return std::nullopt;
  const auto ids = logical_ids(s.impl().devices(), internal::MeshAccess::devices(mesh));
  if (!ids) return std::nullopt;
  const Tiling t = renamed(s.impl().tiling(ndim, {}), *ids);
  if (t.kind != Tiling::Kind::replicated && t.kind != Tiling::Kind::tiled &&
      t.kind != Tiling::Kind::unreduced) {
    return std::nullopt;
  }
  const MeshRef logical = to_logical_mesh(mesh);
  const std::int64_t ranks[] = {ndim};
  const TensorSharding axes = from_tilings(std::span(&t, 1), ranks, mesh.size(), logical)[0];
  if (axes.mesh && !same_mesh(axes.mesh, logical)) return std::nullopt;
  const auto spec = to_partition_spec(axes);
  if (!spec) return std::nullopt;
  const NamedSharding out(mesh, *spec, s.memory_kind(), Location{});
  if (!NamedSharding::is(s)) return out;
  return joined_by(out, NamedSharding(s).spec().unreduced_kind().value_or(UnreducedKind::sum));
}

}  // namespace tessera
