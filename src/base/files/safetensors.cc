// SPDX-License-Identifier: Apache-2.0
// Headers of safetensors files, written and read.
#include "src/base/files/safetensors.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "src/base/arrays/bit_width.h"
#include "src/base/arrays/dtype_names.h"
#include "src/base/files/json_text.h"

namespace tessera {

namespace {

static_assert(std::endian::native == std::endian::little, "files are written in this byte order");

/// What other programs read and write at most.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::size_t kMaxJsonDepth = 8;
constexpr std::size_t kMaxDims = 64;
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kDtypes = "tessera.dtypes";

/// The type of the format as which one that it lacks is written.
std::string_view stand_in(DType dtype) {
  if (dtype == DType::c128) return "F64";
  return is_signed_integer(dtype) ? "I8" : "U8";
}

/// Whether elements of the type that the file states may be of that one.
bool may_stand_for(std::string_view format, DType dtype) {
  return dtype != DType::token && safetensors_name(dtype).empty() && format == stand_in(dtype);
}

IoError bad(const std::string& who, const std::string& what) {
  return IoError(who + ": this is no safetensors file: " + what);
}

std::string in_quotes(const std::string& name) {
  return "'" + (name.size() > 200 ? name.substr(0, 200) + "..." : name) + "'";
}

}  // namespace

std::string safetensors_header(std::vector<SafetensorsEntry>* entries,
                               const std::map<std::string, std::string>& metadata,
                               const std::string& who) {
  std::vector<std::size_t> order(entries->size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return byte_size((*entries)[a].shape.dtype) > byte_size((*entries)[b].shape.dtype);
  });
  Json header = Json::object(), dtypes = Json::object(), texts = Json::object();
  std::uint64_t at = 0;
  for (const std::size_t i : order) {
    SafetensorsEntry& e = (*entries)[i];
    const DType dtype = e.shape.dtype;
    if (!e.shape.is_array()) throw ValueError(who + ": " + in_quotes(e.name) + " is no array");
    if (e.name == kMetadata || header.contains(e.name)) {
      throw ValueError(who + ": two arrays, or an array and the metadata, have the name " +
                       in_quotes(e.name));
    }
    e.begin = at;
    e.bytes = std::uint64_t(e.shape.byte_count());
    e.packed = false;
    at += e.bytes;
    Dims dims = e.shape.dims;
    std::string_view type = safetensors_name(dtype);
    if (type.empty()) {
      type = stand_in(dtype);
      if (dtype == DType::c128) dims.push_back(2);
      dtypes[e.name] = std::string(name(dtype));
    }
    header[e.name] = {{"dtype", type}, {"shape", dims}, {"data_offsets", {e.begin, at}}};
  }
  for (const auto& [key, text] : metadata) texts[key] = text;
  if (!dtypes.empty()) texts[kDtypes] = json_text(dtypes, who);
  if (!texts.empty()) header[kMetadata] = std::move(texts);
  std::string json = json_text(header, who);
  json.append((64 - (8 + json.size()) % 64) % 64, ' ');
  if (json.size() > kMaxHeaderBytes) {
    throw ValueError(who + ": the header would have " + std::to_string(json.size()) +
                     " bytes, and programs read at most " + std::to_string(kMaxHeaderBytes));
  }
  std::string out(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) out[i] = char(std::uint64_t(json.size()) >> (8 * i) & 0xff);
  out += json;
  for (SafetensorsEntry& e : *entries) e.begin += out.size();
  return out;
}

std::uint64_t safetensors_header_bytes(std::string_view first, std::uint64_t file_bytes,
                                       const std::string& who) {
  if (first.size() < 8 || file_bytes < 8) throw bad(who, "it has less than 8 bytes");
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(first[i]);
  if (length > kMaxHeaderBytes) {
    throw bad(who, "its header would have " + std::to_string(length) + " bytes; at most " +
                       std::to_string(kMaxHeaderBytes) + " are read");
  }
  if (length > file_bytes - 8) {
    throw bad(who, "its header would have " + std::to_string(length) + " bytes, and " +
                       std::to_string(file_bytes - 8) + " follow");
  }
  return 8 + length;
}

