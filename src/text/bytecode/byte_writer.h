// SPDX-License-Identifier: Apache-2.0
// Writes the small things that MLIR bytecode is made of; bytes.h reads them.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::text {

class ByteWriter {
 public:
  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }

  void byte(std::uint8_t v) { bytes_ += char(v); }
  void varint(std::uint64_t v) {
    if (v < 0x80) return byte(std::uint8_t(v << 1 | 1));
    // Seven bits of each byte; the ones of the lowest bits say how many there are.
    const int size = (std::bit_width(v) + 6) / 7;
    if (size > 8) {
      byte(0);
      return fixed(v, 8);
    }
    fixed(((v << 1) | 1) << (size - 1), size);
  }
  void signed_varint(std::int64_t v) { varint((std::uint64_t(v) << 1) ^ std::uint64_t(v >> 63)); }
  /// A number with a flag in its lowest bit.
  void flagged(std::uint64_t v, bool flag) { varint(v << 1 | (flag ? 1 : 0)); }
  void append(std::string_view bytes) { bytes_ += bytes; }
  void blob(std::string_view bytes) {
    varint(bytes.size());
    append(bytes);
  }
  /// A section of that number.
  void section(std::uint8_t id, std::string_view contents) {
    byte(id);
    blob(contents);
  }

 private:
  // Little-endian, as all of Tessera.
  void fixed(std::uint64_t v, int size) {
    for (int n = 0; n < size; ++n) byte(std::uint8_t(v >> (8 * n)));
  }

  std::string bytes_;
};

}  // namespace tessera::text
