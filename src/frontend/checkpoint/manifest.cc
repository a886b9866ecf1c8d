// SPDX-License-Identifier: Apache-2.0
// Manifests as JSON text, and the checks of one that is read.
#include "src/frontend/checkpoint/manifest.h"

#include <xxhash.h>

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "src/frontend/checkpoint/tree_structure.h"
#include "src/sharding/api/sharding_impl.h"

namespace tessera::frontend {

namespace {

constexpr std::string_view kBegin = R"({"format":"tessera.checkpoint","version":)";
constexpr std::string_view kHash = R"(,"xxh3_128":")";
constexpr std::string_view kContents = R"(","contents":)";
constexpr std::string_view kEnd = "}\n";
constexpr int kVersion = 1;

std::string hash_of(std::string_view text) {
  const XXH128_hash_t h = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

std::string hex_of(std::span<const std::uint64_t> hashes) {
  std::string out;
  out.reserve(16 * hashes.size());
  for (const std::uint64_t h : hashes) out += fmt::format("{:016x}", h);
  return out;
}
std::vector<std::uint64_t> hashes_in(const std::string& text, const std::string& who) {
  std::vector<std::uint64_t> out(text.size() / 16);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const char* at = text.data() + 16 * i;
    if (std::from_chars(at, at + 16, out[i], 16).ptr != at + 16) out.clear();
  }
  if (text.size() % 16 != 0 || out.size() != text.size() / 16) {
    throw IoError(who + ": checksums aren't hexadecimal");
  }
  return out;
}

Json json_of(const Manifest& m) {
  Json meshes = Json::array(), arrays = Json::array(), files = Json::array();
  for (const MeshRecord& mesh : m.meshes) {
    meshes.push_back({{"axis_names", mesh.axis_names},
                      {"axis_sizes", mesh.axis_sizes},
                      {"axis_types", mesh.axis_types},
                      {"device_ids", mesh.device_ids}});
  }
  for (const ArrayRecord& a : m.arrays) {
    Json json = {{"path", a.path},
                 {"dtype", std::string(name(a.shape.dtype))},
                 {"shape", a.shape.dims},
                 {"weak", a.weak}};
    if (a.sharding) {
      Json sharding = {{"text", a.sharding->text}, {"memory_kind", a.sharding->memory_kind}};
      if (a.sharding->mesh) {
        sharding["mesh"] = *a.sharding->mesh;
        sharding["spec"] = a.sharding->spec;
      }
      json["sharding"] = std::move(sharding);
    }
    if (a.same_as) {
      json["same_as"] = *a.same_as;
    } else {
      Json pieces = Json::array();
      for (const PieceRecord& p : a.pieces) {
        pieces.push_back({{"file", p.file},
                          {"name", p.name},
                          {"start", p.box.start},
                          {"size", p.box.size},
                          {"offset", p.offset},
                          {"hashes", hex_of(p.hashes)}});
      }
      json["pieces"] = std::move(pieces);
    }
    arrays.push_back(std::move(json));
  }
  for (const FileRecord& f : m.files) {
    files.push_back({{"name", f.name},
                     {"bytes", f.bytes},
                     {"header_bytes", f.header_bytes},
                     {"header_hash", hex_of({&f.header_hash, 1})}});
  }
  return {{"step", m.step},    {"metadata", m.metadata},
          {"tree", m.tree},    {"meshes", meshes},
          {"arrays", arrays},  {"files", files},
          {"hash", "xxh3_64"}, {"hashed_bytes", kHashedBytes}};
}

/// Reads the contents; all errors begin with `who`.
class Reader {
 public:
  explicit Reader(const std::string& who) : who_(who) {}

  Manifest read(const Json& json) {
    Manifest out;
    out.step = count(json, "step");
    const Json& metadata = json_member(json, "metadata", who_);
    if (!metadata.is_object()) fail("'metadata' is no object");
    for (const auto& [key, value] : metadata.items()) {
      out.metadata.emplace(key, json_string(value, key.c_str(), who_));
    }
    if (text(json, "hash") != "xxh3_64" ||
        count(json, "hashed_bytes") != std::int64_t(kHashedBytes)) {
      fail("checksums of another kind");
    }
    out.tree = json_member(json, "tree", who_);
    for (const Json& mesh : json_list(json, "meshes", who_)) {
      out.meshes.push_back({texts(mesh, "axis_names"), counts(mesh, "axis_sizes"),
                            texts(mesh, "axis_types"), counts(mesh, "device_ids")});
    }
    for (const Json& file : json_list(json, "files", who_)) out.files.push_back(file_of(file));
    for (const Json& array : json_list(json, "arrays", who_)) {
      out.arrays.push_back(array_of(array, out));
    }
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw IoError(who_ + ": " + what); }
  std::int64_t count(const Json& json, const char* name) const {
    return json_count(json_member(json, name, who_), name, who_);
  }
  const std::string& text(const Json& json, const char* name) const {
    return json_string(json_member(json, name, who_), name, who_);
  }
  Dims counts(const Json& json, const char* name) const {
    Dims out;
    for (const Json& n : json_list(json, name, who_)) out.push_back(json_count(n, name, who_));
    return out;
  }
  std::vector<std::string> texts(const Json& json, const char* name) const {
    std::vector<std::string> out;
    for (const Json& t : json_list(json, name, who_)) out.push_back(json_string(t, name, who_));
    return out;
  }

  FileRecord file_of(const Json& json) const {
    FileRecord out;
    out.name = text(json, "name");
    if (out.name.empty() || out.name.find('/') != std::string::npos || out.name[0] == '.') {
      fail("'" + out.name + "' is no name of a file");
    }
    out.bytes = std::uint64_t(count(json, "bytes"));
    out.header_bytes = std::uint64_t(count(json, "header_bytes"));
    const auto hashes = hashes_in(text(json, "header_hash"), who_);
    if (hashes.size() != 1 || out.header_bytes > out.bytes) fail("the record of " + out.name);
    out.header_hash = hashes[0];
    return out;
  }

