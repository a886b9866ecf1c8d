// SPDX-License-Identifier: Apache-2.0
// Mesh: construction with checks, interning, queries, the mesh in scope.
#include <tessera/mesh.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <set>

#include "src/base/arrays/shape.h"
#include "src/base/check.h"
#include "src/base/contains.h"
#include "src/base/log.h"
#include "src/base/processes/processes.h"
#include "src/base/threads/thread_scratch.h"
#include "src/sharding/api/manual_mesh_scope.h"
#include "src/sharding/api/mesh_impl.h"
#include "src/sharding/axes/axis_name.h"

namespace tessera {

std::string to_string(AxisType t) {
  switch (t) {
    case AxisType::Auto:
      return "Auto";
    case AxisType::Explicit:
      return "Explicit";
    case AxisType::Manual:
      return "Manual";
  }
  return "?";
}

bool Mesh::Impl::same(const Impl& o) const {
  auto same_device = [](const Device& a, const Device& b) {
    return a == b && a.process_index == b.process_index;
  };
  return abstract == o.abstract && sizes == o.sizes && names == o.names && types == o.types &&
         std::equal(devices.begin(), devices.end(), o.devices.begin(), o.devices.end(),
                    same_device);
}

void Mesh::Impl::compute_hash() {
  auto mix = [this](std::size_t v) {
    hash ^= v + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  };
  if (abstract) mix(1);
  for (std::int64_t s : sizes) mix(std::hash<std::int64_t>()(s));
  for (const std::string& n : names) mix(std::hash<std::string>()(n));
  for (AxisType t : types) mix(std::size_t(t));
  for (const Device& d : devices) {
    mix(std::hash<std::int64_t>()(d.id));
    mix(std::hash<std::string>()(d.platform));
  }
}

namespace {

std::string quoted(const std::vector<std::string>& names) {
  std::string out = "(";
  for (std::size_t i = 0; i < names.size(); ++i) out += (i ? ", '" : "'") + names[i] + "'";
  return out + (names.size() == 1 ? ",)" : ")");
}

std::string type_list(const std::vector<AxisType>& types) {
  std::string out = "(";
  for (std::size_t i = 0; i < types.size(); ++i) out += (i ? ", " : "") + to_string(types[i]);
  return out + (types.size() == 1 ? ",)" : ")");
}

/// Product of the sizes.
std::int64_t device_count_of(const std::vector<std::int64_t>& sizes, const char* who,
                             Location location) {
  std::int64_t n = 1;
  for (const std::int64_t s : sizes) {
    if (__builtin_mul_overflow(n, s, &n)) {
      throw ValueError(std::string(who) + ": axes of sizes " + tessera::to_string(sizes) +
                           " need more devices than a 64-bit count holds",
                       location);
    }
  }
  return n;
}

/// One object per mesh. Entries of destroyed meshes are dropped when their slot is reused.
template <class Impl>
std::shared_ptr<const Impl> intern(Impl impl) {
  struct Table {
    std::mutex mutex;
    std::multimap<std::size_t, std::weak_ptr<const Impl>> entries;
  };
  static Table& table = *new Table;  // meshes may be made and compared until the process ends
  std::lock_guard lock(table.mutex);
  auto [begin, end] = table.entries.equal_range(impl.hash);
  for (auto it = begin; it != end;) {
    if (auto known = it->second.lock()) {
      if (known->same(impl)) return known;
      ++it;
    } else {
      it = table.entries.erase(it);
    }
  }
  auto made = std::make_shared<const Impl>(std::move(impl));
  table.entries.emplace(made->hash, made);
  return made;
}

}  // namespace

Mesh::Mesh() {
  static const std::shared_ptr<const Impl>& none = *new std::shared_ptr<const Impl>(intern(Impl{}));
  impl_ = none;
}

namespace internal {

void MeshAccess::check_axes(const char* who, Mesh::Impl* impl, Location location) {
  const std::string name = who, sizes_text = tessera::to_string(impl->sizes);
  std::set<std::string> seen_names;
  for (const std::string& n : impl->names) {
    if (n.empty()) {
      throw ValueError(name + " axis names must not be empty: " + quoted(impl->names), location);
    }
    check_axis_name(n, location);
    if (!seen_names.insert(n).second) {
      throw ValueError(name + " axis name '" + n + "' stands twice in " + quoted(impl->names),
                       location);
    }
  }
  if (!impl->types.empty() && impl->types.size() != impl->names.size()) {
    throw ValueError(name + " needs one axis type per name: the names are " + quoted(impl->names) +
                         " and the types " + type_list(impl->types),
                     location);
  }
  for (std::int64_t s : impl->sizes) {
    if (s < 1) throw ValueError(name + " axis sizes must be at least 1: " + sizes_text, location);
  }
  const bool none = impl->sizes.empty() && (impl->abstract || impl->devices.empty());
  impl->count = none ? 0 : device_count_of(impl->sizes, who, location);
  if (impl->types.empty()) impl->types.assign(impl->names.size(), AxisType::Auto);
}

Mesh MeshAccess::make(Mesh::Impl impl) {
  impl.hash = 0;
  if (impl.count > 0 || impl.abstract) impl.compute_hash();
  return Mesh(intern(std::move(impl)));
}

}  // namespace internal

Mesh::Mesh(std::vector<Device> devices, std::vector<std::int64_t> axis_sizes,
           std::vector<std::string> axis_names, std::vector<AxisType> axis_types,
           Location location) {
  const std::string sizes_text = tessera::to_string(axis_sizes);
  if (axis_sizes.size() != axis_names.size()) {
    throw ValueError("Mesh needs one name per dimension of its devices: the devices have " +
                         std::to_string(axis_sizes.size()) + " dimensions " + sizes_text + " and " +
                         std::to_string(axis_names.size()) + " names are given, " +
                         quoted(axis_names),
                     location);
  }
  Impl impl;
  impl.devices = std::move(devices);
  impl.sizes = std::move(axis_sizes);
  impl.types = std::move(axis_types);
  impl.names = std::move(axis_names);
  internal::MeshAccess::check_axes("Mesh", &impl, location);
  if (impl.count != std::int64_t(impl.devices.size())) {
    throw ValueError("Mesh axes " + quoted(impl.names) + " of sizes " + sizes_text + " need " +
                         std::to_string(impl.count) + " devices and " +
                         std::to_string(impl.devices.size()) + " are given",
                     location);
  }
  std::set<Device> seen;
  for (const Device& d : impl.devices) {
    if (!seen.insert(d).second) {
      throw ValueError("device " + d.to_string() + " stands twice in a Mesh", location);
    }
  }
  *this = internal::MeshAccess::make(std::move(impl));
}

namespace {
std::vector<std::int64_t> count_of(const std::vector<Device>& devices) {
  return {std::int64_t(devices.size())};
}
}  // namespace

Mesh::Mesh(OneAxis, std::vector<Device> devices, std::string axis_name, Location location)
    : Mesh(devices, count_of(devices), {std::move(axis_name)}, {}, location) {}

namespace {
void refuse_abstract(const Mesh& mesh, const char* what, Location location) {
  if (!mesh.is_abstract()) return;
  throw ValueError(mesh.to_string() + " does not implement " + what +
                       ": it is abstract, which means that there are no devices behind it",
                   location);
}
}  // namespace

bool Mesh::is_abstract() const { return impl_->abstract; }

const std::vector<Device>& Mesh::devices(Location location) const {
  refuse_abstract(*this, "devices", location);
  return impl_->devices;
}

std::vector<std::int64_t> Mesh::device_ids(Location location) const {
  refuse_abstract(*this, "device_ids", location);
  std::vector<std::int64_t> out;
  for (const Device& d : impl_->devices) out.push_back(d.id);
  return out;
}

const std::vector<std::string>& Mesh::axis_names() const { return impl_->names; }
const std::vector<std::int64_t>& Mesh::axis_sizes() const { return impl_->sizes; }
const std::vector<AxisType>& Mesh::axis_types() const { return impl_->types; }

Mesh::Shape Mesh::shape() const {
  Shape out;
  for (std::size_t i = 0; i < impl_->names.size(); ++i) {
    out.emplace_back(impl_->names[i], impl_->sizes[i]);
  }
  return out;
}

std::int64_t Mesh::axis_size(const std::string& name, Location location) const {
  for (std::size_t i = 0; i < impl_->names.size(); ++i) {
    if (impl_->names[i] == name) return impl_->sizes[i];
  }
  throw ValueError("axis '" + name + "' is not in " + to_string(), location);
}

bool Mesh::has_axis(const std::string& name) const { return contains(impl_->names, name); }

std::int64_t Mesh::size() const { return impl_->count; }
bool Mesh::empty() const { return impl_->count == 0; }

namespace {
std::vector<std::string> axes_of_type(const Mesh& mesh, AxisType type) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < mesh.axis_names().size(); ++i) {
    if (mesh.axis_types()[i] == type) out.push_back(mesh.axis_names()[i]);
  }
  return out;
}
}  // namespace

