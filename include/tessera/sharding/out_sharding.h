// SPDX-License-Identifier: Apache-2.0
// The sharding that the result of an operation is to have.
#pragma once

#include <optional>
#include <utility>

#include <tessera/mesh.h>
#include <tessera/partition_spec.h>
#include <tessera/sharding.h>

namespace tessera {

/// How the result of an operation is to be sharded: a spec, on the mesh of the operands or in
/// scope, or a NamedSharding (JAX's `out_sharding`).
class OutSharding {
 public:
  /// A spec, converted implicitly.
  OutSharding(PartitionSpec spec) : spec_(std::move(spec)) {}  // NOLINT: implicit by design
  /// A sharding, converted implicitly.
  OutSharding(const NamedSharding& sharding)  // NOLINT: implicit by design
      : mesh_(sharding.mesh()), spec_(sharding.spec()) {}
  /// The mesh, if a sharding was given.
  const std::optional<Mesh>& mesh() const { return mesh_; }
  /// The spec.
  const PartitionSpec& spec() const { return spec_; }

 private:
  std::optional<Mesh> mesh_;
  PartitionSpec spec_;
};

}  // namespace tessera
