// SPDX-License-Identifier: Apache-2.0
// Meshes of devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/device.h>
#include <tessera/error.h>

namespace tessera {

/// How an axis of a mesh is used (jax.sharding.AxisType). Auto: shardings over it are propagated by
/// the compiler. Explicit: shardings over it are part of the types of arrays (explicit_sharding.h).
/// Manual: code is per device along it, as within `shard_map`.
enum class AxisType : std::uint8_t { Auto, Explicit, Manual };
/// Returns "Auto", "Explicit" or "Manual".
std::string to_string(AxisType);

class AbstractMesh;
namespace internal {
struct MeshAccess;
}

/// An N-dimensional array of devices with one name per axis (jax.sharding.Mesh).
///
/// A mesh is an immutable value; equal meshes share one representation, so that they compare in
/// constant time.
/// @code
/// Mesh mesh = make_mesh({{"x", 2}, {"y", 4}});
/// Mesh same(devices(), {2, 4}, {"x", "y"});
/// @endcode
class Mesh {
 public:
  /// Names and sizes of the axes, in order.
  using Shape = std::vector<std::pair<std::string, std::int64_t>>;

  /// The empty mesh: no axes, size 0.
  Mesh();
  /// A mesh of the given devices.
  ///
  /// Devices that this process doesn't have are accepted, to inspect shardings; placing arrays on
  /// them is a ValueError.
  /// @param devices  The devices in row-major order; as many as the product of the sizes.
  /// @param axis_sizes  Size of each axis, at least 1.
  /// @param axis_names  Name of each axis: unique, not empty, and without quotes, backslashes and
  ///   control characters.
  /// @param axis_types  Type of each axis; empty: all are Auto.
  /// @param location  The line named in messages.
  /// @throws ValueError if these conditions don't hold or a device is given twice.
  Mesh(std::vector<Device> devices, std::vector<std::int64_t> axis_sizes,
       std::vector<std::string> axis_names, std::vector<AxisType> axis_types = {},
       Location location = Location::current());
  /// A one-dimensional mesh of the given devices. (A template, so that `Mesh(devices, {4}, {"x"})`
  /// calls the constructor above.)
  template <class Name>
  requires std::is_convertible_v<Name, std::string> Mesh(std::vector<Device> devices,
                                                         Name&& axis_name,
                                                         Location location = Location::current())
      : Mesh(OneAxis{}, std::move(devices), std::string(std::forward<Name>(axis_name)), location) {}

  /// True if the mesh has axes but no devices; see AbstractMesh. `NamedSharding::mesh()` and
  /// `current_mesh()` may return such a mesh.
  bool is_abstract() const;
  /// Returns the axes without the devices; an abstract mesh returns itself.
  AbstractMesh abstract_mesh() const;

  /// Returns the devices in row-major order.
  /// @throws ValueError if the mesh is abstract.
  const std::vector<Device>& devices(Location location = Location::current()) const;
  /// Returns the ids of the devices in row-major order.
  /// @throws ValueError if the mesh is abstract.
  std::vector<std::int64_t> device_ids(Location location = Location::current()) const;
  /// Names of the axes.
  const std::vector<std::string>& axis_names() const;
  /// Sizes of the axes.
  const std::vector<std::int64_t>& axis_sizes() const;
  /// Types of the axes.
  const std::vector<AxisType>& axis_types() const;
  /// Names and sizes of the axes.
  Shape shape() const;
  /// Returns the size of one axis.
  /// @throws ValueError if the mesh has no such axis.
  std::int64_t axis_size(const std::string& name, Location location = Location::current()) const;
  /// True if the mesh has an axis of that name.
  bool has_axis(const std::string& name) const;
  /// Number of devices: the product of the axis sizes, 0 for the empty mesh.
  std::int64_t size() const;
  /// True for the empty mesh.
  bool empty() const;
  /// Names of the axes of type Auto.
  std::vector<std::string> auto_axes() const;
  /// Names of the axes of type Explicit.
  std::vector<std::string> explicit_axes() const;
  /// Names of the axes of type Manual.
  std::vector<std::string> manual_axes() const;
  /// Returns the mesh's devices that belong to this process.
  /// @throws ValueError if the mesh is abstract.
  std::vector<Device> local_devices(Location location = Location::current()) const;
  /// True if some device belongs to another process. False for an abstract mesh.
  bool is_multi_process() const;
  /// Returns the mesh of this process's devices: the axes of this mesh, along each of them the
  /// coordinates at which there are devices of this process.
  /// @throws ValueError if the mesh is abstract or none of its devices belongs to this process.
  /// @throws ShardingError if a device of another process stands among them, or they aren't
  ///   adjacent: they must form a contiguous block of the mesh.
  Mesh local_mesh(Location location = Location::current()) const;
  /// Returns for example "Mesh('x': 2, 'y': 4, axis_types=(Auto, Auto))".
  std::string to_string() const;

