// SPDX-License-Identifier: Apache-2.0
// Literals as buffers of the engine in this process, and back.
#pragma once

#include <cstring>
#include <span>

#include "src/base/arrays/literal.h"
#include "src/runtime/buffer.h"

namespace tessera::testing {

inline DeviceBuffer to_buffer(const Literal& x) {
  DeviceBuffer b{runtime::Storage::allocate(x.byte_count())};
  if (x.byte_count() > 0) std::memcpy(runtime::storage_of(b)->data(), x.bytes(), x.byte_count());
  return b;
}

inline Literal from_buffer(const DeviceBuffer& b, const Shape& shape) {
  return Literal(Shape(shape.dtype, shape.dims),
                 std::span<const std::byte>(runtime::bytes_of(b), b.bytes()));
}

}  // namespace tessera::testing
