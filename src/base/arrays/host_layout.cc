// SPDX-License-Identifier: Apache-2.0
// Copies between the host's layouts and dense parts.
#include "src/base/arrays/host_layout.h"

#include <cstring>
#include <type_traits>

#include "src/base/arrays/bit_width.h"
#include "src/base/arrays/small_elements.h"
#include "src/base/check.h"

namespace tessera {
namespace {

/// Of a packed type, 8 for all others: only widths that divide a byte are packed.
int packed_width(DType t) {
  const int bits = bit_width(t);
  return t != DType::pred && (bits == 1 || bits == 2 || bits == 4) ? bits : 8;
}

bool shares_bytes(const HostLayout& layout) {
  return layout.packed && packed_width(layout.dtype) < 8;
}

void check(const HostLayout& layout) {
  TESSERA_CHECK(layout.byte_strides.empty() ||
                    (layout.byte_strides.size() == layout.box.size.size() && !shares_bytes(layout)),
                "strides of a part: one a dim, and none of packed elements");
}

/// Calls f(offset in the layout, offset in the dense part) for each element of both, in elements of
/// the dense part and, in the layout, in bytes or packed elements.
template <class F>
void for_each_common(const HostLayout& layout, const Box& part, F f) {
  const Box both = common(layout.box, part);
  if (both.element_count() == 0) return;
  const std::size_t rank = both.size.size();
  Dims outer = layout.byte_strides;
  if (outer.empty()) {
    outer = row_major_strides(layout.box.size);
    if (!shares_bytes(layout)) {
      for (std::int64_t& s : outer) s *= std::int64_t(byte_size(layout.dtype));
    }
  }
  const Dims inner = row_major_strides(part.size);
  std::int64_t there = 0, here = 0;
  for (std::size_t d = 0; d < rank; ++d) {
    there += (both.start[d] - layout.box.start[d]) * outer[d];
    here += (both.start[d] - part.start[d]) * inner[d];
  }
  Dims at(rank, 0);
  while (true) {
    f(there, here);
    std::size_t d = rank;
    while (d > 0) {
      --d;
      there += outer[d];
      here += inner[d];
      if (++at[d] < both.size[d]) break;
      there -= both.size[d] * outer[d];
      here -= both.size[d] * inner[d];
      at[d] = 0;
      if (d == 0) return;
    }
    if (rank == 0) return;
  }
}

/// f(std::integral_constant) of the size of elements.
template <class F>
void with_size(std::size_t bytes, F f) {
  switch (bytes) {
    case 1:
      return f(std::integral_constant<std::size_t, 1>());
    case 2:
      return f(std::integral_constant<std::size_t, 2>());
    case 4:
      return f(std::integral_constant<std::size_t, 4>());
    case 8:
      return f(std::integral_constant<std::size_t, 8>());
    case 16:
      return f(std::integral_constant<std::size_t, 16>());
    default:
      TESSERA_CHECK(false, "an element of another size");
  }
}

/// A byte that holds the element as devices have it: signed integers with their sign.
std::byte unpacked(unsigned bits, DType t, int width) {
  const unsigned sign = 1U << (width - 1);
  if (is_signed_integer(t) && (bits & sign) != 0) bits |= 0xffU << width;
  return std::byte(bits & 0xffU);
}

}  // namespace

bool HostLayout::is_plain() const {
  if (shares_bytes(*this)) return false;
  if (byte_strides.empty()) return true;
  const Dims dense = row_major_strides(box.size);
  for (std::size_t d = 0; d < dense.size(); ++d) {
    // Of a dim of one element nobody takes a step.
    if (box.size[d] > 1 && byte_strides[d] != dense[d] * std::int64_t(byte_size(dtype))) {
      return box.element_count() == 0;
    }
  }
  return true;
}

std::size_t packed_bytes(DType dtype, std::int64_t elements) {
  const int width = packed_width(dtype);
  return width == 8 ? std::size_t(elements) * byte_size(dtype)
                    : (std::size_t(elements) * std::size_t(width) + 7) / 8;
}

bool stands_as_on_devices(DType dtype) { return packed_width(dtype) == 8; }

void settle_elements(DType dtype, std::byte* elements, std::size_t count) {
  const int width = packed_width(dtype);
  if (width == 8) return;
  const unsigned mask = (1U << width) - 1;
  for (std::size_t i = 0; i < count; ++i) {
    elements[i] = unpacked(unsigned(elements[i]) & mask, dtype, width);
  }
}

void copy_from_host(const std::byte* host, const HostLayout& held, std::byte* to, const Box& part) {
  check(held);
  const std::size_t element = byte_size(held.dtype);
  const int width = packed_width(held.dtype);
  if (held.is_plain() && width == 8) return copy_common(host, held.box, to, part, element);
  const unsigned mask = (1U << width) - 1;
  if (shares_bytes(held)) {
    for_each_common(held, part, [&](std::int64_t from, std::int64_t at) {
      const std::int64_t bit = from * width;
      const unsigned bits = (unsigned(host[bit / 8]) >> (bit % 8)) & mask;
      to[at] = unpacked(bits, held.dtype, width);
    });
    return;
  }
  if (width < 8) {
    // The other bits of a byte are the host's own.
    for_each_common(held, part, [&](std::int64_t from, std::int64_t at) {
      to[at] = unpacked(unsigned(host[from]) & mask, held.dtype, width);
    });
    return;
  }
  with_size(element, [&](auto size) {
    for_each_common(held, part, [&](std::int64_t from, std::int64_t at) {
      std::memcpy(to + at * std::int64_t(size()), host + from, size());
    });
  });
}

void copy_to_host(const std::byte* from, const Box& part, std::byte* host,
                  const HostLayout& requested) {
  check(requested);
  const std::size_t element = byte_size(requested.dtype);
  if (requested.is_plain()) return copy_common(from, part, host, requested.box, element);
  if (shares_bytes(requested)) {
    const int width = packed_width(requested.dtype);
    const unsigned mask = (1U << width) - 1;
    for_each_common(requested, part, [&](std::int64_t at, std::int64_t source) {
      const std::int64_t bit = at * width;
      const unsigned shift = unsigned(bit % 8);
      const unsigned others = unsigned(host[bit / 8]) & ~(mask << shift);
      host[bit / 8] = std::byte(others | ((unsigned(from[source]) & mask) << shift));
    });
    return;
  }
  with_size(element, [&](auto size) {
    for_each_common(requested, part, [&](std::int64_t at, std::int64_t source) {
      std::memcpy(host + at, from + source * std::int64_t(size()), size());
    });
  });
}

}  // namespace tessera
