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

/// Adds what of a row isn't far below its largest element to a range, which is empty at first. Far
/// is that the exponential function of the difference is zero, even if up to `size` is added to
/// each element. `largest`: of the row before, at first infinite, then what of this row is known to
/// be no larger than its largest.
void show_near(const float* row, std::int64_t columns, double size, ColumnRange* shown,
               float* largest);
/// A range out to whole vectors; of one, if it is empty.
ColumnRange whole_vectors(const ColumnRange& range, std::int64_t columns);

/// The largest of the sizes of all numbers; infinite if one is, or is NaN, and for other types.
double largest_size(DType t, const std::byte* numbers, std::int64_t count);

/// Whether the sizes of all numbers are below 2^63, so that their products with zero are zero, and
/// sums of products with each other finite.
bool moderate(DType t, const std::byte* numbers, std::int64_t count);

/// Writes -inf, or inf, of f32 or a 16-bit type, to all columns outside the range.
void fill_hidden(std::byte* row, std::int64_t columns, DType t, bool negative,
                 const ColumnRange& shown);
/// Writes the element at column `from` of a row to all columns outside the range. Returns whether
/// it is zero.
bool fill_hidden(std::byte* row, std::int64_t columns, int element_bytes, const ColumnRange& shown,
                 std::int64_t from);

}  // namespace tessera::codegen
