// SPDX-License-Identifier: Apache-2.0
// Reads --mesh and --in-shardings, and cuts arrays into shards and joins them.
#include "tools/tessera/placement.h"

#include <tessera/device.h>
#include <tessera/sharding.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <stdexcept>

#include "src/base/env.h"
#include "src/base/processes/processes.h"
#include "src/ir/hlo/typed_calls.h"
#include "src/ir/rewrite/drop_shardings.h"
#include "tools/tessera/command.h"

namespace tessera::tool {

Mesh::Shape parse_mesh(const std::string& text) {
  Mesh::Shape out;
  std::istringstream items(text);
  std::string item;
  while (std::getline(items, item, ',')) {
    const std::size_t equals = item.find('=');
    std::size_t used = 0;
    std::int64_t size = 0;
    try {
      if (equals != std::string::npos) size = std::stoll(item.substr(equals + 1), &used);
    } catch (const std::logic_error&) {
      used = 0;
    }
    if (equals == std::string::npos || equals == 0 || used == 0 ||
        used + equals + 1 != item.size()) {
      throw UsageError("--mesh '" + text + "': expected name=size,..., got '" + item + "'");
    }
    const std::string axis = item.substr(0, equals);
    if (size < 1 || size > kMaxDevices) {
      throw UsageError("--mesh '" + text + "': axis " + axis + " can't have size " +
                       std::to_string(size));
    }
    for (const auto& [other, unused] : out) {
      if (other == axis) throw UsageError("--mesh '" + text + "': axis " + axis + " stands twice");
    }
    out.emplace_back(axis, size);
  }
  if (out.empty()) throw UsageError("--mesh '" + text + "': expected name=size,...");
  std::int64_t devices = 1;
  for (const auto& [axis, size] : out) {
    if (size > kMaxDevices / devices) {
      throw UsageError("--mesh '" + text + "': there may be " + std::to_string(kMaxDevices) +
                       " devices at most");
    }
    devices *= size;
  }
  return out;
}

MeshParts mesh_parts(const Mesh::Shape& axes) {
  MeshParts out;
  for (const auto& [name, size] : axes) {
    out.names.push_back(name);
    out.sizes.push_back(size);
    out.count = checked_multiply(out.count, size);
  }
  return out;
}

PartitionSpec parse_spec(const std::string& text) { return PartitionSpec::parse(text, Location{}); }

std::vector<PartitionSpec> parse_specs(const std::string& text) {
  std::vector<PartitionSpec> out;
  std::istringstream items(text);
  std::string item;
  while (std::getline(items, item, ';')) {
    try {
      out.push_back(parse_spec(item));
    } catch (const ValueError& e) {
      throw UsageError("--in-shardings: " + e.message());
    }
  }
  return out;
}

namespace {

/// Whole axes of a mesh that may be refined.
Mesh::Shape whole_axes(const LogicalMesh& mesh) {
  Mesh::Shape out;
  for (const MeshAxis& axis : mesh.axes) {
    const bool known =
        std::any_of(out.begin(), out.end(), [&](const auto& a) { return a.first == axis.name; });
    if (!known) out.emplace_back(axis.name, axis.full);
  }
  return out;
}

/// For so many devices.
void drop_shardings(ir::Module* module, std::int64_t devices) {
  ir::drop_shardings(module, [&](ir::Instruction* i) {
    if (ir::is_shard_shape_target(ir::custom_call_target(*i))) {
      throw ShardingError("code per device (" + i->describe() +
                          ") needs the mesh that the module names; --mesh and --devices can't "
                          "give it another");
    }
    // Its shardings are resolved again on the mesh that the module gets; one device needs none.
    if (devices > 1 && i->is(ir::Opcode::manual_computation)) ir::lower_to_custom_call(i);
  });
}

/// A device each, numbered as positions: shardings are only checked on it.
Mesh numbered_mesh(const Mesh::Shape& axes) {
  const auto [sizes, names, count] = mesh_parts(axes);
  if (count > kMaxDevices) {
    throw ShardingError("the module's mesh is of " + std::to_string(count) +
                        " devices; there may be " + std::to_string(kMaxDevices) + " at most");
  }
  std::vector<Device> devices(static_cast<std::size_t>(count));
  for (std::size_t id = 0; id < devices.size(); ++id) devices[id].id = std::int64_t(id);
  return Mesh(devices, sizes, names);
}

TensorSharding on_mesh(const PartitionSpec& spec, const MeshRef& mesh, std::int64_t rank) {
  TensorSharding out = TensorSharding::replicated_on(mesh, rank);
  for (std::size_t d = 0; d < spec.entries().size() && d < out.dims.size(); ++d) {
    for (const std::string& axis : spec.entries()[d].axes()) {
      for (std::size_t k = 0; k < mesh->axes.size(); ++k) {
        if (mesh->axes[k].name == axis) out.dims[d].axes.push_back(int(k));
      }
    }
  }
  return out;
}

}  // namespace

void place(ir::Module* module, const PlacementFlags& flags) {
  if (!flags.mesh.empty()) {
    const Mesh::Shape axes = parse_mesh(flags.mesh);
    if (!module->mesh || whole_axes(*module->mesh) != axes) {
      const MeshRef mesh = make_logical_mesh(axes);
      drop_shardings(module, mesh->num_devices());
      module->mesh = mesh;
    }
    module->num_partitions = module->mesh->num_devices();
  }
  if (flags.devices < 0) throw UsageError("--devices: there must be at least one");
  if (flags.devices > kMaxDevices) {
    throw UsageError("--devices " + std::to_string(flags.devices) + ": there may be " +
                     std::to_string(kMaxDevices) + " devices at most");
  }
  if (flags.devices > 0 && flags.devices != module->num_partitions) {
    if (!flags.mesh.empty()) {
      throw UsageError("--devices " + std::to_string(flags.devices) + " and --mesh '" + flags.mesh +
                       "', of " + std::to_string(module->num_partitions) + ", don't agree");
    }
    if (flags.devices > 1 && module->num_partitions > 1) {
      throw ShardingError("the module's shardings are for " +
                          std::to_string(module->num_partitions) + " devices, and --devices asks " +
                          "for " + std::to_string(flags.devices) +
                          "; give --mesh and --in-shardings too, or one device");
    }
    drop_shardings(module, flags.devices);
    if (flags.devices > 1) module->mesh = make_logical_mesh({{"devices", flags.devices}});
    module->num_partitions = flags.devices;
  }
  if (flags.in_shardings.empty()) return;

  const std::vector<PartitionSpec> specs = parse_specs(flags.in_shardings);
  const auto& parameters = module->entry()->parameters();
  if (specs.size() != parameters.size()) {
    throw UsageError("--in-shardings has " + std::to_string(specs.size()) +
                     " specs, and the module takes " + std::to_string(parameters.size()) +
                     " arguments");
  }
  if (!module->mesh) {
    if (module->num_partitions > 1 || flags.devices == 0) {
      throw UsageError("--in-shardings needs --mesh: the module names none");
    }
    return;  // one device
  }
  const Mesh mesh = numbered_mesh(whole_axes(*module->mesh));
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Shape& shape = parameters[i]->shape;
    if (shape.is_tuple) continue;
    try {
      (void)NamedSharding(mesh, specs[i]).shard_shape(shape.dims);
    } catch (const ValueError& e) {
      throw ShardingError("--in-shardings of argument " + std::to_string(i) + " (" +
                          shape.to_string() + "): " + e.message());
    }
    parameters[i]->sharding = {on_mesh(specs[i], module->mesh, shape.rank())};
  }
}

