// SPDX-License-Identifier: Apache-2.0
// Arrays made of what this process has of them: pieces per device, or its part of the data.
#include <algorithm>
#include <map>
#include <set>

#include <tessera/placement.h>
#include <tessera/processes.h>
#include <tessera/sharding/parsed_spec.h>

#include "src/base/at_location.h"
#include "src/base/box.h"
#include "src/base/processes/processes.h"
#include "src/compiler/engine.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/run/execute.h"
#include "src/frontend/run/sharding_prefix.h"
#include "src/frontend/run/shardings.h"
#include "src/frontend/trace/trace.h"
#include "src/sharding/api/shard_layout.h"
#include "src/sharding/api/sharding_impl.h"

namespace tessera {

using internal::ArrayImpl;
using internal::impl_of;

namespace {

/// Of one dim, which parts each process's devices hold.
struct DimSlices {
  std::map<std::int64_t, std::set<std::int64_t>> of_process;

  /// Whether the processes hold equally much, and the same or nothing in common.
  bool uniform() const {
    const auto& first = of_process.begin()->second;
    std::set<std::int64_t> seen;
    std::set<std::set<std::int64_t>> distinct;
    for (const auto& [process, parts] : of_process) {
      if (parts.size() != first.size()) return false;
      if (!distinct.insert(parts).second) continue;
      for (const std::int64_t p : parts) {
        if (!seen.insert(p).second) return false;
      }
    }
    return true;
  }
  std::set<std::set<std::int64_t>> distinct() const {
    std::set<std::set<std::int64_t>> out;
    for (const auto& [process, parts] : of_process) out.insert(parts);
    return out;
  }
};

std::vector<DimSlices> slices_of(const Sharding& sharding, std::int64_t ndim, Location location) {
  const Tiling tiling = sharding.impl().tiling(ndim, location);
  Dims ways(std::size_t(ndim), 1);
  if (tiling.kind == Tiling::Kind::tiled) {
    std::copy_n(tiling.tile.begin(), ndim, ways.begin());
  }
  // Of an array with one element a part, offsets are the numbers of the parts.
  const auto layout = layout_of_parts(sharding, ways, location);
  std::vector<DimSlices> out(static_cast<std::size_t>(ndim));
  for (std::size_t i = 0; i < layout->devices.size(); ++i) {
    for (std::size_t d = 0; d < out.size(); ++d) {
      out[d].of_process[layout->devices[i].process_index].insert(layout->offsets[i][d]);
    }
  }
  return out;
}

}  // namespace

std::pair<std::int64_t, std::int64_t> process_index_and_count(const Sharding& sharding,
                                                              std::int64_t dim, std::int64_t ndim,
                                                              Location location) {
  if (dim < 0 || dim >= ndim) {
    throw ValueError("process_index_and_count: dimension " + std::to_string(dim) +
                         " of an array of rank " + std::to_string(ndim),
                     location);
  }
  const DimSlices slices = slices_of(sharding, ndim, location)[std::size_t(dim)];
  const auto mine = slices.of_process.find(process_index());
  if (mine == slices.of_process.end() || !slices.uniform()) {
    throw ShardingError(
        "process_index_and_count: dimension " + std::to_string(dim) + " under " +
            sharding.to_string() +
            (mine == slices.of_process.end()
                 ? ": process " + std::to_string(process_index()) + " has none of the devices"
                 : " isn't split evenly among the processes: their devices must hold equally much "
                   "of it, and either the same or nothing in common"),
        location);
  }
  const auto distinct = slices.distinct();
  return {std::distance(distinct.begin(), distinct.find(mine->second)),
          std::int64_t(distinct.size())};
}

std::vector<std::optional<std::int64_t>> local_to_global_shape(const Sharding& sharding,
                                                               const Dims& local_shape,
                                                               Location location) {
  std::vector<std::optional<std::int64_t>> out;
  const auto slices = slices_of(sharding, std::int64_t(local_shape.size()), location);
  for (std::size_t d = 0; d < slices.size(); ++d) {
    out.emplace_back();
    if (slices[d].uniform()) {
      out[d] = local_shape[d] * std::int64_t(slices[d].distinct().size());
    }
  }
  return out;
}

namespace {

const std::string kFromLocal = "make_array_from_process_local_data";

/// The shape of the whole, of which this process has `local`.
Dims whole_shape(const Sharding& sharding, const Dims& local, const std::string& who,
                 Location location) {
  Dims out;
  const auto known = local_to_global_shape(sharding, local, location);
  for (std::size_t d = 0; d < known.size(); ++d) {
    if (!known[d]) {
      throw ShardingError(who + ": dimension " + std::to_string(d) + " under " +
                              sharding.to_string() +
                              " isn't split evenly among the processes; give the global shape",
                          location);
    }
    out.push_back(*known[d]);
  }
  return out;
}

/// One array of the data that this process has: along each dim either all of it, or its devices'
/// parts one after the other.
Array from_process_data(const Array& data, const Sharding& sharding, const Dims& global,
                        const std::string& who, Location location) {
  const Literal value = frontend::to_literal(data, location);
  const Dims& local = value.dims();
  const auto layout = layout_of_parts(sharding, global, location);
  std::vector<std::map<std::int64_t, std::int64_t>> positions(global.size());  // of starts
  for (std::size_t i = 0; i < layout->devices.size(); ++i) {
    if (!is_local(layout->devices[i])) continue;
    for (std::size_t d = 0; d < global.size(); ++d) positions[d][layout->offsets[i][d]] = 0;
  }
  for (std::size_t d = 0; d < global.size(); ++d) {
    const std::int64_t part = layout->shard_shape[d];
    std::int64_t at = 0;
    for (auto& [start, position] : positions[d]) {
      position = local[d] == global[d] ? start : at;
      at += part;
    }
    if (local[d] == global[d] || local[d] == at || positions[d].empty()) continue;
    throw ShapeError(who + " is " + value.shape().to_string() + ", and its dimension " +
                         std::to_string(d) + " of the global shape " + to_string(global) +
                         " under " + sharding.to_string() + " has " + std::to_string(at) +
                         " elements on the devices of process " + std::to_string(process_index()) +
                         "; valid: so many, or all " + std::to_string(global[d]),
                     location);
  }
  const compiler::Engine& engine = compiler::engine_of(layout->devices);
  const HostLayout held{value.dtype(), Box::entire(local)};
  std::vector<DeviceBuffer> buffers(layout->devices.size());
  std::map<Box, DeviceBuffer> made;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Device& device = layout->devices[i];
    if (!is_local(device)) continue;
    Box part{Dims(global.size()), layout->shard_shape};
    for (std::size_t d = 0; d < global.size(); ++d) {
      part.start[d] = positions[d].at(layout->offsets[i][d]);
    }
    DeviceBuffer& known = made[part];
    if (!known) {
      known =
          engine.copy_in(value.bytes(), held, part, {&device, 1}, internal::memory_of(sharding))[0];
    }
    buffers[i] = engine.on_device(known, device);
  }
  return internal::make_device_array(Shape(value.dtype(), global), sharding, std::move(buffers),
                                     true, false);
}

}  // namespace

