// SPDX-License-Identifier: Apache-2.0
// A position in MLIR bytecode, and the small things that are encoded at it.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::text {

/// The whole of a file, for messages.
struct BytecodeSource {
  struct Section {
    const char *begin, *end;
    const char* name;
  };
  std::string_view bytes;
  std::string file;
  std::vector<Section> sections = {};  ///< as far as they are known

  /// ParseError that names the byte.
  [[noreturn]] void fail_at(const char* where, const std::string& message) const;
  /// "byte 12 of model.mlirbc (properties): message"
  std::string placed(const char* where, const std::string& message) const;
};

/// Reads a part of a file, never behind its end.
class ByteReader {
 public:
  ByteReader() = default;
  ByteReader(const BytecodeSource& source, std::string_view part)
      : source_(&source), p_(part.data()), end_(part.data() + part.size()) {}

  bool empty() const { return p_ == end_; }
  std::size_t left() const { return std::size_t(end_ - p_); }
  const char* position() const { return p_; }

  std::uint8_t byte() {
    if (p_ == end_) fail_short();
    return static_cast<std::uint8_t>(*p_++);
  }
  /// The low bits of the first byte count the bytes that follow: a one ends them.
  std::uint64_t varint() {
    if (p_ != end_ && (*p_ & 1) != 0) return static_cast<std::uint8_t>(*p_++) >> 1;
    return long_varint();
  }
  std::int64_t signed_varint() {
    const std::uint64_t v = varint();
    return std::int64_t((v >> 1) ^ (0 - (v & 1)));
  }
  /// A number with a flag in its lowest bit.
  std::uint64_t flagged(bool* flag) {
    const std::uint64_t v = varint();
    *flag = (v & 1) != 0;
    return v >> 1;
  }
  /// How many items follow, each of which takes a byte at least.
  std::size_t count(const char* what) {
    const char* at = p_;
    return checked_count(varint(), at, what);
  }
  std::size_t checked_count(std::uint64_t n, const char* at, const char* what) const {
    if (n > left()) fail_count(n, at, what);
    return std::size_t(n);
  }
  /// An index into a table of `size` entries.
  std::size_t index(std::size_t size, const char* what) {
    const char* at = p_;
    return checked_index(varint(), size, at, what);
  }
  std::size_t checked_index(std::uint64_t n, std::size_t size, const char* at,
                            const char* what) const {
    if (n >= size) fail_index(n, size, at, what);
    return std::size_t(n);
  }
  std::string_view bytes(std::uint64_t n) {
    if (n > left()) fail_short();
    const std::string_view out(p_, std::size_t(n));
    p_ += n;
    return out;
  }
  /// A number of bytes and these.
  std::string_view blob() { return bytes(varint()); }
  /// Up to a zero, which is passed over.
  std::string_view terminated();
  /// A section's contents.
  std::string_view section(std::uint8_t* id);
  /// Passes over the fill bytes before the next multiple, counted from the begin of the file.
  void align(std::uint64_t alignment);

  [[noreturn]] void fail_at(const char* where, const std::string& message) const {
    source_->fail_at(where, message);
  }
  [[noreturn]] void fail(const std::string& message) const { source_->fail_at(p_, message); }

 private:
  std::uint64_t long_varint();
  [[noreturn]] void fail_short() const;
  [[noreturn]] void fail_count(std::uint64_t n, const char* at, const char* what) const;
  [[noreturn]] void fail_index(std::uint64_t n, std::size_t size, const char* at,
                               const char* what) const;

  const BytecodeSource* source_ = nullptr;
  const char* p_ = nullptr;
  const char* end_ = nullptr;
};

}  // namespace tessera::text
