// SPDX-License-Identifier: Apache-2.0
// The specs of shard_map against the mesh and the arrays.
#pragma once

#include <string>
#include <vector>

#include <tessera/sharding/sharding_tree.h>

#include "src/frontend/trace/trace.h"
#include "src/sharding/axes/tensor_sharding.h"

namespace tessera::frontend {

/// Where and over which axes one shard_map is per device.
struct ManualMesh {
  Mesh mesh;
  std::vector<std::string> fresh;  ///< manual by this call, in the mesh's order
  std::vector<std::string> all;    ///< those manual around it included
  /// An axis of more than one device is left to propagation.
  bool partly() const;
  bool is_fresh(const std::string& axis) const;
  /// The mesh with its manual axes marked.
  Mesh marked() const;
};

/// 'x', 'y'
std::string quoted_axes(const std::vector<std::string>& axes);

/// What needs no mesh: TypeError for leaves that are no specs ("in_specs[1] is ..."), errors for
/// specs that can't be anything. nullptr is a leaf of in_specs alone.
void check_spec_leaves(const ShardingTree& specs, const std::string& what, bool none_allowed,
                       Location location);
/// ShardingError if a spec names an axis that isn't made manual by this call.
void check_spec_axes(const ShardingTree& specs, const std::string& what, const ManualMesh& manual,
                     Location location);

/// One argument or result of the call.
struct SpecUse {
  std::string who;  ///< "argument 0[1]", "result.w"
  Shape shape;      ///< of an argument whole, of a result one device's part
  PartitionSpec spec;
  VaryingAxes varying;  ///< of a result
};
/// ShardingError if specs are longer than ranks, IndivisibleError if sizes don't divide: all
/// arguments at fault are named. `who`: "shard_map of 'f'".
void check_arguments(const std::string& who, const std::vector<SpecUse>& uses,
                     const ManualMesh& manual, Location location);
/// ShardingError if specs are longer than ranks; ValueError if a result varies over manual axes
/// that its spec doesn't name (with `check_vma`).
void check_results(const std::string& who, const std::vector<SpecUse>& uses,
                   const ManualMesh& manual, bool check_vma, Location location);

VaryingAxes axes_of(const PartitionSpec& spec);
/// Sizes of one device's part of an array, and of the whole of a part.
Dims cut_by(const PartitionSpec& spec, const Dims& whole, const Mesh& mesh);
Dims joined_by(const PartitionSpec& spec, const Dims& part, const Mesh& mesh);
/// In explicit mode: leaves in an argument's type what splits it inside. ShardingTypeError if the
/// axes that become manual split the argument otherwise than `spec` says.
void leave_to_devices(ShardingType* type, const PartitionSpec& spec, const ManualMesh& manual,
                      const SpecUse& use, Location location);
/// In explicit mode: the type of a result, from that of one device's part.
ShardingType joined_type(const ShardingType& part, const PartitionSpec& spec,
                         const ManualMesh& manual, const Shape& whole);
/// The spec that an argument's type says, of axes that become manual.
PartitionSpec spec_of_type(const ShardingType& type, const ManualMesh& manual);
/// As the call says it; automatic axes may be added to dims.
TensorSharding boundary(const PartitionSpec& spec, const ManualMesh& manual, std::int64_t rank);

}  // namespace tessera::frontend