namespace internal {

std::vector<Array> process_local_leaves(const std::vector<Array>& leaves,
                                        const std::function<void(TreeVisitor&)>& walk,
                                        const ShardingTree& sharding,
                                        const std::vector<std::vector<std::int64_t>>& global_shapes,
                                        Location location) {
  const std::string& api = kFromLocal;
  if (frontend::Trace::current()) {
    throw TracerError(api + " can't be called while a function is traced", location);
  }
  const std::size_t n = global_shapes.size();
  if (n > 1 && n != leaves.size()) {
    throw ValueError(api + ": " + std::to_string(n) + " global shapes for " +
                         std::to_string(leaves.size()) +
                         " arrays; give none, one for all, or one for each",
                     location);
  }
  const std::vector<std::string> paths = leaf_paths(walk);
  if (process_count() > 1) {
    const auto targets = frontend::broadcast_prefix(sharding, walk, api + "'s sharding", location);
    std::vector<Array> out;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const std::string who = api + ": the data of x" + paths[i];
      const auto target = frontend::resolve_leaf(targets[i], who, true, false, location);
      if (!target) {
        throw ValueError(who + ": a sharding is needed, got " + targets[i].to_string(), location);
      }
      frontend::check_devices_exist(*target, who, location);
      const Dims& local = impl_of(leaves[i], location).shape.dims;
      const Dims global =
          n > 0 ? global_shapes[n == 1 ? 0 : i] : whole_shape(*target, local, who, location);
      if (global.size() != local.size()) {
        throw ShapeError(who + " has rank " + std::to_string(local.size()) +
                             ", and its global shape is to be " + tessera::to_string(global),
                         location);
      }
      frontend::check_fits(*target, global, who, false, location);
      out.push_back(from_process_data(leaves[i], *target, global, who, location));
    }
    return out;
  }
  for (std::size_t i = 0; i < leaves.size() && n > 0; ++i) {
    const Dims& global = global_shapes[n == 1 ? 0 : i];
    const Shape& shape = impl_of(leaves[i], location).shape;
    if (shape.dims == global) continue;
    throw ShapeError(api + ": the data of x" + paths[i] + " is " + shape.to_string() +
                         ", and its global shape is to be " + tessera::to_string(global) +
                         "; this process holds all devices, so the two are the same",
                     location);
  }
  return device_put_leaves(leaves, walk, sharding, {}, location);
}

