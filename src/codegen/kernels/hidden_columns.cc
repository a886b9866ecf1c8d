// SPDX-License-Identifier: Apache-2.0
// Looks through masks and numbers, a few bytes at a time.
#include "src/codegen/kernels/hidden_columns.h"

#include <algorithm>
#include <cstring>

namespace tessera::codegen {
namespace {

/// Ranges begin and end at multiples of this, for the sake of vectors.
constexpr std::int64_t kStep = 16;

/// The first one of `n` bytes that isn't `value`, or n.
std::int64_t first_other(const std::byte* bytes, std::int64_t n, std::uint8_t value) {
  std::uint64_t all;
  std::memset(&all, value, sizeof all);
  std::int64_t k = 0;
  for (; k + 8 <= n; k += 8) {
    std::uint64_t eight;
    std::memcpy(&eight, bytes + k, sizeof eight);
    if (eight != all) break;
  }
  while (k < n && bytes[k] == std::byte(value)) ++k;
  return k;
}
/// One behind the last one that isn't, or 0.
std::int64_t last_other(const std::byte* bytes, std::int64_t n, std::uint8_t value) {
  std::uint64_t all;
  std::memset(&all, value, sizeof all);
  for (; n >= 8; n -= 8) {
    std::uint64_t eight;
    std::memcpy(&eight, bytes + n - 8, sizeof eight);
    if (eight != all) break;
  }
  while (n > 0 && bytes[n - 1] == std::byte(value)) --n;
  return n;
}

template <class Bits>
bool exponents_below(const std::byte* numbers, std::int64_t count, Bits exponent, Bits limit) {
  constexpr std::int64_t kBlock = 4096;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, count - begin);
    Bits largest = 0;
    for (std::int64_t k = 0; k < n; ++k) {
      Bits bits;
      std::memcpy(&bits, numbers + (begin + k) * std::int64_t(sizeof(Bits)), sizeof bits);
      largest = std::max<Bits>(largest, bits & exponent);
    }
    if (largest >= limit) return false;
  }
  return true;
}

template <class Bits>
bool fill_row(std::byte* row, std::int64_t columns, const ColumnRange& shown, std::int64_t from) {
  auto* elements = reinterpret_cast<Bits*>(row);
  const Bits value = elements[from];
  std::fill_n(elements, shown.first, value);
  std::fill_n(elements + shown.last, columns - shown.last, value);
  // Of floats, either zero.
  return Bits(value << 1) == 0;
}

}  // namespace

ColumnRange shown_columns(const std::byte* mask, std::int64_t rows, std::int64_t columns,
                          bool hides) {
  const auto value = std::uint8_t(hides);
  std::int64_t first = columns, last = 0;
  for (std::int64_t r = 0; r < rows; ++r, mask += columns) {
    first = std::min(first, first_other(mask, first, value));
    last += last_other(mask + last, columns - last, value);
  }
  ColumnRange out;
  out.first = std::min(first, last) / kStep * kStep;
  out.last = std::min(columns, (std::max(last, out.first + 1) + kStep - 1) / kStep * kStep);
  return out;
}

bool moderate(DType t, const std::byte* numbers, std::int64_t count) {
  switch (t) {
    case DType::f32:
      return exponents_below<std::uint32_t>(numbers, count, 0x7f800000u, (127u + 63) << 23);
    case DType::bf16:
      return exponents_below<std::uint16_t>(numbers, count, 0x7f80, (127 + 63) << 7);
    case DType::f16:
      return exponents_below<std::uint16_t>(numbers, count, 0x7c00, 0x7c00);
    case DType::f64:
      return exponents_below<std::uint64_t>(numbers, count, std::uint64_t(0x7ff) << 52,
                                            std::uint64_t(1023 + 63) << 52);
    default:
      return false;
  }
}

bool fill_hidden(std::byte* row, std::int64_t columns, int element_bytes, const ColumnRange& shown,
                 std::int64_t from) {
  switch (element_bytes) {
    case 1:
      return fill_row<std::uint8_t>(row, columns, shown, from);
    case 2:
      return fill_row<std::uint16_t>(row, columns, shown, from);
    case 4:
      return fill_row<std::uint32_t>(row, columns, shown, from);
    default:
      return fill_row<std::uint64_t>(row, columns, shown, from);
  }
}

}  // namespace tessera::codegen
