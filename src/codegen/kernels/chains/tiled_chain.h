// SPDX-License-Identifier: Apache-2.0
// Several kernels in a row as one, a block of rows at a time, so that what is between them stays in
// cache and is never held in full. Links make their rows of a block; or, as steps of a stencil do,
// rows around these too, which links behind them read: rows at the edges of blocks are made twice.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/codegen/kernels/chains/links.h"
#include "src/codegen/kernels/products/row_sums.h"

namespace tessera::codegen {

/// What a link makes of a block of rows: its own rows, if nothing else is said.
struct LinkRows {
  /// Not null: sums over them, of which its output has some for each part of the rows.
  std::shared_ptr<const RowSums> sums = nullptr;
  std::int64_t rows = 0;  ///< all that it could make; 0: those of the chain
  /// Rows around a block's that it makes as well. Then its output is in scratch memory, and what
  /// the chain returns of it is copied: other rows are made by those who have their blocks.
  std::int64_t before = 0, behind = 0;
  int copied_to = -1;  ///< output of the chain; -1: none

  bool reaches() const { return before != 0 || behind != 0; }
};

/// How a chain goes through rows.
struct ChainRows {
  std::int64_t rows = 1;   ///< which are the units of a chain without sums
  std::int64_t block = 1;  ///< rows at a time
  /// Of a chain with sums: rows fall into so many equal groups, and each of them into parts, which
  /// are its units. Both are known from shapes, so that sums don't depend on who runs them.
  std::int64_t groups = 0, parts = 1;
  bool by_blocks = false;             ///< units are blocks, if there are no groups
  std::vector<std::int64_t> scratch;  ///< bytes of a row of each place
};

struct TiledChain : ChainRows {
  struct Link : codegen::Link, LinkRows {
    std::int64_t units() const { return sums ? sums->rows() : kernel.units; }
  };
  std::vector<Link> links;
  /// Which memory each place is in: several are in the same in turn. Empty: each in its own.
  std::vector<int> memory;

  /// What memory of several places takes for n rows: n times the bytes of a row, and some more.
  struct Memory {
    std::int64_t row_bytes = 0, more_bytes = 0;
    std::vector<std::size_t> places;
  };
  std::vector<Memory> memories() const;

  /// Whether links make rows around their own.
  bool reaches() const;
  /// How many rows are made again for others, for each that is made once.
  double repeated() const;
};

KernelDescriptor tiled_chain_kernel(TiledChain chain);
/// That of its kernel, which takes longer to describe.
std::string key_of(const TiledChain& chain);

}  // namespace tessera::codegen