std::vector<std::string> Mesh::auto_axes() const { return axes_of_type(*this, AxisType::Auto); }
std::vector<std::string> Mesh::explicit_axes() const {
  return axes_of_type(*this, AxisType::Explicit);
}
std::vector<std::string> Mesh::manual_axes() const { return axes_of_type(*this, AxisType::Manual); }

std::vector<Device> Mesh::local_devices(Location location) const {
  refuse_abstract(*this, "local_devices", location);
  std::vector<Device> out;
  for (const Device& d : impl_->devices) {
    if (is_local(d)) out.push_back(d);
  }
  return out;
}

bool Mesh::is_multi_process() const {
  return std::any_of(impl_->devices.begin(), impl_->devices.end(),
                     [](const Device& d) { return !is_local(d); });
}

Mesh Mesh::local_mesh(Location location) const {
  refuse_abstract(*this, "local_mesh", location);
  if (!is_multi_process()) return *this;
  // Along each axis the coordinates at which there are devices of this process.
  const std::vector<std::int64_t> strides = row_major_strides(impl_->sizes);
  const auto coordinate = [&](std::size_t position, std::size_t axis) {
    return std::int64_t(position) / strides[axis] % impl_->sizes[axis];
  };
  std::vector<std::set<std::int64_t>> held(impl_->sizes.size());
  for (std::size_t p = 0; p < impl_->devices.size(); ++p) {
    if (!is_local(impl_->devices[p])) continue;
    for (std::size_t a = 0; a < held.size(); ++a) held[a].insert(coordinate(p, a));
  }
  if (held.empty() || held[0].empty()) {
    throw ValueError(
        "local_mesh of " + to_string() + ": none of its devices belongs to this process", location);
  }
  Impl local = *impl_;
  local.devices.clear();
  for (std::size_t a = 0; a < held.size(); ++a) {
    local.sizes[a] = std::int64_t(held[a].size());
    if (*held[a].rbegin() - *held[a].begin() + 1 == local.sizes[a]) continue;
    throw ShardingError("local_mesh of " + to_string() +
                            ": the devices of this process must form a contiguous block, and "
                            "along axis '" +
                            impl_->names[a] + "' others stand between them",
                        location);
  }
  local.count = 1;
  for (const std::int64_t size : local.sizes) local.count *= size;
  for (std::size_t p = 0; p < impl_->devices.size(); ++p) {
    bool within = true;
    for (std::size_t a = 0; a < held.size(); ++a)
      within = within && held[a].count(coordinate(p, a));
    if (!within) continue;
    if (!is_local(impl_->devices[p])) {
      throw ShardingError("local_mesh of " + to_string() +
                              ": the devices of this process must form a contiguous block, and " +
                              impl_->devices[p].to_string() + " of process " +
                              std::to_string(impl_->devices[p].process_index) +
                              " stands among them",
                          location);
    }
    local.devices.push_back(impl_->devices[p]);
  }
  return internal::MeshAccess::make(std::move(local));
}

