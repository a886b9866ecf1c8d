// SPDX-License-Identifier: Apache-2.0
// The order in which products of narrow types take their operands: tiles of 16 rows of 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/codegen/kernels/products/narrow/narrow_gemm.h"

namespace tessera::codegen {

/// Rows of a tile, and the bytes of each. A lane of 4 bytes holds a group of elements along k: two
/// of bf16, four of 8 bits.
inline constexpr std::int64_t kTileRows = 16, kTileRowBytes = 64;
inline constexpr std::int64_t kTileBytes = kTileRows * kTileRowBytes;

/// Elements along k of a tile, of so many bytes each.
constexpr std::int64_t tile_depth(int element_bytes) { return kTileRowBytes / element_bytes; }

/// A part of an operand that becomes tiles: `across` rows of a (or columns of b), `depth` elements
/// along k of each. What is missing of a tile is zero.
struct Panel {
  const std::byte* from = nullptr;
  int element_bytes = 1;
  std::int64_t across = 0, depth = 0;
  std::int64_t across_stride = 0, depth_stride = 0;  ///< in elements; one of them is 1
  std::uint8_t flip = 0;  ///< to be flipped in each byte: 0x80 makes u8 of s8, moved by 128
};

/// The bytes of a panel's tiles.
std::int64_t packed_bytes(const Panel& panel);
/// Tiles of a: of 16 rows, all along k; then those of the next 16 rows. A tile's row is a row.
void pack_rows_of_tiles(const Panel& panel, std::byte* to);
/// Tiles of b: of 16 columns, all along k; then those of the next 16 columns. A tile's row is one
/// group of all 16 columns.
void pack_columns_of_tiles(const Panel& panel, std::byte* to);

}  // namespace tessera::codegen