namespace {

std::map<Device, DeviceBuffer> device_map(const std::vector<Device>& devices,
                                          const std::vector<DeviceBuffer>& buffers) {
  std::map<Device, DeviceBuffer> out;
  for (std::size_t k = 0; k < devices.size(); ++k) out[devices[k]] = buffers[k];
  return out;
}

const PartitionSpec& spec_of(const ShardingTree& leaf, const std::string& who, Location location) {
  if (leaf.kind() == ShardingTree::Kind::spec) return leaf.spec();
  throw ValueError(who + ": a spec is needed, got " + leaf.to_string() + "; P() replicates",
                   location);
}

}  // namespace

std::vector<Array> to_global_leaves(const std::vector<Array>& leaves,
                                    const std::function<void(TreeVisitor&)>& walk, const Mesh& mesh,
                                    const ShardingTree& specs, Location location) {
  const std::string api = "host_local_array_to_global_array";
  const auto leaf_specs = frontend::broadcast_prefix(specs, walk, api + "'s specs", location);
  const std::vector<std::string> paths = leaf_paths(walk);
  const Mesh local_mesh = mesh.local_mesh(location);
  std::vector<Array> out;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::string who = api + "'s argument" + paths[i];
    const PartitionSpec& spec = spec_of(leaf_specs[i], who, location);
    const ArrayImpl& impl = impl_of(leaves[i], location);
    if (impl.kind == ArrayImpl::Kind::device && !impl.sharding.is_fully_addressable()) {
      out.push_back(leaves[i]);
      continue;
    }
    const Sharding local = frontend::named_sharding(local_mesh, spec, who, location);
    const Sharding global = frontend::named_sharding(mesh, spec, who, location);
    frontend::check_devices_exist(global, who, location);
    frontend::check_fits(local, impl.shape.dims, who, false, location);
    const auto parts = frontend::buffers_as(leaves[i], local, location);
    const std::vector<Device> here = local.device_list();
    const auto by_device = device_map(here, parts);
    std::vector<DeviceBuffer> buffers;
    for (const Device& d : global.device_list()) {
      const auto found = by_device.find(d);
      buffers.push_back(found == by_device.end() ? DeviceBuffer{} : found->second);
    }
    const Dims shape =
        local_to_global(PositionalSemantics::local, mesh, get_array_mapping(spec, location),
                        impl.shape.dims, location);
    out.push_back(make_device_array(Shape(impl.shape.dtype, shape), global, std::move(buffers),
                                    true, impl.weak));
  }
  return out;
}