std::string Mesh::to_string() const {
  std::string out = impl_->abstract ? "AbstractMesh(" : "Mesh(";
  if (empty()) return out + ")";
  for (std::size_t i = 0; i < impl_->names.size(); ++i) {
    out += "'" + impl_->names[i] + "': " + std::to_string(impl_->sizes[i]) + ", ";
  }
  return out + "axis_types=" + type_list(impl_->types) + ")";
}

std::size_t Mesh::hash() const { return impl_->hash; }

Mesh make_mesh(const std::vector<std::int64_t>& sizes, const std::vector<std::string>& names,
               std::vector<AxisType> types, std::vector<Device> devices, Location location) {
  const std::string sizes_text = tessera::to_string(sizes);
  for (std::int64_t s : sizes) {
    if (s < 1)
      throw ValueError("make_mesh: axis sizes must be at least 1: " + sizes_text, location);
  }
  const std::int64_t count = device_count_of(sizes, "make_mesh", location);
  const bool given = !devices.empty();
  if (!given) devices = tessera::devices();
  if (count > std::int64_t(devices.size())) {
    throw ValueError("make_mesh: axes " + quoted(names) + " of sizes " + sizes_text + " need " +
                         std::to_string(count) + " devices and there are " +
                         std::to_string(devices.size()) +
                         (given ? std::string(" in the list given")
                                : std::string("; TESSERA_NUM_DEVICES or set_num_devices sets how "
                                              "many virtual devices there are")),
                     location);
  }
  // Virtual devices are equally close to each other, so any order is as good.
  devices.resize(std::size_t(count));
  return Mesh(std::move(devices), sizes, names, std::move(types), location);
}

