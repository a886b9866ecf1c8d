// SPDX-License-Identifier: Apache-2.0
// What runs of a chain with masked columns go by: which are hidden from a block of rows, and
// whether numbers are of moderate size.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tessera/dtype.h>

namespace tessera::codegen {

/// Columns [first, last) of rows.
struct ColumnRange {
  std::int64_t first = 0, last = 0;
};

/// The least range outside of which a mask is `hides` in all rows, out to whole vectors; not empty.
/// `mask`: a byte, 0 or 1, of each column of each row.
ColumnRange shown_columns(const std::byte* mask, std::int64_t rows, std::int64_t columns,
                          bool hides);

/// Whether the sizes of all numbers are below 2^63, so that their products with zero are zero, and
/// sums of products with each other finite.
bool moderate(DType t, const std::byte* numbers, std::int64_t count);

/// Writes the element at column `from` of a row to all columns outside the range. Returns whether
/// it is zero.
bool fill_hidden(std::byte* row, std::int64_t columns, int element_bytes, const ColumnRange& shown,
                 std::int64_t from);

}  // namespace tessera::codegen