std::vector<Array> to_host_local_leaves(const std::vector<Array>& leaves,
                                        const std::function<void(TreeVisitor&)>& walk,
                                        const Mesh& mesh, const ShardingTree& specs,
                                        Location location) {
  const std::string api = "global_array_to_host_local_array";
  const auto leaf_specs = frontend::broadcast_prefix(specs, walk, api + "'s specs", location);
  const std::vector<std::string> paths = leaf_paths(walk);
  const Mesh local_mesh = mesh.local_mesh(location);
  std::vector<Array> out;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::string who = api + "'s argument" + paths[i];
    const PartitionSpec& spec = spec_of(leaf_specs[i], who, location);
    const ArrayImpl& impl = impl_of(leaves[i], location);
    if (process_count() > 1 &&
        (impl.kind != ArrayImpl::Kind::device || impl.sharding.is_fully_addressable())) {
      out.push_back(leaves[i]);
      continue;
    }
    const Sharding global = frontend::named_sharding(mesh, spec, who, location);
    if (impl.kind != ArrayImpl::Kind::device ||
        !impl.sharding.is_equivalent_to(global, impl.shape.rank())) {
      throw ValueError(who + " is sharded as " + leaves[i].sharding(location).to_string() +
                           ", and its spec says " + global.to_string(),
                       location);
    }
    const auto parts = shared_buffers(impl, location);
    const std::vector<Device> all = impl.sharding.device_list();
    const auto by_device = device_map(all, parts);
    const Sharding local = frontend::named_sharding(local_mesh, spec, who, location);
    std::vector<DeviceBuffer> buffers;
    for (const Device& d : local.device_list()) buffers.push_back(by_device.at(d));
    const Dims shape =
        global_to_local(PositionalSemantics::local, mesh, get_array_mapping(spec, location),
                        impl.shape.dims, location);
    out.push_back(make_device_array(Shape(impl.shape.dtype, shape), local, std::move(buffers), true,
                                    impl.weak));
  }
  return out;
}

}  // namespace internal

namespace {

Array from_callback(const std::vector<std::int64_t>& shape, const Sharding& sharding,
                    const std::function<Array(const Index&)>& callback, std::optional<DType> dtype,
                    Location location) {
  if (frontend::Trace::current()) {
    throw TracerError("make_array_from_callback can't be called while a function is traced",
                      location);
  }
  const Dims local = sharding.shard_shape(shape, location);
  frontend::check_devices_exist(sharding, "make_array_from_callback's sharding", location);
  const auto indices = sharding.devices_indices_map(shape, location);
  const std::vector<Device> list = sharding.device_list(location);
  const compiler::Engine& engine = compiler::engine_of(list);
  std::vector<std::pair<Index, DeviceBuffer>> made;
  std::vector<DeviceBuffer> buffers(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!is_local(list[i])) continue;
    const Index& index = indices.at(list[i]);
    auto found =
        std::find_if(made.begin(), made.end(), [&](const auto& m) { return m.first == index; });
    if (found == made.end()) {
      const Array part = callback(index);
      const Literal value = frontend::to_literal(part, location);
      if (value.dims() != local || (dtype && *dtype != value.dtype())) {
        throw ShapeError("make_array_from_callback of shape " + to_string(shape) + " with " +
                             sharding.to_string() + ": the callback must return arrays of shape " +
                             to_string(local) +
                             (dtype ? " and dtype " + std::string(name(*dtype)) : "") + ", got " +
                             value.shape().to_string(),
                         location);
      }
      dtype = value.dtype();
      made.emplace_back(
          index, frontend::place_literal(
                     value, SingleDeviceSharding(list[i], sharding.memory_kind()), location)[0]);
      found = made.end() - 1;
    }
    buffers[i] = engine.on_device(found->second, list[i]);
  }
  if (!dtype) {
    throw ValueError("make_array_from_callback: process " + std::to_string(process_index()) +
                         " has none of the devices of " + sharding.to_string() +
                         ", so its callback isn't called; give the dtype",
                     location);
  }
  return internal::make_device_array(Shape(*dtype, shape), sharding, std::move(buffers), true,
                                     false);
}

}  // namespace