Mesh make_mesh(const Mesh::Shape& shape, Location location) {
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  for (const auto& [name, size] : shape) {
    names.push_back(name);
    sizes.push_back(size);
  }
  return make_mesh(sizes, names, {}, {}, location);
}

Mesh make_mesh(std::initializer_list<std::pair<std::string, std::int64_t>> shape,
               Location location) {
  return make_mesh(Mesh::Shape(shape), location);
}

namespace {
struct ScopedMesh {
  std::uint64_t number;
  Mesh mesh;
};
std::vector<ScopedMesh>& mesh_stack() {
  struct Stack {
    std::vector<ScopedMesh> scopes;
  };
  return thread_scratch<Stack>().scopes;
}
}  // namespace

std::uint64_t internal::push_mesh(const Mesh& mesh) {
  // One count for all threads: a scope that ends on another one must not find a scope there.
  static std::atomic<std::uint64_t> scopes{0};
  const std::uint64_t number = ++scopes;
  mesh_stack().push_back({number, mesh});
  return number;
}
bool internal::pop_mesh(std::uint64_t number) {
  return std::erase_if(mesh_stack(), [number](const ScopedMesh& s) { return s.number == number; }) >
         0;
}
void internal::end_scope(std::uint64_t number, const char* what, Location location) {
  if (pop_mesh(number)) return;
  const std::string text =
      std::string(what) +
      " ends on another thread than it began on, where its mesh stays the current one; end it on "
      "the thread where it began";
  if (std::uncaught_exceptions() > 0) {
    log_warning(location.to_string() + ": " + text);
    return;
  }
  throw RuntimeError(text, location);
}

MeshScope::MeshScope(const Mesh& mesh, Location location) : location_(location) {
  refuse_abstract(mesh, "being the current mesh by MeshScope (use_abstract_mesh does that)",
                  location);
  if (const auto manual = mesh.manual_axes(); !manual.empty()) {
    throw ValueError("can't make " + mesh.to_string() + " the current mesh: its axes " +
                         quoted(manual) + " are Manual; use shard_map to make axes manual",
                     location);
  }
  number_ = internal::push_mesh(mesh);
}

MeshScope::~MeshScope() noexcept(false) { internal::end_scope(number_, "a MeshScope", location_); }

ManualMeshScope::ManualMeshScope(const Mesh& mesh) : number_(internal::push_mesh(mesh)) {}
ManualMeshScope::~ManualMeshScope() { internal::pop_mesh(number_); }

Mesh current_mesh() { return mesh_stack().empty() ? Mesh() : mesh_stack().back().mesh; }

}  // namespace tessera
