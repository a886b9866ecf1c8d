// SPDX-License-Identifier: Apache-2.0
// The manifest of a checkpoint: what was saved, how it was sharded, and where its parts are.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/files/json_text.h"
#include "src/frontend/checkpoint/tensor_files.h"

namespace tessera::frontend {

/// How an array was sharded: for information.
struct ShardingRecord {
  std::optional<std::size_t> mesh;  ///< position among the manifest's
  std::string spec;                 ///< of a NamedSharding
  std::string text;                 ///< of any
  std::string memory_kind;
};
struct MeshRecord {
  std::vector<std::string> axis_names;
  std::vector<std::int64_t> axis_sizes;
  std::vector<std::string> axis_types;
  std::vector<std::int64_t> device_ids;
  friend bool operator==(const MeshRecord&, const MeshRecord&) = default;
};
struct ArrayRecord {
  std::string path;
  Shape shape;
  bool weak = false;
  std::optional<ShardingRecord> sharding;  ///< empty for plain scalars
  std::optional<std::size_t> same_as;      ///< an array before it in the list
  std::vector<PieceRecord> pieces;
};
struct Manifest {
  std::int64_t step = 0;
  std::map<std::string, std::string> metadata;
  Json tree;
  std::vector<MeshRecord> meshes;
  std::vector<ArrayRecord> arrays;
  std::vector<FileRecord> files;
};

inline constexpr const char* kManifestName = "manifest.json";

/// One JSON object, which holds the checksum of the rest of it.
std::string manifest_text(const Manifest& manifest, const std::string& who);
/// IoError that begins with `who` if the text isn't one, is damaged, or of another version.
/// Offsets, sizes and numbers of checksums of the result fit each other.
Manifest parse_manifest(std::string_view text, const std::string& who);

/// The record of a sharding; its mesh is added to the manifest's.
ShardingRecord record_sharding(const Sharding& sharding, std::vector<MeshRecord>* meshes);

}  // namespace tessera::frontend
