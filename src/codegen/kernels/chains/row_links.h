// SPDX-License-Identifier: Apache-2.0
// Links of a chain of rows, ready to run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "src/codegen/kernels/chains/tiled_chain.h"

namespace tessera::codegen {

/// What a TiledChain::Link becomes when its kernel is made.
struct RowLink : LinkRows {
  runtime::Kernel kernel;
  std::int64_t units_of_row = 1;
  std::vector<Place> inputs, outputs;
  bool is_read = false;       ///< what it makes, by links behind it or as scratch memory
  bool product = false;       ///< it takes rows together, not one as well as many
  bool holds_second = false;  ///< its second operand, packed, for several blocks of rows
  KernelBody body;

  /// The rows that it makes for a block that begins, or ends, with this one.
  std::int64_t first(std::int64_t begin) const {
    return std::clamp<std::int64_t>(begin - before, 0, rows);
  }
  std::int64_t last(std::int64_t end) const {
    return std::clamp<std::int64_t>(end + behind, 0, rows);
  }
};

}  // namespace tessera::codegen
