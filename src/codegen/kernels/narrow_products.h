// SPDX-License-Identifier: Apache-2.0
// Products of packed tiles of narrow types, on tiles or on vectors.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tessera/dtype.h>

#include "src/codegen/kernels/narrow_instructions.h"

namespace tessera::codegen {

/// c += (or =) a b, both packed (narrow_panels.h).
struct TileProducts {
  const std::byte* a;
  const std::byte* b;
  std::int64_t rows, columns, tiles;  ///< of c; tiles along k
  std::byte* c;                       ///< s32 or f32
  std::int64_t c_row;                 ///< elements
  bool accumulate;
};
using TileFunction = void (*)(const TileProducts&);

/// For these types. On vectors, integers of a must be s8 and those of b u8.
TileFunction tile_products(NarrowInstructions instructions, DType a, DType b);

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
