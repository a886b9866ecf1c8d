// SPDX-License-Identifier: Apache-2.0
// One call of a chain with a mask: which columns that hides of a block of rows, and links without
// these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "src/codegen/kernels/chains/column_ranges.h"
#include "src/codegen/kernels/chains/masked_columns.h"
#include "src/codegen/kernels/chains/row_links.h"

namespace tessera::codegen {

class MaskedRun {
 public:
  /// `mask` makes rows of it, unless it is an input as it stands.
  MaskedRun(const MaskedColumns& masked, const runtime::Kernel& mask,
            const std::vector<RowLink>& links, const LinkMemory& memory);

  /// All links go through these rows next.
  void begin_block(std::int64_t begin, std::int64_t end);
  /// Runs link `l` for some of them, without the hidden columns: if that gives the same. False: it
  /// is to be run whole. `call`: of all columns.
  bool run(std::size_t l, const runtime::KernelCall& call, std::int64_t begin, std::int64_t end);

 private:
  using KernelCall = runtime::KernelCall;
  using Product = KernelBody::Product;

  /// Whether it is the product to which the mask is added.
  bool is_added_to(std::size_t l) const { return masked_.adds && masked_.product == l; }
  const Product& product(std::size_t l) const { return *links_[l].body.as<Product>(); }
  void place_mask();
  void make_mask(std::byte* first_row, std::int64_t begin, std::int64_t end) const;
  void look_at_mask(std::int64_t begin, std::int64_t end);
  void look_at_addend(const KernelCall& call, std::int64_t begin, std::int64_t end);
  double size_of_products(const KernelCall& call, std::int64_t begin, std::int64_t end);
  bool are_zero(const std::vector<MaskedColumns::Array>& arrays) const;
  bool is_moderate(std::size_t l, const std::byte* second, std::int64_t begin, std::int64_t end);
  void clear_hidden(const Product& p, std::byte* made, std::int64_t begin, std::int64_t end) const;
  void lower_hidden(const Product& p, std::byte* made, std::int64_t begin, std::int64_t end) const;
  void run_loop(std::size_t l, const KernelCall& call, std::int64_t begin, std::int64_t end);

  const MaskedColumns& masked_;
  const runtime::Kernel& mask_;
  const std::vector<RowLink>& links_;
  const LinkMemory memory_;
  std::vector<const std::byte*> inputs_;  ///< of the mask
  ColumnRange shown_;
  bool hides_any_ = false;
  std::int64_t begin_ = 0, end_ = 0;                        ///< of the block
  std::vector<bool> narrow_;                                ///< links that were run so
  std::map<MaskedColumns::Array, std::int64_t> zero_rows_;  ///< whose hidden columns are zero
  std::map<std::pair<std::size_t, std::int64_t>, bool> moderate_;  ///< by link and matrix
  /// Of a mask that stands, by first row, rows and the exponent of what the product is below.
  std::map<std::tuple<std::int64_t, std::int64_t, int>, ColumnRange> shown_before_;
  std::map<std::int64_t, double> largest_;  ///< of second operands of the product with a mask
};

}  // namespace tessera::codegen