namespace {

bool is_cut(const TensorSharding& s) {
  return s.kind == TensorSharding::Kind::axes && s.mesh && !s.is_replicated();
}

/// Of a padded part: beyond the end of the array as well.
Box box_of(const Dims& local, const Dims& at) {
  Box box{at, local};
  for (std::size_t d = 0; d < local.size(); ++d) box.start[d] *= local[d];
  return box;
}

}  // namespace

std::vector<std::int32_t> deal_out(std::int64_t devices) {
  std::vector<std::int32_t> out;
  const std::int64_t processes = process_count();
  if (processes == 1) return out;
  for (std::int64_t d = 0; d < devices; ++d) out.push_back(std::int32_t(d * processes / devices));
  return out;
}

std::vector<DeviceBuffer> cut(const compiler::Engine& engine, const Literal& array,
                              const TensorSharding& sharding, std::int64_t devices,
                              const std::vector<std::int32_t>& process_of) {
  std::vector<Device> list(std::size_t(devices), Device{0, 0, engine.platform()});
  for (std::size_t d = 0; d < list.size(); ++d) {
    list[d].id = std::int64_t(d);
    if (!process_of.empty()) list[d].process_index = process_of[d];
  }
  const Box all = Box::entire(array.dims());
  const HostLayout held{array.dtype(), all};
  constexpr MemoryKind kMemory = MemoryKind::device;
  if (!is_cut(sharding)) return engine.copy_in(array.bytes(), held, all, list, kMemory);
  const Dims local = sharding.shard_dims(array.dims());
  std::map<Dims, std::vector<Device>> holders;
  for (const Device& d : list) holders[sharding.shard_coordinates(d.id)].push_back(d);
  std::vector<DeviceBuffer> out(list.size());
  for (const auto& [at, group] : holders) {
    auto made = engine.copy_in(array.bytes(), held, box_of(local, at), group, kMemory);
    for (std::size_t k = 0; k < made.size(); ++k) {
      out[std::size_t(group[k].id)] = std::move(made[k]);
    }
  }
  return out;
}

