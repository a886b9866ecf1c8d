// SPDX-License-Identifier: Apache-2.0
// Parts of arrays as they lie in the host's memory, at the border to devices.
#pragma once

#include <cstddef>

#include <tessera/dtype.h>

#include "src/base/box.h"

namespace tessera {

/// How a part of an array lies in the host's memory. On devices parts are dense and row-major, with
/// a byte or more for an element.
struct HostLayout {
  DType dtype;
  /// Which part of the array it is.
  Box box;
  /// Bytes from an element to the next along each dim: 0 where all are the same one, negative where
  /// they stand backwards. Empty: dense and row-major.
  Dims byte_strides{};
  /// Elements of 1, 2 and 4 bits share a byte, the first one in its lowest bits: as numpy's and
  /// XLA's users have them. Then there are no strides.
  bool packed = false;

  /// Whether it is as on devices.
  bool is_plain() const;
};

/// Bytes that a packed part takes.
std::size_t packed_bytes(DType dtype, std::int64_t elements);

/// Copies the elements of both parts from the host to a dense part.
void copy_from_host(const std::byte* host, const HostLayout& held, std::byte* to, const Box& part);
/// The other way; the host's other elements keep their values.
void copy_to_host(const std::byte* from, const Box& part, std::byte* host,
                  const HostLayout& requested);

}  // namespace tessera