namespace {

SafetensorsEntry parse_entry(const std::string& name, const Json& json, const Json& dtypes,
                             std::uint64_t data_begin, const std::string& who) {
  const std::string mine = who + ": " + in_quotes(name);
  SafetensorsEntry out;
  out.name = name;
  const std::string& type = json_string(json_member(json, "dtype", mine), "dtype", mine);
  Dims dims;
  for (const Json& d : json_list(json, "shape", mine)) dims.push_back(json_count(d, "shape", mine));
  if (dims.size() > kMaxDims) {
    throw bad(mine, "an array of " + std::to_string(dims.size()) + " dimensions");
  }
  std::optional<DType> dtype = dtype_from_safetensors(type);
  if (const auto said = dtypes.find(name); said != dtypes.end()) {
    const std::string& ours = json_string(*said, kDtypes, mine);
    dtype = dtype_from_name(ours);
    if (!dtype || !may_stand_for(type, *dtype) ||
        (*dtype == DType::c128 && (dims.empty() || dims.back() != 2))) {
      throw bad(mine, "its metadata say that elements of " + type + " are " + ours);
    }
    if (*dtype == DType::c128) dims.pop_back();
  } else if (type == "F4") {
    dtype = DType::f4e2m1fn;
    out.packed = true;
  }
  if (type == "F6_E2M3" || type == "F6_E3M2") {
    throw IoError(
        mine + " has elements of type " + type +
        ", four of which lie in three bytes, which isn't read; valid: U8 with one element "
        "a byte, as tessera.dtypes in the metadata says");
  }
  if (!dtype) {
    throw IoError(mine + " has elements of type " + type + ", which arrays here lack");
  }
  out.shape = Shape(*dtype, std::move(dims));
  try {
    out.bytes = std::uint64_t(out.shape.byte_count());
  } catch (const ValueError& e) {
    throw bad(mine, e.message());
  }
  if (out.packed) {
    if (out.bytes % 2 != 0) throw bad(mine, "an odd number of elements of 4 bits");
    out.bytes /= 2;
  }
  const Json& offsets = json_list(json, "data_offsets", mine);
  if (offsets.size() != 2) throw bad(mine, "data_offsets isn't a pair");
  const std::uint64_t begin = std::uint64_t(json_count(offsets[0], "data_offsets", mine)),
                      end = std::uint64_t(json_count(offsets[1], "data_offsets", mine));
  if (end < begin || end - begin != out.bytes) {
    throw bad(mine, out.shape.to_string() + " takes " + std::to_string(out.bytes) +
                        " bytes, and its offsets are " + std::to_string(begin) + " and " +
                        std::to_string(end));
  }
  // Offsets are below 2^63, and the header is short.
  out.begin = data_begin + begin;
  return out;
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view header, std::uint64_t file_bytes,
                                           const std::string& who) {
  SafetensorsHeader out;
  out.data_begin = safetensors_header_bytes(header, file_bytes, who);
  if (header.size() < out.data_begin) throw bad(who, "its header is cut short");
  const std::string_view text = header.substr(8, std::size_t(out.data_begin) - 8);
  if (text.empty() || text[0] != '{') throw bad(who, "its header doesn't begin with {");
  const Json json = parse_json(text, kMaxJsonDepth, who + ": the header of this safetensors file");
  Json dtypes = Json::object();
  if (const auto meta = json.find(kMetadata); meta != json.end()) {
    if (!meta->is_object()) throw bad(who, "__metadata__ is no object");
    for (const auto& [key, value] : meta->items()) {
      const std::string& text_of_key = json_string(value, key.c_str(), who + ": __metadata__");
      if (key == kDtypes) {
        dtypes = parse_json(text_of_key, kMaxJsonDepth, who + ": " + kDtypes);
        if (!dtypes.is_object()) throw bad(who, std::string(kDtypes) + " is no object");
      } else {
        out.metadata.emplace(key, text_of_key);
      }
    }
  }
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadata) continue;
    out.entries.push_back(parse_entry(name, value, dtypes, out.data_begin, who));
  }
  std::stable_sort(out.entries.begin(), out.entries.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return a.begin != b.begin ? a.begin < b.begin : a.bytes < b.bytes;
                   });
  std::uint64_t at = out.data_begin;
  for (const SafetensorsEntry& e : out.entries) {
    if (e.begin != at) {
      throw bad(who, in_quotes(e.name) + " begins at byte " + std::to_string(e.begin) +
                         " of the file, and " + std::to_string(at) +
                         " was expected: arrays overlap, or there is a gap");
    }
    at += e.bytes;
    if (at > file_bytes) {
      throw IoError(who + ": the file is cut short: it has " + std::to_string(file_bytes) +
                    " bytes, and " + in_quotes(e.name) + " ends at " + std::to_string(at));
    }
  }
  if (at != file_bytes) {
    throw bad(who, "it has " + std::to_string(file_bytes) + " bytes, and its arrays end at " +
                       std::to_string(at));
  }
  return out;
}

SafetensorsHeader read_safetensors_header(const File& file) {
  const std::uint64_t file_bytes = file.size();
  std::string header(std::size_t(std::min<std::uint64_t>(8, file_bytes)), '\0');
  const auto fill = [&](std::size_t from) {
    auto to = std::as_writable_bytes(std::span(header)).subspan(from);
    if (file.read_at(from, to) != to.size()) {
      throw IoError(file.path() + ": the file was cut short while it was read");
    }
  };
  fill(0);
  header.resize(std::size_t(safetensors_header_bytes(header, file_bytes, file.path())));
  fill(8);
  return parse_safetensors_header(header, file_bytes, file.path());
}

void canonicalise(DType dtype, std::byte* elements, std::size_t count) {
  const auto each = [&](auto f) {
    for (std::size_t i = 0; i < count; ++i) elements[i] = f(elements[i]);
  };
  const int bits = bit_width(dtype);
  if (bits >= 8) return;
  if (dtype == DType::pred) {
    each([](std::byte b) { return std::byte(b != std::byte{0}); });
  } else if (is_signed_integer(dtype)) {
    each([shift = 8 - bits](std::byte b) {
      return std::byte(std::int8_t(std::int8_t(std::uint8_t(std::uint8_t(b) << shift)) >> shift));
    });
  } else {
    each([mask = std::byte((1 << bits) - 1)](std::byte b) { return b & mask; });
  }
}

}  // namespace tessera
