// SPDX-License-Identifier: Apache-2.0
// The encodings of MLIR bytecode: numbers, blobs, sections.
#include "src/text/bytecode/bytes.h"

#include <tessera/error.h>

#include "src/text/bytecode/sections.h"

namespace tessera::text {
namespace {

constexpr std::uint8_t kFill = 0xCB;
constexpr std::uint64_t kMaxAlignment = 1 << 16;

}  // namespace

std::string BytecodeSource::placed(const char* where, const std::string& message) const {
  std::string out = "byte " + std::to_string(where - bytes.data()) + " of " + file;
  for (const Section& s : sections) {
    // Where one ends something is missing in it.
    if (where >= s.begin && where <= s.end) return out + " (" + s.name + "): " + message;
  }
  return out + ": " + message;
}

void BytecodeSource::fail_at(const char* where, const std::string& message) const {
  throw ParseError(placed(where, message));
}

std::uint64_t ByteReader::long_varint() {
  if (p_ == end_) fail_short();
  const auto first = static_cast<std::uint8_t>(*p_);
  const int more = first == 0 ? 8 : std::countr_zero(first);
  if (std::size_t(more) >= left()) fail_short();
  std::uint64_t v = 0;
  if (more == 8) {
    std::memcpy(&v, p_ + 1, 8);
  } else {
    // Little-endian machines only, as all of Tessera.
    std::memcpy(&v, p_, std::size_t(more) + 1);
    v >>= more + 1;
  }
  p_ += more + 1;
  return v;
}

std::string_view ByteReader::terminated() {
  const void* found = std::memchr(p_, 0, left());
  if (found == nullptr) fail("this text has no end (expected a zero byte)");
  const std::string_view out(p_, std::size_t(static_cast<const char*>(found) - p_));
  p_ += out.size() + 1;
  return out;
}

void ByteReader::align(std::uint64_t alignment) {
  if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) {
    fail("an alignment of " + std::to_string(alignment) + " bytes; valid: powers of 2 up to " +
         std::to_string(kMaxAlignment));
  }
  while ((std::uint64_t(p_ - source_->bytes.data()) & (alignment - 1)) != 0) {
    if (byte() != kFill) fail_at(p_ - 1, "expected a fill byte (0xCB) before aligned data");
  }
}

std::string_view ByteReader::section(std::uint8_t* id) {
  const std::uint8_t first = byte();
  *id = first & 0x7f;
  const std::uint64_t size = varint();
  if ((first & 0x80) != 0) align(varint());
  if (size > left()) {
    const bool known = *id < std::size(kSectionNames);
    fail("the section of " + (known ? kSectionNames[*id] : "number " + std::to_string(*id)) +
         " has " + std::to_string(size) + " bytes, of which " + std::to_string(left()) +
         " are there: the file is cut off or damaged");
  }
  return bytes(size);
}

void ByteReader::fail_short() const {
  fail("the bytes end in the middle of this: the file is cut off or damaged");
}

void ByteReader::fail_count(std::uint64_t n, const char* at, const char* what) const {
  fail_at(at, std::to_string(n) + " " + what + ", for which the " + std::to_string(left()) +
                  " bytes that are left don't suffice: the file is damaged");
}

void ByteReader::fail_index(std::uint64_t n, std::size_t size, const char* at,
                            const char* what) const {
  fail_at(at, std::string("it names ") + what + " number " + std::to_string(n) + " of " +
                  std::to_string(size) + ": the file is damaged");
}

}  // namespace tessera::text
