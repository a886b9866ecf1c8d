// SPDX-License-Identifier: Apache-2.0
// Meshes without devices, for ahead-of-time compilation.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tessera/mesh.h>

namespace tessera {

/// The axes of a mesh, without devices behind them (jax.sharding.AbstractMesh).
///
/// It can be used wherever a Mesh names axes: in NamedSharding, in_shardings, constraints and
/// shard_map. A program for it can be lowered, compiled, explained and measured, for thousands of
/// devices on any machine, but it can't run, and arrays can't be placed on it. When a program's
/// arguments are arrays on a mesh of the same size, the abstract mesh refers to the devices of that
/// mesh. An abstract mesh never equals a mesh with devices.
/// @code
/// AbstractMesh pod({{"data", 64}, {"model", 32}});
/// NamedSharding s(pod, P("data", "model"));
/// auto compiled = jit(step).lower(shape_dtype_struct({4096, 1024}, DType::f32, s)).compile();
/// std::cout << compiled.memory_analysis().peak_bytes_per_device;
/// @endcode
class AbstractMesh : public Mesh {
 public:
  /// One type per axis.
  using Types = std::vector<AxisType>;

  /// No axes, size 0.
  AbstractMesh();
  /// Axes with these sizes, names and types (Auto by default).
  /// @throws ValueError as for Mesh.
  AbstractMesh(std::vector<std::int64_t> axis_sizes, std::vector<std::string> axis_names,
               Types axis_types = {}, Location location = Location::current());
  /// Auto axes with these names and sizes.
  explicit AbstractMesh(const Shape& shape, Location location = Location::current());
  /// Auto axes with these names and sizes.
  AbstractMesh(std::initializer_list<std::pair<std::string, std::int64_t>> shape,
               Location location = Location::current())
      : AbstractMesh(Shape(shape), location) {}

  /// What `update` replaces; empty members keep the mesh's values.
  struct Changes {
    /// New sizes of all axes.
    std::vector<std::int64_t> axis_sizes{};
    /// New names of all axes.
    std::vector<std::string> axis_names{};
    /// New types of all axes.
    Types axis_types{};
  };
  /// Returns a copy with changes: `pod.update({.axis_sizes = {128, 32}})`.
  /// @throws ValueError as for Mesh.
  AbstractMesh update(const Changes& changes, Location location = Location::current()) const;
  /// Returns a copy with other types for some axes.
  /// @throws ValueError if the mesh lacks an axis.
  AbstractMesh update_axis_types(const std::map<std::string, AxisType>& types,
                                 Location location = Location::current()) const;

 private:
  friend class Mesh;
  explicit AbstractMesh(const Mesh& abstract) : Mesh(abstract) {}
};

/// Makes an abstract mesh the current mesh of this thread until the scope ends
/// (jax.sharding.use_abstract_mesh): PartitionSpecs given without a mesh refer to its axes. Within
/// the scope of another mesh it renames or retypes that mesh's axes and refers to the same devices.
class AbstractMeshScope {
 public:
  /// Begins the scope.
  /// @throws ValueError if a mesh of another size is in scope.
  explicit AbstractMeshScope(const AbstractMesh& mesh, Location location = Location::current());
  /// Ends the scope.
  /// @throws RuntimeError on another thread, as ~MeshScope.
  ~AbstractMeshScope() noexcept(false);
  AbstractMeshScope(const AbstractMeshScope&) = delete;
  AbstractMeshScope& operator=(const AbstractMeshScope&) = delete;

 private:
  std::uint64_t number_;
  Location location_;
};
/// JAX's name of AbstractMeshScope.
using use_abstract_mesh = AbstractMeshScope;
/// Returns the axes of the innermost mesh in scope, or the empty mesh if there is none.
AbstractMesh get_abstract_mesh();

}  // namespace tessera

/// Abstract meshes may be keys of unordered containers.
template <>
struct std::hash<tessera::AbstractMesh> : std::hash<tessera::Mesh> {};
