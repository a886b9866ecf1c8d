// SPDX-License-Identifier: Apache-2.0
// Layouts: the orders in which clients may have the dims of an array in memory. On devices arrays
// are dense and row-major, so that one of another order is *stored* as its transpose: an array of
// the dims from the slowest to the fastest. Shape::layout says the order where a shape is the
// client's.
#pragma once

#include <string>

#include "src/base/arrays/shape.h"
#include "src/pjrt/abi/types.h"
#include "src/sharding/axes/tensor_sharding.h"

/// What clients hold. There is one of each order, which stays.
struct PJRT_Layouts_MemoryLayout {
  tessera::Dims minor_to_major;
  /// As XLA's text has it: "{0,1}".
  std::string text;
};

namespace tessera::pjrt {

PJRT_Layouts_MemoryLayout& memory_layout(const Shape& shape);
PJRT_Layouts_MemoryLayout& row_major_layout(std::size_t rank);

/// Minor to major; empty: row-major. A Failure unless it is an order of the dims of the shape.
Dims checked_layout(const Shape& shape, Dims minor_to_major);
/// The order that a client asks for; null is row-major. A Failure for tiles, and for strides that
/// no dense array has.
Dims layout_of(const Shape& shape, const PJRT_Buffer_MemoryLayout* layout);
/// Both have each element at the same place: dims of one element may stand anywhere.
bool same_layout(const Shape& a, const Shape& b);

/// Dims, or strides, in the order in which a layout has them in memory, and the other way.
Dims stored(const Dims& dims, const Dims& layout);
Dims seen(const Dims& stored, const Dims& layout);
Shape stored(const Shape& shape);
Shape seen(const Shape& stored, const Dims& layout);
TensorSharding stored(TensorSharding sharding, const Dims& layout);
TensorSharding seen(TensorSharding stored, const Dims& layout);

}  // namespace tessera::pjrt
