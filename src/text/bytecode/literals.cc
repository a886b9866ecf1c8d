// SPDX-License-Identifier: Apache-2.0
// Constants in bytecode: raw elements, one for all, truth values as bits.
#include <charconv>
#include <cstring>

#include "src/base/arrays/small_floats.h"
#include "src/text/bytecode/reader.h"

namespace tessera::text {
namespace {

/// Integers of less than a byte fill it with their sign, or with zeros.
void fill_bytes(DType dtype, std::byte* bytes, std::size_t count) {
  const int width = dtype == DType::s4 || dtype == DType::u4   ? 4
                    : dtype == DType::s2 || dtype == DType::u2 ? 2
                    : dtype == DType::s1 || dtype == DType::u1 ? 1
                                                               : 8;
  if (width == 8) return;
  const int shift = 8 - width;
  for (std::size_t i = 0; i < count; ++i) {
    const auto high = std::uint8_t(std::to_integer<unsigned>(bytes[i]) << shift);
    bytes[i] = is_signed_integer(dtype) ? std::byte(std::uint8_t(std::int8_t(high) >> shift))
                                        : std::byte(std::uint8_t(high >> shift));
  }
}

/// A byte for each bit, the lowest first.
void spread_bits(std::string_view bits, std::byte* to, std::size_t count) {
  std::size_t n = 0;
  for (; n + 8 <= count; n += 8) {
    // The byte eight times; of each copy another bit; a bit that is set carries to the highest.
    std::uint64_t v = static_cast<unsigned char>(bits[n / 8]) * 0x0101010101010101u;
    v &= 0x8040201008040201u;
    v = (((v + 0x7f7f7f7f7f7f7f7fu) | v) >> 7) & 0x0101010101010101u;
    std::memcpy(to + n, &v, 8);
  }
  for (; n < count; ++n) {
    to[n] = std::byte(static_cast<unsigned char>(bits[n / 8]) >> (n % 8) & 1);
  }
}

}  // namespace

// The blob of the attribute whose number comes next in quotes.
Literal BytecodeReader::resource_literal(const Shape& type) {
  const char* start = in_.position();
  const std::string_view digits = in_.raw_string("a number of an attribute");
  std::size_t n = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (n >= file_.attributes.size()) in_.fail_at(start, "there is no such constant");
  return elements(blob_of(n, start), type, start);
}

std::string_view BytecodeReader::blob_of(std::size_t n, const char* at) {
  constexpr std::uint64_t kResourceElements = 16;
  constexpr std::uint8_t kBlob = 0;
  const BytecodeFile::Entry& e = file_.attributes[n];
  ByteReader entry = file_.reader(e.data);
  const std::uint64_t code = entry.varint();
  entry.varint();  // the type
  if (file_.dialect_of(e) != BytecodeDialect::builtin || code != kResourceElements) {
    return entry.blob();
  }
  const BytecodeFile::Resource& r =
      file_.resources[entry.index(file_.resources.size(), "resource")];
  if (r.kind != kBlob || r.data.empty()) {
    in_.fail_at(at, "resource '" + std::string(r.key) + "' is no constant of this file");
  }
  ByteReader resource = file_.reader(r.data);
  const std::uint64_t alignment = resource.varint();
  const std::uint64_t size = resource.varint();
  resource.align(alignment);
  return resource.bytes(size);
}

Literal BytecodeReader::elements(std::string_view bytes, const Shape& type, const char* at) {
  const auto count = std::size_t(type.element_count());
  const std::size_t width = byte_size(type.dtype);
  const bool truth = type.dtype == DType::pred;
  const bool splat = truth ? is_truth_splat(bytes, count) : bytes.size() == width && count != 1;
  const std::size_t whole = truth ? (count + 7) / 8 : width * count;
  if (!splat && bytes.size() != whole && !(truth && bytes.size() == count)) {
    in_.fail_at(at, "a constant of " + std::to_string(bytes.size()) + " bytes for " +
                        mlir_type(type) + "; expected " + std::to_string(whole));
  }
  Literal out(splat ? Shape(type.dtype, {}) : type);
  std::byte* to = out.mutable_bytes();
  if (truth) {
    if (!splat && bytes.size() == whole) {
      spread_bits(bytes, to, count);
    } else {
      const std::size_t n = splat ? 1 : count;
      for (std::size_t i = 0; i < n; ++i) to[i] = std::byte(truth_at(bytes, count, i));
    }
    return out;
  }
  std::memcpy(to, bytes.data(), bytes.size());
  fill_bytes(type.dtype, to, bytes.size());
  if (!is_small_float(type.dtype) || small_float_width(type.dtype) == 8) return out;
  const int bits = small_float_width(type.dtype);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (std::to_integer<int>(to[i]) >> bits == 0) continue;
    in_.fail_at(at, "expected elements of " + std::to_string(bits) + " bits, one a byte, for " +
                        mlir_type(type));
  }
  return out;
}

}  // namespace tessera::text
