// SPDX-License-Identifier: Apache-2.0
// The tables of an MLIR bytecode file: strings, dialects, names of operations, attributes, types.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/text/bytecode/bytes.h"

namespace tessera::text {

/// What the entries of a dialect are decoded by.
enum class BytecodeDialect : std::uint8_t { builtin, vhlo, stablehlo, chlo, sdy, quant, unknown };

/// A file whose sections were found and whose tables were read; the entries themselves and the
/// operations are still bytes. The bytes must outlive it.
class BytecodeFile {
 public:
  BytecodeFile(std::string_view bytes, const std::string& file);
  BytecodeFile(const BytecodeFile&) = delete;

  /// From this version of the format on.
  static constexpr std::uint64_t kDialectVersions = 1, kSectionsOfRegions = 2, kUseListOrders = 3,
                                 kElidedLocations = 4, kProperties = 5, kNativeSegmentSizes = 6,
                                 kNewest = 6;

  struct Dialect {
    std::string_view name;
    BytecodeDialect kind = BytecodeDialect::unknown;
  };
  struct OperationName {
    std::size_t dialect = 0;
    std::string_view name;   ///< without the dialect's
    bool registered = true;  ///< how its properties are encoded
  };
  /// An attribute or type.
  struct Entry {
    std::size_t dialect = 0;
    bool custom = false;  ///< encoded as the dialect does it; else text
    std::string_view data;
  };
  struct Resource {
    std::string_view key, data;
    std::uint8_t kind = 0;
  };

  BytecodeSource source;
  std::uint64_t version = 0;
  std::string_view producer;
  std::vector<std::string_view> strings;
  std::vector<Dialect> dialects;
  std::vector<OperationName> operations;
  std::vector<Entry> attributes, types;
  std::vector<std::string_view> properties;
  std::vector<Resource> resources;  ///< of dialects, by number
  std::string_view ir;

  BytecodeDialect dialect_of(const Entry& entry) const { return dialects[entry.dialect].kind; }
  ByteReader reader(std::string_view part) const { return {source, part}; }

 private:
  void read_strings(ByteReader in);
  void read_dialects(ByteReader in);
  void read_entries(ByteReader offsets, std::string_view data);
  void read_properties(ByteReader in);
  void read_resources(ByteReader offsets, std::string_view data);
};

}  // namespace tessera::text
