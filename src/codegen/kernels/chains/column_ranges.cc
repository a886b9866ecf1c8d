// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
// Looks through masks and numbers, a few bytes at a time.
#include "src/codegen/kernels/chains/column_ranges.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "src/codegen/kernels/elementwise/half_conversions.h"
#include "src/codegen/kernels/type_dispatch.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen {
namespace {

/// Ranges begin and end at multiples of this, for the sake of vectors.
constexpr std::int64_t kStep = 16;

/// Numbers of a row that are looked at before it is asked whether that is enough.
constexpr std::int64_t kTogether = 128;

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

struct SizeJob {
  const std::byte* numbers;
  std::int64_t count;
  std::uint32_t* largest;
};
/// The largest of numbers without their signs, as integers: f32, or 16-bit floats.
template <class T, int bytes>
TESSERA_INLINE void largest_bits(const SizeJob& job) {
  constexpr std::int64_t kLanes = bytes / std::int64_t(sizeof(T)) * 4;
  constexpr T kSize = std::numeric_limits<T>::max() >> 1;
  T largest[kLanes] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= job.count; k += kLanes) {
    T now[kLanes];
    std::memcpy(now, job.numbers + k * std::int64_t(sizeof(T)), sizeof now);
    for (std::int64_t l = 0; l < kLanes; ++l) {
      const auto size = T(now[l] & kSize);
      largest[l] = size > largest[l] ? size : largest[l];
    }
  }
  T out = 0;
  for (const T l : largest) out = std::max(out, l);
  for (; k < job.count; ++k) {
    T bits;
    std::memcpy(&bits, job.numbers + k * std::int64_t(sizeof(T)), sizeof bits);
    out = std::max(out, T(bits & kSize));
  }
  *job.largest = out;
}
TESSERA_VERSIONS(bits_version, largest_bits, SizeJob)
template <class T>
std::uint32_t bits_of_largest(const std::byte* numbers, std::int64_t count) {
  std::uint32_t out = 0;
  bits_version<T>()({numbers, count, &out});
  return out;
}

struct RowJob {
  const float* row;
  std::int64_t columns;
  float* largest;
};
/// Of a row; NaNs are left out.
template <class T, int bytes>
TESSERA_INLINE void largest_of(const RowJob& job) {
  using W = Vectors<T, bytes>;
  typename W::V largest = W::splat(0) - std::numeric_limits<T>::infinity();
  std::int64_t k = 0;
  for (; k + W::kLanes <= job.columns; k += W::kLanes) {
    const typename W::V x = W::load(job.row + k);
    largest = x > largest ? x : largest;
  }
  T out = largest[0];
  for (int l = 1; l < W::kLanes; ++l) out = std::max<T>(out, largest[l]);
  for (; k < job.columns; ++k) out = job.row[k] > out ? job.row[k] : out;
  *job.largest = out;
}
TESSERA_VERSIONS(largest_version, largest_of, RowJob)

struct FarJob {
  const float* row;
  std::int64_t columns;
  float far;
  bool* all;
};
/// Whether all of a row is below a number. NaNs aren't.
template <class T, int bytes>
TESSERA_INLINE void all_far(const FarJob& job) {
  using W = Vectors<T, bytes>;
  const typename W::V far = W::splat(job.far);
  auto near = far != far;
  std::int64_t k = 0;
  for (; k + W::kLanes <= job.columns; k += W::kLanes) near |= ~(W::load(job.row + k) < far);
  bool all = true;
  for (int l = 0; l < W::kLanes; ++l) all = all && near[l] == 0;
  for (; k < job.columns; ++k) all = all && job.row[k] < job.far;
  *job.all = all;
}
TESSERA_VERSIONS(far_version, all_far, FarJob)
bool is_far(const float* row, std::int64_t columns, float far) {
  bool out = false;
  far_version<float>()({row, columns, far, &out});
  return out;
}

/// The first of the elements that isn't below `far`, or one behind the last one.
std::int64_t first_near(const float* row, std::int64_t n, float far) {
  std::int64_t k = 0;
  while (k + kTogether <= n && is_far(row + k, kTogether, far)) k += kTogether;
  while (k < n && row[k] < far) ++k;
  return k;
}
std::int64_t last_near(const float* row, std::int64_t n, float far) {
  while (n >= kTogether && is_far(row + n - kTogether, kTogether, far)) n -= kTogether;
  while (n > 0 && row[n - 1] < far) --n;
  return n;
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
  return whole_vectors({std::min(first, last), last}, columns);
}

ColumnRange whole_vectors(const ColumnRange& range, std::int64_t columns) {
  ColumnRange out;
  out.first = range.first / kStep * kStep;
  out.last = std::min(columns, (std::max(range.last, out.first + 1) + kStep - 1) / kStep * kStep);
  return out;
}

void show_near(const float* row, std::int64_t columns, double size, ColumnRange* shown,
               float* largest) {
  // exp is zero below -104. Sums may be rounded as bf16, by a 256th at most.
  constexpr double kZero = 120, kRounded = 0.01;
  const bool any = shown->first < shown->last;
  const ColumnRange in = any ? *shown : ColumnRange{0, columns};
  const float before = std::exchange(*largest, -std::numeric_limits<float>::infinity());
  for (std::int64_t k = in.first; k < in.last && !(*largest >= before); k += kTogether) {
    float of_some = 0;
    largest_version<float>()({row + k, std::min(kTogether, in.last - k), &of_some});
    *largest = std::max(*largest, of_some);
  }
  const double most = *largest;
  const double limit = most - kRounded * std::fabs(most) - 2 * (1 + kRounded) * size - kZero;
  if (!std::isfinite(limit)) {
    *shown = {0, columns};
    return;
  }
  const auto far = float(std::min(limit, -1.0) / (1 - kRounded) * (1 + 1e-6));
  const std::int64_t first = first_near(row, any ? in.first : columns, far);
  const std::int64_t from = any ? in.last : first;
  *shown = {first, from + last_near(row + from, columns - from, far)};
}

double largest_size(DType t, const std::byte* numbers, std::int64_t count) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  float out = 0;
  std::uint32_t bits = 0;
  switch (t) {
    case DType::f32:
      bits = bits_of_largest<std::uint32_t>(numbers, count);
      break;
    case DType::bf16:
      bits = bits_of_largest<std::uint16_t>(numbers, count) << 16;
      break;
    case DType::f16: {
      const auto half = std::uint16_t(bits_of_largest<std::uint16_t>(numbers, count));
      lift_halves(t, reinterpret_cast<const std::byte*>(&half), 1, &out);
      std::memcpy(&bits, &out, sizeof bits);
      break;
    }
    default:
      return kInfinite;
  }
  std::memcpy(&out, &bits, sizeof out);
  return std::isfinite(out) ? double(out) : kInfinite;
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
  return for_size(kUnsigned, std::size_t(element_bytes), [&](auto tag) {
    return fill_row<typename decltype(tag)::type>(row, columns, shown, from);
  });
}

void fill_hidden(std::byte* row, std::int64_t columns, DType t, bool negative,
                 const ColumnRange& shown) {
  const auto fill = [&](auto value) {
    auto* elements = reinterpret_cast<decltype(value)*>(row);
    std::fill_n(elements, shown.first, value);
    std::fill_n(elements + shown.last, columns - shown.last, value);
  };
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  if (t == DType::f32) return fill(negative ? -kInfinite : kInfinite);
  fill(std::uint16_t((t == DType::bf16 ? 0x7f80 : 0x7c00) | (negative ? 0x8000 : 0)));
}

}  // namespace tessera::codegen
