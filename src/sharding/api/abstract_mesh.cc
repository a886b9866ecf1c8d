// SPDX-License-Identifier: Apache-2.0
// Abstract meshes: axes without devices, and their scopes.
#include <tessera/sharding/abstract_mesh.h>

#include <map>

#include "src/base/arrays/shape.h"
#include "src/base/env.h"
#include "src/sharding/api/mesh_impl.h"

namespace tessera {
namespace {

constexpr const char* kPlatform = "(abstract)";

std::vector<std::int64_t> sizes_of(const Mesh::Shape& shape) {
  std::vector<std::int64_t> out;
  for (const auto& [name, size] : shape) out.push_back(size);
  return out;
}
std::vector<std::string> names_of(const Mesh::Shape& shape) {
  std::vector<std::string> out;
  for (const auto& [name, size] : shape) out.push_back(name);
  return out;
}

Mesh abstract(std::vector<std::int64_t> sizes, std::vector<std::string> names,
              std::vector<AxisType> types, Location location) {
  Mesh::Impl impl;
  if (sizes.size() != names.size()) {
    std::string list;
    for (const std::string& n : names) list += (list.empty() ? "'" : ", '") + n + "'";
    throw ValueError("AbstractMesh needs one name per axis: there are " +
                         std::to_string(sizes.size()) + " sizes " + to_string(sizes) + " and " +
                         std::to_string(names.size()) + " names (" + list + ")",
                     location);
  }
  impl.abstract = true;
  impl.sizes = std::move(sizes);
  impl.names = std::move(names);
  impl.types = std::move(types);
  internal::MeshAccess::check_axes("AbstractMesh", &impl, location);
  return internal::MeshAccess::make(std::move(impl));
}

}  // namespace

AbstractMesh::AbstractMesh() : Mesh(abstract({}, {}, {}, {})) {}

AbstractMesh::AbstractMesh(std::vector<std::int64_t> axis_sizes,
                           std::vector<std::string> axis_names, Types axis_types, Location location)
    : Mesh(abstract(std::move(axis_sizes), std::move(axis_names), std::move(axis_types),
                    location)) {}

AbstractMesh::AbstractMesh(const Shape& shape, Location location)
    : Mesh(abstract(sizes_of(shape), names_of(shape), {}, location)) {}

AbstractMesh AbstractMesh::update(const Changes& changes, Location location) const {
  const auto or_own = [](const auto& given, const auto& own) {
    return given.empty() ? own : given;
  };
  return AbstractMesh(or_own(changes.axis_sizes, axis_sizes()),
                      or_own(changes.axis_names, axis_names()),
                      or_own(changes.axis_types, axis_types()), location);
}

AbstractMesh AbstractMesh::update_axis_types(const std::map<std::string, AxisType>& types,
                                             Location location) const {
  Types all = axis_types();
  for (const auto& [name, type] : types) {
    (void)axis_size(name, location);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (axis_names()[i] == name) all[i] = type;
    }
  }
  return AbstractMesh(axis_sizes(), axis_names(), std::move(all), location);
}

AbstractMesh Mesh::abstract_mesh() const {
  if (is_abstract()) return AbstractMesh(*this);
  return AbstractMesh(axis_sizes(), axis_names(), axis_types(), Location{});
}

AbstractMeshScope::AbstractMeshScope(const AbstractMesh& mesh, Location location)
    : location_(location) {
  const Mesh outer = current_mesh();
  if (outer.empty() || mesh.empty()) {
    number_ = internal::push_mesh(mesh);
    return;
  }
  if (outer.size() != mesh.size()) {
    throw ValueError("use_abstract_mesh can't change the size of the mesh: the new one, " +
                         mesh.to_string() + ", has size " + std::to_string(mesh.size()) +
                         ", and the one in scope, " + outer.to_string() + ", has size " +
                         std::to_string(outer.size()),
                     location);
  }
  number_ = internal::push_mesh(
      outer.is_abstract() ? Mesh(mesh) : internal::MeshAccess::on_devices(mesh, outer.devices()));
}

AbstractMeshScope::~AbstractMeshScope() noexcept(false) {
  internal::end_scope(number_, "an AbstractMeshScope", location_);
}

AbstractMesh get_abstract_mesh() {
  const Mesh mesh = current_mesh();
  return mesh.empty() ? AbstractMesh() : mesh.abstract_mesh();
}

namespace internal {

const std::vector<Device>& MeshAccess::devices(const Mesh& mesh) {
  return mesh.impl_->abstract ? placeholder_devices(mesh.impl_->count) : mesh.impl_->devices;
}

Mesh MeshAccess::with_types(const Mesh& mesh, std::vector<AxisType> types) {
  Mesh::Impl impl = *mesh.impl_;
  impl.types = std::move(types);
  return make(std::move(impl));
}

Mesh MeshAccess::on_devices(const Mesh& mesh, std::vector<Device> devices) {
  Mesh::Impl impl = *mesh.impl_;
  impl.abstract = false;
  impl.devices = std::move(devices);
  return make(std::move(impl));
}

const std::vector<Device>& placeholder_devices(std::int64_t count) {
  if (count > kMaxDevices) {
    throw RuntimeError("an abstract mesh of " + std::to_string(count) +
                       " devices is too large to compile for; there may be " +
                       std::to_string(kMaxDevices) + " at most");
  }
  struct Table {
    std::mutex mutex;
    std::map<std::int64_t, std::vector<Device>> lists;  // few, and used until the process ends
  };
  static Table& table = *new Table;
  const std::lock_guard lock(table.mutex);
  std::vector<Device>& list = table.lists[count];
  if (list.empty()) {
    list.resize(std::size_t(count), Device{0, 0, kPlatform});
    for (std::int64_t i = 0; i < count; ++i) list[std::size_t(i)].id = i;
  }
  return list;
}

bool is_placeholder_device(const Device& device) { return device.platform == kPlatform; }

}  // namespace internal
}  // namespace tessera
