// SPDX-License-Identifier: Apache-2.0
// Reads sdy's texts of meshes and shardings. TensorSharding::to_string writes them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/sharding/axes/tensor_sharding.h"

namespace tessera {

/// Meshes of a module by name, without the '@'.
using MeshTable = std::map<std::string, MeshRef, std::less<>>;

/// `#sdy.mesh<["x"=2, "y"=4], device_ids=[...]>`, also without `#sdy.mesh` or `mesh` in front. A
/// mesh without axes and with one device id denotes that single device.
MeshRef parse_sdy_mesh(std::string_view text, const std::string& name = "mesh");

/// `#sdy.sharding<@mesh, [{"x", "y":(1)2}, {"z", ?}p1], replicated={"w"}, unreduced={"u"}>`, also
/// from `<` on. The mesh is refined as far as the sub-axes need. A single-device mesh gives a
/// maximal sharding. ParseError with line and column.
TensorSharding parse_sdy_sharding(std::string_view text, const MeshTable& meshes);
/// As above; any mesh name in the text refers to `mesh`.
TensorSharding parse_sdy_sharding(std::string_view text, const MeshRef& mesh);

/// `#sdy.sharding_per_value<[<@mesh, [...]>, <...>]>`, also from `[` on.
std::vector<TensorSharding> parse_sdy_sharding_per_value(std::string_view text,
                                                         const MeshTable& meshes);

}  // namespace tessera
