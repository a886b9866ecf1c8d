// SPDX-License-Identifier: Apache-2.0
// Products as sums over the rows of both sides: gradients of weights, and of keys and values. They
// can be added up while the rows are made.
// Also called: split-K reduction.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <tessera/dtype.h>

#include "src/codegen/kernels/kernel_descriptor.h"

namespace tessera::codegen {

struct DotSizes {
  std::int64_t batch = 1, rows = 1, m = 1, n = 1;
  bool by_rows[2] = {true, true};  ///< how each side stands; else by columns
};

/// c[m, n] = the sum over rows r of a[r, m] b[r, n]: a matrix for each batch of rows.
struct RowSums {
  DotSizes sizes;
  std::string key;
  /// Makes what adds units [begin, end), rows of one batch, to the sums at outputs[0].
  std::function<runtime::Kernel()> make;
  /// The same for some columns of one side, with the attributes of what `make` makes.
  ColumnsFunction of_columns[2] = {};
  DType operands = DType::f32;
  DType result = DType::f32, held = DType::f32;  ///< the sums' type

  std::int64_t rows() const { return sizes.batch * sizes.rows; }
  /// Of the rows of a batch, its groups, to which of a side that stands otherwise all belongs.
  Share share(std::size_t k) const { return sizes.by_rows[k] ? Share::own : Share::group; }
  std::int64_t elements() const { return sizes.m * sizes.n; }  ///< of each result
  std::int64_t bytes() const { return elements() * std::int64_t(byte_size(held)); }
};

/// For sides [batch, rows, m] and [batch, rows, n], or, by columns, [batch, m, rows] and [batch, n,
/// rows]. Null if there are none for the types, or if neither stands by rows.
std::shared_ptr<const RowSums> row_sums(DType lhs, DType rhs, DType result, const DotSizes& sizes);

/// out[batch, i] = the sum over p of parts[batch, p, i], in that order, rounded once. Of all that
/// `sums` makes of so many parts of its rows.
KernelDescriptor sum_of_parts(const RowSums& sums, std::int64_t parts);

}  // namespace tessera::codegen
