// SPDX-License-Identifier: Apache-2.0
// Axis names in HLO text: the xla.sdy.* frontend attributes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/ir/module.h"

namespace tessera::ir {

/// Of a loop's backend_config.
inline constexpr const char* kTripCountKey = "\"known_trip_count\"";
inline constexpr const char* kSdyMeshes = "xla.sdy.meshes";
inline constexpr const char* kSdySharding = "xla.sdy.sharding";

/// The meshes of a module by the names that its text gives them. Different meshes of one name get
/// a number each.
class SdyMeshNames {
 public:
  void collect(const std::vector<Computation*>& computations);
  bool empty() const { return named_.empty(); }
  /// Whether the text gives the mesh its own name.
  bool keeps_name(const MeshRef& mesh) const;
  /// `{mesh = #sdy.mesh<["x"=2, "y"=4]>, ...}`
  std::string table_text() const;
  /// `#sdy.sharding<@mesh, [...]>`, or one per value for a tuple; empty if none has a mesh.
  std::string sharding_text(const Instruction& i) const;

 private:
  const std::string* find(const MeshRef& mesh) const;
  void add(const MeshRef& mesh);

  // Few meshes: looked through in order.
  std::vector<std::pair<MeshRef, std::string>> named_;
};

}  // namespace tessera::ir
