// SPDX-License-Identifier: Apache-2.0
// Which kernel multiplies: the tables of dots, and of products of f32 and f64 matrices, of which
// convolutions and 16-bit floats are made, too.
#pragma once

#include <cstdint>

#include <tessera/dtype.h>

#include "src/codegen/kernels/kernel_choice.h"

namespace tessera::codegen {

/// c[m, n] = the sum over k of a[m, k] b[k, n], in f32 or f64.
struct MatrixSizes {
  std::int64_t m = 1, n = 1, k = 1;
  bool a_transposed = false;  ///< [k, m] in memory
  bool b_transposed = false;  ///< [n, k] in memory

  /// Whether sums go along lines of b, beside which rows of a are few; else a may be such a side.
  bool b_by_lines() const { return b_transposed && (m <= n || a_transposed); }
};
/// What multiplies matrices of f32 and f64.
enum class Gemm : std::uint8_t { thin, vectors, packed, unpacked, blas };
const KernelLine<MatrixSizes, Gemm>& choose_gemm(const MatrixSizes& sizes);

/// result[batch, m, n] = the sum over k of lhs[batch, m, k] rhs[batch, k, n].
struct DotOperation {
  DType lhs = DType::f32, rhs = DType::f32, result = DType::f32;
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  bool lhs_transposed = false;  ///< [k, m] in memory
  bool rhs_transposed = false;  ///< [n, k] in memory
  bool interleaved = false;     ///< matrices of the batch stand between lines of others
  bool shares = false;          ///< one of them is the same for all of the batch
};

enum class DotKernel : std::uint8_t {
  none,
  nothing,
  zeros,
  narrow,  ///< sums are wider than factors
  bf16,
  halves,
  predicates,
  integers,
  complex,
  lines,
  small,
  matrices,  ///< by `Gemm`
};

/// A line of either table.
struct DotChoice {
  const KernelLabel* label;
  DotKernel kernel;
  Gemm gemm;  ///< for `matrices`, and for `halves`, which are widened
};
DotChoice choose_dot(const DotOperation& dot);
KernelFamily dot_family();

/// Whether batch_gemm takes no longer than BLAS for matrices of f32 or f64.
bool batch_gemm_pays(bool b_transposed, std::int64_t m, std::int64_t n, std::int64_t k);

}  // namespace tessera::codegen
