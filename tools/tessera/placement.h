// SPDX-License-Identifier: Apache-2.0
// How a program's arrays are laid out, as flags state it, and how they are copied in and out.
#pragma once

#include <tessera/mesh.h>
#include <tessera/partition_spec.h>

#include <optional>
#include <string>
#include <vector>

#include "src/base/arrays/literal.h"
#include "src/compiler/engine.h"
#include "src/ir/module.h"

namespace tessera::tool {

/// "data=2,model=4". UsageError.
Mesh::Shape parse_mesh(const std::string& text);
/// The parts of a mesh, as Mesh's constructor takes them, and its number of devices.
struct MeshParts {
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  std::int64_t count = 1;
};
MeshParts mesh_parts(const Mesh::Shape& axes);
/// `P("x", None, ("y", "z"))`, as users write specs; quotes are ' or ". ParseError with the place.
PartitionSpec parse_spec(const std::string& text);
/// Specs between ';'. UsageError.
std::vector<PartitionSpec> parse_specs(const std::string& text);

/// What --mesh, --in-shardings and --devices ask for.
struct PlacementFlags {
  std::string mesh, in_shardings;
  std::int64_t devices = 0;  ///< 0: as many as the module and the mesh say
};
/// Puts it into the module. A mesh other than the module's own replaces all shardings in it;
/// parameters without a spec are replicated on every device. UsageError, ShardingError.
void place(ir::Module* module, const PlacementFlags& flags);

/// The process of each logical device, in blocks; empty if there is one process.
std::vector<std::int32_t> deal_out(std::int64_t devices);
/// A buffer a device, made by the engine; devices that hold the same part get it made together.
/// Uneven parts are padded with zeros. `process_of`: as deal_out says.
std::vector<DeviceBuffer> cut(const compiler::Engine& engine, const Literal& array,
                              const TensorSharding& sharding, std::int64_t devices,
                              const std::vector<std::int32_t>& process_of);
/// On all processes.
Literal join(const compiler::Engine& engine, const std::vector<DeviceBuffer>& parts,
             const TensorSharding& sharding, const Shape& shape,
             const std::vector<std::int32_t>& process_of);

}  // namespace tessera::tool
