// SPDX-License-Identifier: Apache-2.0
// Orders of the dims of arrays in memory.
#include "src/pjrt/memory_layout.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>

#include "src/pjrt/objects.h"

namespace tessera::pjrt {
namespace {

PJRT_Layouts_MemoryLayout described(Dims minor_to_major) {
  std::string text = "{" + join(minor_to_major) + "}";
  return {std::move(minor_to_major), std::move(text)};
}

Dims row_major(std::size_t rank) {
  Dims out(rank);
  std::iota(out.rbegin(), out.rend(), std::int64_t(0));
  return out;
}

/// Byte strides of a dense array of that layout.
Dims strides_of(const Shape& shape, const Dims& layout) {
  Dims out(shape.dims.size(), 0);
  std::int64_t stride = std::int64_t(byte_size(shape.dtype));
  for (const std::int64_t d : layout.empty() ? row_major(out.size()) : layout) {
    out[std::size_t(d)] = stride;
    const std::int64_t extent = std::max<std::int64_t>(1, shape.dims[std::size_t(d)]);
    // Those of an array without elements are never used.
    if (__builtin_mul_overflow(stride, extent, &stride)) stride = 0;
  }
  return out;
}

Dims layout_of_strides(const Shape& shape, const PJRT_Buffer_MemoryLayout_Strides& given) {
  check_list(given.byte_strides, given.num_byte_strides, "strides");
  if (given.num_byte_strides != shape.dims.size()) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                  std::to_string(given.num_byte_strides) + " strides for " + shape.to_string());
  }
  Dims order = row_major(shape.dims.size());
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return given.byte_strides[a] < given.byte_strides[b];
  });
  const Dims dense = strides_of(shape, order);
  for (std::size_t d = 0; d < dense.size(); ++d) {
    if (shape.dims[d] > 1 && dense[d] != given.byte_strides[d]) {
      throw Failure(PJRT_Error_Code_UNIMPLEMENTED,
                    "a layout of strides [" + join({given.byte_strides, dense.size()}) + "] for " +
                        shape.to_string() + "; arrays are dense");
    }
  }
  return order;
}

/// The order of the dims that have more than one element.
Dims order_that_matters(const Shape& s) {
  Dims out;
  for (const std::int64_t d : s.layout.empty() ? row_major(s.dims.size()) : s.layout) {
    if (s.dims[std::size_t(d)] != 1) out.push_back(d);
  }
  return out;
}

}  // namespace

PJRT_Layouts_MemoryLayout& row_major_layout(std::size_t rank) {
  static constexpr std::size_t kRanks = 33;
  static auto& all = *new std::array<PJRT_Layouts_MemoryLayout, kRanks>([] {
    std::array<PJRT_Layouts_MemoryLayout, kRanks> out;
    for (std::size_t r = 0; r < kRanks; ++r) out[r] = described(row_major(r));
    return out;
  }());
  if (rank >= kRanks) {
    throw Failure(PJRT_Error_Code_UNIMPLEMENTED, "layouts of arrays of more than 32 dims");
  }
  return all[rank];
}

PJRT_Layouts_MemoryLayout& memory_layout(const Shape& shape) {
  if (shape.layout.empty()) return row_major_layout(shape.dims.size());
  static auto& lock = *new std::mutex;
  static auto& all = *new std::map<Dims, std::unique_ptr<PJRT_Layouts_MemoryLayout>>;
  const std::lock_guard hold(lock);
  auto& out = all[shape.layout];
  if (!out) out = std::make_unique<PJRT_Layouts_MemoryLayout>(described(shape.layout));
  return *out;
}

Dims checked_layout(const Shape& shape, Dims minor_to_major) {
  Dims sorted = minor_to_major;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.size() != shape.dims.size() || !is_identity_order(sorted)) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                  "the layout {" + join(minor_to_major) + "} is no order of the dims of " +
                      shape.to_string() + "; valid: each of 0 to " +
                      std::to_string(shape.dims.size()) + " (excluded) once, the fastest first");
  }
  if (is_row_major(minor_to_major)) minor_to_major.clear();
  return minor_to_major;
}

Dims layout_of(const Shape& shape, const PJRT_Buffer_MemoryLayout* layout) {
  if (layout == nullptr) return {};
  if (layout->type == PJRT_Buffer_MemoryLayout_Type_Strides) {
    return checked_layout(shape, layout_of_strides(shape, layout->strides));
  }
  if (layout->tiled.num_tiles != 0) {
    throw Failure(PJRT_Error_Code_UNIMPLEMENTED, "tiled layouts; arrays are dense");
  }
  const std::int64_t* const order = layout->tiled.minor_to_major;
  check_list(order, layout->tiled.minor_to_major_size, "minor_to_major");
  return checked_layout(shape, Dims(order, order + layout->tiled.minor_to_major_size));
}

bool same_layout(const Shape& a, const Shape& b) {
  return a.layout == b.layout || order_that_matters(a) == order_that_matters(b);
}

Dims stored(const Dims& dims, const Dims& layout) {
  if (layout.empty()) return dims;
  Dims out;
  for (std::size_t k = layout.size(); k-- > 0;) out.push_back(dims[std::size_t(layout[k])]);
  return out;
}

Shape stored(const Shape& shape) { return Shape(shape.dtype, stored(shape.dims, shape.layout)); }

Dims seen(const Dims& dims, const Dims& layout) {
  Dims out = dims;
  for (std::size_t k = 0; k < layout.size(); ++k) {
    out[std::size_t(layout[layout.size() - 1 - k])] = dims[k];
  }
  return out;
}

Shape seen(const Shape& s, const Dims& layout) {
  if (layout.empty()) return s;
  Shape out(s.dtype, seen(s.dims, layout));
  out.layout = layout;
  return out;
}

TensorSharding stored(TensorSharding sharding, const Dims& layout) {
  if (layout.size() != sharding.dims.size()) return sharding;
  const std::vector<DimSharding> before = sharding.dims;
  for (std::size_t k = 0; k < layout.size(); ++k) {
    sharding.dims[k] = before[std::size_t(layout[layout.size() - 1 - k])];
  }
  return sharding;
}

TensorSharding seen(TensorSharding sharding, const Dims& layout) {
  if (layout.size() != sharding.dims.size()) return sharding;
  const std::vector<DimSharding> before = sharding.dims;
  for (std::size_t k = 0; k < layout.size(); ++k) {
    sharding.dims[std::size_t(layout[layout.size() - 1 - k])] = before[k];
  }
  return sharding;
}

}  // namespace tessera::pjrt
