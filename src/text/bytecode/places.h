// SPDX-License-Identifier: Apache-2.0
// Where in a bytecode file something stands, for messages.
#pragma once

#include <vector>

#include "src/text/bytecode/entries.h"
#include "src/text/bytecode/locations.h"
#include "src/text/read/cursor.h"

namespace tessera::text {

/// Places are bytes of the file or characters of the texts of its entries.
class BytecodePlaces final : public Places {
 public:
  BytecodePlaces(const BytecodeFile& file, const EntryTexts& texts, BytecodeLocations& locations)
      : file_(file), texts_(texts), locations_(locations) {}

  /// An operation that begins there is read.
  void begin(const char* at, std::string_view name, std::size_t location) {
    operations_.push_back({at, name, location});
  }
  /// All operations are read: what is met now may be of any.
  void finish() { reading_ = false; }

  /// The name of the operation that is read; empty before the first one.
  std::string_view reading() const {
    return operations_.empty() ? std::string_view() : operations_.back().name;
  }

  std::string placed(const char* where, const std::string& message) const override;
  Location location_at(const char* where) const override;

 private:
  struct Operation {
    const char* at;
    std::string_view name;
    std::size_t location;
  };
  /// The operation whose bytes these are, or that is read; null if it isn't known.
  const Operation* operation_at(const char* where) const;
  bool in_file(const char* where) const {
    return where >= file_.source.bytes.data() &&
           where <= file_.source.bytes.data() + file_.source.bytes.size();
  }

  const BytecodeFile& file_;
  const EntryTexts& texts_;
  BytecodeLocations& locations_;
  std::vector<Operation> operations_;
  bool reading_ = true;
};

}  // namespace tessera::text
