// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/device.h>
#include <tessera/error.h>

namespace tessera {

/// How an axis of a mesh is used. Auto: shardings over it are propagated. Explicit: part of the
/// array's type (not supported yet beyond being stored). Manual: the program is per device.
enum class AxisType : std::uint8_t { Auto, Explicit, Manual };
std::string to_string(AxisType);

class AbstractMesh;
namespace internal {
struct MeshAccess;
}

/// An N-d array of devices with one name per dimension (jax.sharding.Mesh).
///
/// Immutable and interned: equal meshes are the same object and compare in constant time.
/// @code
/// Mesh mesh = make_mesh({{"x", 2}, {"y", 4}});
/// Mesh same(devices(), {2, 4}, {"x", "y"});
/// @endcode
class Mesh {
 public:
  using Shape = std::vector<std::pair<std::string, std::int64_t>>;

  /// The empty mesh: no axes, size 0.
  Mesh();
  /// Devices in row-major order of `axis_sizes`. ValueError if the counts, names or types don't fit
  /// (rank against names, a repeated or empty name, one with quotes, backslashes or control
  /// characters, a device twice). Devices that this process doesn't have are for looking at
  /// placements only: putting arrays there is a ValueError.
  Mesh(std::vector<Device> devices, std::vector<std::int64_t> axis_sizes,
       std::vector<std::string> axis_names, std::vector<AxisType> axis_types = {},
       Location location = Location::current());
  /// A 1-d mesh. (A template, so that `Mesh(devices, {4}, {"x"})` means the one above.)
  template <class Name>
  requires std::is_convertible_v<Name, std::string> Mesh(std::vector<Device> devices,
                                                         Name&& axis_name,
                                                         Location location = Location::current())
      : Mesh(OneAxis{}, std::move(devices), std::string(std::forward<Name>(axis_name)), location) {}

  /// True for what an AbstractMesh says: axes without devices. NamedSharding::mesh() and
  /// current_mesh() may give such a one; its `devices`, `device_ids` and `local_devices` are a
  /// ValueError.
  bool is_abstract() const;
  /// The axes alone (tessera/abstract_mesh.h); an abstract mesh gives itself.
  AbstractMesh abstract_mesh() const;

  const std::vector<Device>& devices(Location location = Location::current()) const;
  /// Device ids in row-major order.
  std::vector<std::int64_t> device_ids(Location location = Location::current()) const;
  const std::vector<std::string>& axis_names() const;
  const std::vector<std::int64_t>& axis_sizes() const;
  const std::vector<AxisType>& axis_types() const;
  /// (name, size) in the order of the axes.
  Shape shape() const;
  /// Size of one axis; ValueError naming the axes there are.
  std::int64_t axis_size(const std::string& name, Location location = Location::current()) const;
  bool has_axis(const std::string& name) const;
  std::int64_t size() const;
  bool empty() const;
  std::vector<std::string> auto_axes() const;
  std::vector<std::string> explicit_axes() const;
  std::vector<std::string> manual_axes() const;
  std::vector<Device> local_devices(Location location = Location::current()) const;
  /// "Mesh('x': 2, 'y': 4, axis_types=(Auto, Auto))"
  std::string to_string() const;

  friend bool operator==(const Mesh& a, const Mesh& b) { return a.impl_ == b.impl_; }
  /// Stable within a process only.
  std::size_t hash() const;

  struct Impl;

 protected:
  explicit Mesh(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  friend struct internal::MeshAccess;
  struct OneAxis {};
  Mesh(OneAxis, std::vector<Device> devices, std::string axis_name, Location location);

  std::shared_ptr<const Impl> impl_;
};

/// A mesh of the first devices, in an order that suits the topology.
/// ValueError if more devices are needed than there are.
Mesh make_mesh(const Mesh::Shape& shape, Location location = Location::current());
Mesh make_mesh(std::initializer_list<std::pair<std::string, std::int64_t>> shape,
               Location location = Location::current());
Mesh make_mesh(const std::vector<std::int64_t>& sizes, const std::vector<std::string>& names,
               std::vector<AxisType> types = {}, std::vector<Device> devices = {},
               Location location = Location::current());

/// Makes a mesh the current one of this thread until the scope ends (`with mesh:`). Scopes nest;
/// the empty mesh means none. Scopes may end in any order; each must end on the thread where it
/// began. ValueError for a mesh with Manual axes, and for an abstract one (see use_abstract_mesh).
class MeshScope {
 public:
  explicit MeshScope(const Mesh& mesh, Location location = Location::current());
  ~MeshScope();
  MeshScope(const MeshScope&) = delete;
  MeshScope& operator=(const MeshScope&) = delete;

 private:
  std::uint64_t number_;
};
/// As MeshScope, under jax's name.
using set_mesh = MeshScope;
/// The innermost mesh in scope; the empty mesh if there is none.
Mesh current_mesh();

}  // namespace tessera
