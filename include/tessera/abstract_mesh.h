// SPDX-License-Identifier: Apache-2.0
// Meshes of devices that are not there.
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
/// Good wherever a Mesh names axes: NamedSharding, in_shardings, constraints, shard_map. A program
/// for it can be lowered, compiled, explained and measured, for thousands of devices on any
/// machine; it can't run, and data can't be placed. Used together with arrays that lie on as many
/// devices, it stands for those. Immutable and interned; it never equals a mesh that has devices.
/// @code
/// AbstractMesh pod({{"data", 64}, {"model", 32}});
/// NamedSharding s(pod, P("data", "model"));
/// auto compiled = jit(step).lower(shape_dtype_struct({4096, 1024}, DType::f32, s)).compile();
/// std::cout << compiled.memory_analysis().peak_bytes_per_device;
/// @endcode
class AbstractMesh : public Mesh {
 public:
  using Types = std::vector<AxisType>;

  /// No axes, size 0.
  AbstractMesh();
  /// Axes are Auto unless `axis_types` says otherwise. ValueError as for Mesh.
  AbstractMesh(std::vector<std::int64_t> axis_sizes, std::vector<std::string> axis_names,
               Types axis_types = {}, Location location = Location::current());
  explicit AbstractMesh(const Shape& shape, Location location = Location::current());
  AbstractMesh(std::initializer_list<std::pair<std::string, std::int64_t>> shape,
               Location location = Location::current())
      : AbstractMesh(Shape(shape), location) {}

  /// What `update` changes; what is left empty stays.
  struct Changes {
    std::vector<std::int64_t> axis_sizes{};
    std::vector<std::string> axis_names{};
    Types axis_types{};
  };
  /// Another one: `pod.update({.axis_sizes = {128, 32}})`.
  AbstractMesh update(const Changes& changes, Location location = Location::current()) const;
  /// With other types for some axes. ValueError for an axis that isn't there.
  AbstractMesh update_axis_types(const std::map<std::string, AxisType>& types,
                                 Location location = Location::current()) const;

 private:
  friend class Mesh;
  explicit AbstractMesh(const Mesh& abstract) : Mesh(abstract) {}
};

/// Makes an abstract mesh the current one of this thread until the scope ends
/// (jax.sharding.use_abstract_mesh): specs without a mesh are over its axes. It may name and type
/// the axes of the mesh in scope anew, and then stands for the same devices, but not change how
/// many there are (ValueError).
class AbstractMeshScope {
 public:
  explicit AbstractMeshScope(const AbstractMesh& mesh, Location location = Location::current());
  ~AbstractMeshScope();
  AbstractMeshScope(const AbstractMeshScope&) = delete;
  AbstractMeshScope& operator=(const AbstractMeshScope&) = delete;

 private:
  std::uint64_t number_;
};
/// As AbstractMeshScope, under jax's name.
using use_abstract_mesh = AbstractMeshScope;
/// The axes of the innermost mesh in scope; the empty mesh if there is none.
AbstractMesh get_abstract_mesh();

}  // namespace tessera
