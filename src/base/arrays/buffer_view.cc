// SPDX-License-Identifier: Apache-2.0
// Checks that BufferView and MutableBufferView make when custom calls read their buffers.
#include <tessera/custom/buffer_view.h>

#include "src/base/arrays/shape.h"

namespace tessera {

namespace internal {

void wrong_buffer_type(DType dtype, std::size_t requested_bytes, Location location) {
  throw TypeError("a buffer of " + std::string(name(dtype)) + " (" +
                      std::to_string(byte_size(dtype)) +
                      " bytes an element) is requested as another C++ type (of " +
                      std::to_string(requested_bytes) + " bytes); use the C++ type of the dtype",
                  location);
}

}  // namespace internal

std::int64_t BufferView::shape(std::int64_t dim, Location location) const {
  const std::int64_t at = dim < 0 ? dim + ndim() : dim;
  if (at < 0 || at >= ndim()) {
    throw ValueError("dim " + std::to_string(dim) + " of a buffer of shape " + to_string(shape_) +
                         "; valid: " + std::to_string(-ndim()) + " to " +
                         std::to_string(ndim() - 1),
                     location);
  }
  return shape_[std::size_t(at)];
}

std::int64_t BufferView::size() const { return element_count(shape_); }

}  // namespace tessera
