// SPDX-License-Identifier: Apache-2.0
// The locations of a bytecode file.
#pragma once

#include <vector>

#include "src/ir/module.h"
#include "src/text/bytecode/file.h"

namespace tessera::text {

/// What locations say of the user's program, as the reader of text takes it: the first name, and
/// the first file with its line. Each is read once.
class BytecodeLocations {
 public:
  explicit BytecodeLocations(const BytecodeFile& file)
      : file_(file), known_(file.attributes.size()), read_(file.attributes.size()) {}

  /// Of the attribute of that number; empty if it is no location.
  const Cow<ir::Metadata>& of(std::size_t attribute);
  bool is_read(std::size_t attribute) const { return read_[attribute]; }

 private:
  ir::Metadata read(std::size_t attribute, int depth);
  std::string string_of(ByteReader& in) const;

  const BytecodeFile& file_;
  std::vector<Cow<ir::Metadata>> known_;
  std::vector<bool> read_;
};

}  // namespace tessera::text
