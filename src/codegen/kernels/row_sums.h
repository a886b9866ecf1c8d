// SPDX-License-Identifier: Apache-2.0
// Products as sums over the rows of both sides: gradients of weights, and of keys and values. They
// can be added up while the rows are made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <tessera/dtype.h>

#include "src/codegen/kernels/kernel_descriptor.h"

namespace tessera::codegen {

/// c[m, n] = the sum over rows r of a[r, m] b[r, n]: a matrix for each batch of rows.
struct RowSums {
  std::string key;
  /// Makes what adds units [begin, end), rows of one batch, to the sums at outputs[0].
  std::function<runtime::Kernel()> make;
  std::int64_t batch = 1, rows = 1;              ///< of each batch
  std::int64_t elements = 1;                     ///< of each result
  DType result = DType::f32, held = DType::f32;  ///< the sums' type
};

/// For sides [batch, rows, m] and [batch, rows, n]; null if there is none for the types.
std::shared_ptr<const RowSums> row_sums(DType lhs, DType rhs, DType result, std::int64_t batch,
                                        std::int64_t rows, std::int64_t m, std::int64_t n);

/// out[batch, i] = the sum over p of parts[batch, p, i], in that order, rounded once. Of all that
/// `sums` makes of so many parts of its rows.
KernelDescriptor sum_of_parts(const RowSums& sums, std::int64_t parts);

}  // namespace tessera::codegen