Array make_array_from_callback(const std::vector<std::int64_t>& shape, const Sharding& sharding,
                               const std::function<Array(const Index&)>& callback,
                               Location location) {
  return from_callback(shape, sharding, callback, std::nullopt, location);
}

Array make_array_from_callback(const std::vector<std::int64_t>& shape, const Sharding& sharding,
                               const std::function<Array(const Index&)>& callback, DType dtype,
                               Location location) {
  return from_callback(shape, sharding, callback, dtype, location);
}

Array make_array_from_single_device_arrays(const std::vector<std::int64_t>& shape,
                                           const Sharding& sharding,
                                           const std::vector<Array>& arrays, Location location) {
  const std::string api = "make_array_from_single_device_arrays";
  std::vector<Device> list;  // this process's
  for (const Device& d : sharding.device_list(location)) {
    if (is_local(d)) list.push_back(d);
  }
  const Dims local = sharding.shard_shape(shape, location);
  if (arrays.empty()) throw ValueError(api + ": no arrays given, so no dtype", location);
  if (arrays.size() != list.size()) {
    throw ValueError(api + ": " + sharding.to_string() + " has " + std::to_string(list.size()) +
                         " addressable devices, and " + std::to_string(arrays.size()) +
                         " arrays were given",
                     location);
  }
  std::map<Device, Array> by_device;
  for (const Array& a : arrays) {
    if (a.is_tracer()) {
      throw ValueError(api + " can't be called with traced arrays", location);
    }
    const std::vector<Device> where = a.sharding(location).device_list();
    if (where.size() != 1) {
      throw ValueError(api + ": each array must be on one device, got one with " +
                           std::to_string(where.size()) + " shards",
                       location);
    }
    if (!by_device.emplace(where[0], a).second) {
      throw ValueError(api + ": two arrays are on device " + where[0].to_string(), location);
    }
    if (a.dtype() != arrays[0].dtype()) {
      throw DTypeError(api + ": arrays of different dtypes: " + arrays[0].type_string() + " and " +
                           a.type_string(),
                       location);
    }
    if (a.shape() != local) {
      throw ShapeError(api + ": each part of shape " + to_string(shape) + " under " +
                           sharding.to_string() + " has shape " + to_string(local) + ", got " +
                           a.type_string(),
                       location);
    }
  }
  Dims missing, foreign;
  std::vector<DeviceBuffer> buffers;
  const std::set<Device> expected(list.begin(), list.end());
  for (const Device& d : sharding.device_list(location)) {
    if (!is_local(d)) {
      buffers.emplace_back();
      continue;
    }
    auto found = by_device.find(d);
    if (found == by_device.end()) {
      missing.push_back(d.id);
    } else {
      const SingleDeviceSharding where(d, sharding.memory_kind(), location);
      buffers.push_back(frontend::buffers_as(found->second, where, location)[0]);
    }
  }
  for (const auto& [d, a] : by_device) {
    if (!expected.count(d)) foreign.push_back(d.id);
  }
  if (!missing.empty() || !foreign.empty()) {
    throw ValueError(api + ": devices " + to_string(missing) +
                         " of the sharding have no array, and there are arrays on devices " +
                         to_string(foreign) + " that the sharding lacks",
                     location);
  }
  return internal::make_device_array(Shape(arrays[0].dtype(), shape), sharding, std::move(buffers),
                                     true, false);
}

}  // namespace tessera
