// SPDX-License-Identifier: Apache-2.0
// The safetensors format: a JSON header, then the elements of named arrays, dense and row-major.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/arrays/shape.h"
#include "src/base/files/file_io.h"

namespace tessera {

/// One array of a file.
struct SafetensorsEntry {
  std::string name;
  Shape shape;
  /// Where its bytes begin in the file.
  std::uint64_t begin = 0;
  /// How many bytes it has there.
  std::uint64_t bytes = 0;
  /// Two elements a byte, the first in the lower bits: f4e2m1fn as other programs write it.
  bool packed = false;
};

struct SafetensorsHeader {
  /// In the order of the file.
  std::vector<SafetensorsEntry> entries;
  /// The texts of "__metadata__", without ours of dtypes.
  std::map<std::string, std::string> metadata;
  /// Where the data begin: the bytes of the header, its length included.
  std::uint64_t data_begin = 0;
};

/// The header of a file of these arrays, its length included, which ends at a multiple of 64. Sets
/// where each array begins: those with larger elements come first, so that all are aligned.
///
/// Types that the format lacks are written as one that has as many bytes: integers and floats of
/// less than 8 bits as I8 or U8 (one element a byte), other f8 types as U8, c128 as F64 with one
/// more dim of 2. The entry "tessera.dtypes" of the metadata says what they are.
/// ValueError, which begins with `who`, for two equal names, names or texts that aren't UTF-8,
/// tokens, and more than 100 MB of header, which other programs refuse.
std::string safetensors_header(std::vector<SafetensorsEntry>* entries,
                               const std::map<std::string, std::string>& metadata,
                               const std::string& who);

/// The number of bytes of the header, of which `first` are the first 8 or more. IoError if a file
/// of that size can't have it.
std::uint64_t safetensors_header_bytes(std::string_view first, std::uint64_t file_bytes,
                                       const std::string& who);
/// IoError if it isn't the header of a file of that size: all bytes of which belong to one array.
SafetensorsHeader parse_safetensors_header(std::string_view header, std::uint64_t file_bytes,
                                           const std::string& who);
SafetensorsHeader read_safetensors_header(const File& file);

/// Brings elements that may be anything into the form that the library expects: booleans are 0 or
/// 1, of types below 8 bits only the lower bits count.
void canonicalise(DType dtype, std::byte* elements, std::size_t count);

}  // namespace tessera
