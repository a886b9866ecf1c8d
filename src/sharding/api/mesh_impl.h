// SPDX-License-Identifier: Apache-2.0
// The implementation of Mesh and AbstractMesh.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <tessera/mesh.h>

namespace tessera {

struct Mesh::Impl {
  bool abstract = false;
  std::vector<Device> devices;  ///< empty if abstract
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  std::vector<AxisType> types;
  std::int64_t count = 0;
  std::size_t hash = 0;

  bool same(const Impl& o) const;
  void compute_hash();
};

namespace internal {

/// Access to meshes for code that numbers devices, also those of abstract meshes.
struct MeshAccess {
  /// ValueError as for Mesh's constructor; `who` begins the messages. Types are filled in.
  static void check_axes(const char* who, Mesh::Impl* impl, Location location);
  static Mesh make(Mesh::Impl impl);
  /// The devices; for an abstract mesh as many placeholders.
  static const std::vector<Device>& devices(const Mesh& mesh);
  static Mesh with_types(const Mesh& mesh, std::vector<AxisType> types);
  /// A mesh with the axes of `mesh` over these devices.
  static Mesh on_devices(const Mesh& mesh, std::vector<Device> devices);
};

/// Placeholders for the devices of abstract meshes, numbered from 0: equal numbers denote the same
/// position. RuntimeError for more than kMaxDevices.
const std::vector<Device>& placeholder_devices(std::int64_t count);
bool is_placeholder_device(const Device& device);

std::uint64_t push_mesh(const Mesh& mesh);
/// Returns whether the scope was one of this thread.
bool pop_mesh(std::uint64_t number);
/// Ends the scope of a destructor: RuntimeError if it began on another thread, or a log entry while
/// another exception is in flight. `what`: "a MeshScope".
void end_scope(std::uint64_t number, const char* what, Location location);

}  // namespace internal
}  // namespace tessera
