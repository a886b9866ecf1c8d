// SPDX-License-Identifier: Apache-2.0
// Transposes of planes, in squares that vectors hold, and rows turned round.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::codegen {

/// Element (r, c) of the target is at r * to_row + c * element, and comes from r * element +
/// c * from_column; in bytes.
struct Plane {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::int64_t rows = 0, columns = 0;
  std::int64_t to_row = 0, from_column = 0;
};

/// For elements of 1, 2, 4 or 8 bytes; false for others.
bool transpose(const Plane& plane, std::size_t element_bytes);

/// Element c of the target is element -c of what begins at `from`.
struct ReversedRow {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::int64_t count = 0;
};
/// For the same elements.
bool reverse_row(const ReversedRow& row, std::size_t element_bytes);

}  // namespace tessera::codegen
