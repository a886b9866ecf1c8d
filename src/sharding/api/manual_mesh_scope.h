// SPDX-License-Identifier: Apache-2.0
// The mesh in scope while per-device code is traced.
#pragma once

#include <tessera/mesh.h>

namespace tessera {

/// As MeshScope, for meshes with Manual axes: in scope while per-device code is traced.
class ManualMeshScope {
 public:
  explicit ManualMeshScope(const Mesh& mesh);
  ~ManualMeshScope();
  ManualMeshScope(const ManualMeshScope&) = delete;
  ManualMeshScope& operator=(const ManualMeshScope&) = delete;

 private:
  std::uint64_t number_;
};

}  // namespace tessera