  PieceRecord piece_of(const Json& json, const Shape& shape, const Manifest& manifest) const {
    PieceRecord out;
    out.file = std::size_t(count(json, "file"));
    out.name = text(json, "name");
    out.box = {counts(json, "start"), counts(json, "size")};
    out.offset = std::uint64_t(count(json, "offset"));
    out.hashes = hashes_in(text(json, "hashes"), who_);
    const std::string what = "the record of '" + out.name + "' contradicts itself";
    if (out.box.start.size() != shape.dims.size() || out.box.size.size() != shape.dims.size() ||
        out.file >= manifest.files.size()) {
      fail(what);
    }
    for (std::size_t d = 0; d < shape.dims.size(); ++d) {
      if (out.box.size[d] > shape.dims[d] || out.box.start[d] > shape.dims[d] - out.box.size[d]) {
        fail(what);
      }
    }
    // No more elements than the array, so that this doesn't overflow.
    const std::uint64_t bytes = std::uint64_t(Shape(shape.dtype, out.box.size).byte_count());
    const FileRecord& file = manifest.files[out.file];
    if (out.offset < file.header_bytes || out.offset > file.bytes ||
        bytes > file.bytes - out.offset ||
        out.hashes.size() != bytes / kHashedBytes + (bytes % kHashedBytes != 0)) {
      fail(what);
    }
    return out;
  }

  ArrayRecord array_of(const Json& json, const Manifest& manifest) const {
    ArrayRecord out;
    out.path = text(json, "path");
    const auto dtype = dtype_from_name(text(json, "dtype"));
    if (!dtype || *dtype == DType::token) fail("'" + text(json, "dtype") + "' is no dtype");
    out.shape = Shape(*dtype, counts(json, "shape"));
    try {
      (void)out.shape.byte_count();
    } catch (const ValueError& e) {
      fail(e.message());
    }
    out.weak = json_bool(json_member(json, "weak", who_), "weak", who_);
    if (json.contains("sharding")) {
      const Json& sharding = json["sharding"];
      ShardingRecord record;
      record.text = text(sharding, "text");
      record.memory_kind = text(sharding, "memory_kind");
      if (sharding.contains("mesh")) {
        record.mesh = std::size_t(count(sharding, "mesh"));
        record.spec = text(sharding, "spec");
        if (*record.mesh >= manifest.meshes.size()) fail("a sharding without its mesh");
      }
      out.sharding = std::move(record);
    }
    if (json.contains("same_as")) {
      out.same_as = std::size_t(count(json, "same_as"));
      if (*out.same_as >= manifest.arrays.size() || manifest.arrays[*out.same_as].same_as ||
          !(manifest.arrays[*out.same_as].shape == out.shape)) {
        fail("'" + out.path + "' is the same as an array that isn't there");
      }
      return out;
    }
    for (const Json& piece : json_list(json, "pieces", who_)) {
      out.pieces.push_back(piece_of(piece, out.shape, manifest));
    }
    return out;
  }

  const std::string& who_;
};

}  // namespace

std::string manifest_text(const Manifest& manifest, const std::string& who) {
  const std::string contents = json_text(json_of(manifest), who);
  std::string out(kBegin);
  out += std::to_string(kVersion);
  out += kHash;
  out += hash_of(contents);
  out += kContents;
  out += contents;
  out += kEnd;
  return out;
}

Manifest parse_manifest(std::string_view text, const std::string& who) {
  const auto skip = [&](std::string_view part) {
    if (text.substr(0, part.size()) != part) {
      throw IoError(who + " is damaged, or no manifest of a checkpoint: '" + std::string(part) +
                    "' was expected");
    }
    text.remove_prefix(part.size());
  };
  skip(kBegin);
  int version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc()) throw IoError(who + " is damaged: no version");
  if (version != kVersion) {
    throw IoError(
        fmt::format("{} is of version {} of the format; this version of Tessera reads "
                    "version {}",
                    who, version, kVersion));
  }
  text.remove_prefix(std::size_t(end - text.data()));
  skip(kHash);
  const std::string expected(text.substr(0, 32));
  text.remove_prefix(expected.size());
  skip(kContents);
  if (text.size() < kEnd.size() || text.substr(text.size() - kEnd.size()) != kEnd) {
    throw IoError(who + " is damaged: it is cut short");
  }
  text.remove_suffix(kEnd.size());
  if (const std::string found = hash_of(text); found != expected) {
    throw IoError(who + " is damaged: its contents have the checksum " + found + ", and " +
                  expected + " was expected");
  }
  return Reader(who).read(parse_json(text, 2 * kMaxTreeDepth + 8, who));
}

ShardingRecord record_sharding(const Sharding& sharding, std::vector<MeshRecord>* meshes) {
  ShardingRecord out;
  out.text = sharding.to_string();
  out.memory_kind = sharding.memory_kind();
  if (!NamedSharding::is(sharding)) return out;
  const NamedSharding named(sharding);
  out.spec = named.spec().to_string();
  MeshRecord mesh{
      named.mesh().axis_names(), named.mesh().axis_sizes(), {}, named.mesh().device_ids()};
  for (const AxisType t : named.mesh().axis_types()) mesh.axis_types.push_back(to_string(t));
  const auto known = std::find(meshes->begin(), meshes->end(), mesh);
  out.mesh = std::size_t(known - meshes->begin());
  if (known == meshes->end()) meshes->push_back(std::move(mesh));
  return out;
}

}  // namespace tessera::frontend
