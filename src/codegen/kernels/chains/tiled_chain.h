// SPDX-License-Identifier: Apache-2.0
// Several kernels in a row as one, a block of rows at a time, so that what is between them stays in
// cache and is never held in full.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/key_writer.h"
#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/codegen/kernels/products/row_sums.h"

namespace tessera::codegen {

struct TiledChain {
  /// Where an operand of a link is: an input or output of the chain, or scratch memory.
  struct Place {
    enum class Kind : std::uint8_t { input, output, scratch } kind = Kind::input;
    int number = 0;
  };
  struct Link {
    KernelDescriptor kernel;  ///< of all rows, as are its units and its time
    std::vector<Place> inputs, outputs;
    /// Not null: it runs as these sums, and its output has some for each part of the rows.
    std::shared_ptr<const RowSums> sums = nullptr;
    std::int64_t first_byte = 0;  ///< of the output's memory, where it writes it

    std::int64_t units() const { return sums ? sums->rows() : kernel.units; }
  };
  std::vector<Link> links;
  std::int64_t rows = 1;   ///< which are the units of a chain without sums
  std::int64_t block = 1;  ///< rows at a time
  /// Of a chain with sums: rows fall into so many equal groups, and each of them into parts, which
  /// are its units. Both are known from shapes, so that sums don't depend on who runs them.
  std::int64_t groups = 0, parts = 1;
  bool by_blocks = false;             ///< units are blocks, if there are no groups
  std::vector<std::int64_t> scratch;  ///< bytes of a row
};

KernelDescriptor tiled_chain_kernel(TiledChain chain);
/// That of its kernel, which takes longer to describe.
std::string key_of(const TiledChain& chain);

/// What a link does, and where.
void add_to_key(KeyWriter& key, const TiledChain::Link& link);

}  // namespace tessera::codegen