  friend bool operator==(const Mesh& a, const Mesh& b) { return a.impl_ == b.impl_; }
  /// Hash of the mesh, equal for equal meshes; differs between processes.
  std::size_t hash() const;

  /// The representation; for internal use.
  struct Impl;

 protected:
  explicit Mesh(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  friend struct internal::MeshAccess;
  struct OneAxis {};
  Mesh(OneAxis, std::vector<Device> devices, std::string axis_name, Location location);

  std::shared_ptr<const Impl> impl_;
};

/// Returns a mesh of the first devices (jax.make_mesh).
/// @code
/// Mesh mesh = make_mesh({{"data", 2}, {"model", 4}});
/// @endcode
/// @throws ValueError if there are fewer devices than the axes need, or as for the constructor.
Mesh make_mesh(const Mesh::Shape& shape, Location location = Location::current());
/// The same for a braced list.
Mesh make_mesh(std::initializer_list<std::pair<std::string, std::int64_t>> shape,
               Location location = Location::current());
/// The same with sizes and names apart, axis types (Auto by default) and devices (all by default).
Mesh make_mesh(const std::vector<std::int64_t>& sizes, const std::vector<std::string>& names,
               std::vector<AxisType> types = {}, std::vector<Device> devices = {},
               Location location = Location::current());

/// Makes a mesh the current mesh of this thread until the scope ends (jax.set_mesh, `with mesh:`).
///
/// PartitionSpecs given without a mesh refer to it. Scopes nest, may end in any order, and must end
/// on the thread where they began: to end on another one is a RuntimeError. The empty mesh hides
/// outer scopes.
/// @code
/// const MeshScope scope(make_mesh({{"x", 8}}));
/// auto f = jit([](Array a) { return a + 1; }, {.in_shardings = P("x")});
/// @endcode
class MeshScope {
 public:
  /// Begins the scope.
  /// @throws ValueError if the mesh has Manual axes or is abstract (see AbstractMeshScope).
  explicit MeshScope(const Mesh& mesh, Location location = Location::current());
  /// Ends the scope.
  /// @throws RuntimeError on another thread than that of the constructor: the mesh would stay the
  ///   current one there. If an exception is in flight already, this is logged instead.
  ~MeshScope() noexcept(false);
  MeshScope(const MeshScope&) = delete;
  MeshScope& operator=(const MeshScope&) = delete;

 private:
  std::uint64_t number_;
  Location location_;
};
/// JAX's name of MeshScope.
using set_mesh = MeshScope;
/// Returns the innermost mesh in scope on this thread, or the empty mesh if there is none.
Mesh current_mesh();

}  // namespace tessera

/// Meshes may be keys of unordered containers.
template <>
struct std::hash<tessera::Mesh> {
  /// Returns Mesh::hash().
  std::size_t operator()(const tessera::Mesh& mesh) const { return mesh.hash(); }
};
