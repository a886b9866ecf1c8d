// SPDX-License-Identifier: Apache-2.0
// Products of packed tiles of narrow types, on tiles or on vectors.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tessera/dtype.h>

#include "src/codegen/kernels/products/narrow/narrow_instructions.h"

namespace tessera::codegen {

/// c += (or =) a b, both packed (narrow_panels.h). Or a as it stands, if it is whole tiles.
struct TileProducts {
  const std::byte* a;
  const std::byte* b;
  std::int64_t rows, columns, tiles;  ///< of c; tiles along k
  std::byte* c;                       ///< s32 or f32
  std::int64_t c_row;                 ///< elements
  bool accumulate;
  bool c_is_bf16 = false;  ///< rounded; of bf16, and nothing is added to what is there
  /// Bytes from a row of a to the next one, from a tile to the next one along k, and from the tiles
  /// of 16 rows, or columns, to those of the next 16.
  std::int64_t a_row, a_tile, a_line, b_line;
  /// Of integers, if not null: what sums of each row and of each column begin with.
  const std::uint32_t* row_starts = nullptr;
  const std::uint32_t* column_starts = nullptr;
};
using TileFunction = void (*)(const TileProducts&);

/// For these types. On vectors, integers of a must be s8 and those of b u8.
TileFunction tile_products(NarrowInstructions instructions, DType a, DType b);

/// Lines of integers of 8 bits. One of the strides is 1.
struct ByteLines {
  DType type;
  const std::byte* from;
  std::int64_t lines, count;         ///< numbers of each line
  std::int64_t line_stride, stride;  ///< from line to line, and from number to number
};
/// The sum of each line. For machines with vector instructions for products of integers.
void sum_lines(const ByteLines& lines, std::uint32_t* sums);

/// Readies this thread's tiles for the products, for the length of a scope.
class TileScope {
 public:
  explicit TileScope(NarrowInstructions instructions);
  ~TileScope();
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  bool tiles_;
};

}  // namespace tessera::codegen