Literal join(const compiler::Engine& engine, const std::vector<DeviceBuffer>& parts,
             const TensorSharding& sharding, const Shape& shape,
             const std::vector<std::int32_t>& process_of) {
  Literal out(Shape(shape.dtype, shape.dims));
  const Box all = Box::entire(shape.dims);
  const std::size_t width = byte_size(shape.dtype);
  std::vector<std::pair<std::size_t, Box>> distinct;  // the first device that holds a part
  if (!is_cut(sharding)) {
    const bool one = sharding.kind == TensorSharding::Kind::maximal;
    distinct.emplace_back(one ? std::size_t(sharding.device) : 0, all);
  } else {
    const Dims local = sharding.shard_dims(shape.dims);
    std::set<Dims> seen;
    for (std::size_t device = 0; device < parts.size(); ++device) {
      const Dims at = sharding.shard_coordinates(std::int64_t(device));
      if (seen.insert(at).second) distinct.emplace_back(device, box_of(local, at));
    }
  }
  std::string mine;  // what other processes lack
  for (const auto& [device, part] : distinct) {
    if (!parts[device]) continue;
    engine.copy_out(parts[device], part, out.mutable_bytes(), {shape.dtype, all});
    if (process_of.empty()) continue;
    const std::size_t at = mine.size();
    mine.resize(at + std::size_t(part.element_count()) * width);
    engine.copy_out(parts[device], part, reinterpret_cast<std::byte*>(mine.data() + at),
                    {shape.dtype, part});
  }
  if (process_of.empty()) return out;
  std::vector<int> everybody(static_cast<std::size_t>(process_count()));
  std::iota(everybody.begin(), everybody.end(), 0);
  const Activity activity{"the gathering of a result", "", {}};
  const Processes::Turn turn(processes(), activity);
  const auto given = processes()->gather(everybody, mine, activity);
  std::vector<std::size_t> taken(given.size());
  for (const auto& [device, part] : distinct) {
    if (parts[device]) continue;
    const auto owner = std::size_t(process_of[device]);
    copy_common(reinterpret_cast<const std::byte*>(given[owner].data() + taken[owner]), part,
                out.mutable_bytes(), all, width);
    taken[owner] += std::size_t(part.element_count()) * width;
  }
  return out;
}

}  // namespace tessera::tool
