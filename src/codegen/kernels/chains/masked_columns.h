// SPDX-License-Identifier: Apache-2.0
// Masks in chains of rows: what they hide need not be computed.
// Also called: block-sparse mask skipping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/codegen/kernels/chains/tiled_chain.h"
#include "src/codegen/kernels/kernel_descriptor.h"

namespace tessera::codegen {

/// Rows of a chain have `columns` elements each, of which a select takes some from an array and
/// others from a constant: causal attention,
///
///     s = dot(q, k)   m = select(row >= column, s, -1e9)   e = exp(m - max(m))   o = dot(e, v)
///
/// Columns that it takes from the constant in all rows of a block are hidden. A product whose
/// result is only read by such selects isn't computed there. A loop makes the same of all hidden
/// columns of a row: it is run for one of them. Products of what is zero there are left out, if
/// what it is multiplied by is of moderate size: else they are NaN or infinite, and are computed.
///
/// So are those to which something is added, as -1e9 by older programs, that puts them so far below
/// the largest of each row that they are zero once the exponential function of the difference is
/// taken: if factors are of such a size that products can't be as large. -inf stands for them, and
/// only that function, and reductions to the largest, may read it.
struct MaskedColumns {
  std::int64_t columns = 0;
  KernelDescriptor mask;    ///< of all elements, as bytes
  bool hides = false;       ///< where it is true, else where it is false
  bool adds = false;        ///< the mask is what is added, f32
  std::size_t product = 0;  ///< to the result of this link, times `scale`
  double scale = 1;
  std::int64_t period =
      0;  ///< not 0: it is the first input as it stands, these rows again and again
  std::vector<Place> inputs;

  /// An output of a link.
  struct Array {
    std::size_t link = 0, output = 0;
    friend auto operator<=>(const Array&, const Array&) = default;
  };
  struct Link {
    enum class Kind : std::uint8_t {
      whole,
      results,  ///< a product without hidden columns of its result, where `zero` are zero
      loop,     ///< a loop that makes the same of all hidden columns
      terms,    ///< a product of what is zero there, as `zero` says
      sums,     ///< the same, as sums over rows
    };
    Kind kind = Kind::whole;
    std::vector<Array> zero;
    /// Links in front of a loop that have to have left out, or made in this way, what it reads.
    std::vector<std::size_t> relies;
    std::size_t side = 0;  ///< of sums: which one has the columns
  };
  std::vector<Link> links;
};

/// Nothing if there is no mask, or nothing to be left out.
std::optional<MaskedColumns> masked_columns(const TiledChain& chain);

/// Rows at a time: few enough for a mask that hides other columns of each row, as causal ones do,
/// to hide some of whole blocks; and none has rows of two matrices, if that can be.
std::int64_t block_of_masked(const TiledChain& chain, const MaskedColumns& masked);

}  // namespace tessera::codegen
