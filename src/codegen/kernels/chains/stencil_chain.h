// SPDX-License-Identifier: Apache-2.0
// Steps of a stencil as one kernel: several loops, each of which reads rows around its own of what
// those before it made, a block of rows at a time. What is between them stays in cache; rows at the
// edges of blocks are made by both neighbours.
#pragma once

#include <cstdint>
#include <vector>

#include "src/codegen/kernels/kernel_descriptor.h"

namespace tessera::codegen {

struct StencilChain {
  /// An operand of a link: an input of the chain, or what a link before it made. That is no place,
  /// as TiledChain has them: where its rows are depends on which of them its maker needs for a
  /// block, and several links have the same memory in turn.
  struct Operand {
    bool made = false;
    int number = 0;  ///< of the input, or of the link
  };
  /// What a link makes of a block, and where.
  struct LinkRows {
    std::int64_t rows = 0, row_units = 1, row_bytes = 0;
    std::int64_t before = 0, behind = 0;  ///< rows around a block that are made, too
    std::vector<Operand> inputs;
    int output = -1;   ///< of the chain; -1: it has a place in scratch memory alone
    int scratch = -1;  ///< -1: it is written to the output only
  };
  struct Link : LinkRows {
    KernelDescriptor kernel;
  };
  std::vector<Link> links;
  std::int64_t rows = 1, block = 1;   ///< of the results
  std::vector<std::int64_t> scratch;  ///< bytes of each place, for a block
  double nanoseconds = 0;
};

KernelDescriptor stencil_chain_kernel(StencilChain chain);

}  // namespace tessera::codegen
