// SPDX-License-Identifier: Apache-2.0
// Lists of devices as HLO text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/ir/module.h"

namespace tessera::ir {

/// Writes what names the devices of a program. Where a mesh has an order of its own, finding a
/// short form takes a look at each device, and there may be none: each text is made once and kept,
/// for as long as this lives.
class DeviceTexts {
 public:
  /// A sharding as a tiling: `{devices=[2,4]<=[8]}`.
  void append_tiling(std::string& out, const TensorSharding& s);
  /// `{{0,1},{2,3}}`, or `[2,2]<=[4]` for many devices.
  void append_groups(std::string& out, const DeviceGroups& groups);
  /// `{{0,1},{1,0}}`, of a permute.
  void append_pairs(std::string& out, const DevicePairs& pairs);
  /// The order of a mesh: `{1,0}`.
  void append_order(std::string& out, const MeshRef& mesh);

 private:
  using Key = std::vector<std::int64_t>;
  struct OfMesh {
    MeshRef mesh;  ///< kept: another mesh must not come to stand where it was
    std::string order;
    std::map<Key, std::string> tilings, groups;
  };
  OfMesh& of(const MeshRef& mesh);

  std::unordered_map<const LogicalMesh*, OfMesh> meshes_;
  std::map<std::vector<std::vector<std::int64_t>>, std::string> lists_;
  std::map<DevicePairs, std::string> pairs_;
};

}  // namespace tessera::ir
