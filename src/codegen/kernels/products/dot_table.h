// SPDX-License-Identifier: Apache-2.0
// Which kernel multiplies: the table of dots.
#pragma once

#include <cstdint>

#include <tessera/dtype.h>

#include "src/codegen/kernels/kernel_choice.h"

namespace tessera::codegen {

/// result[batch, m, n] = the sum over k of lhs[batch, m, k] rhs[batch, k, n].
struct DotOperation {
  DType lhs = DType::f32, rhs = DType::f32, result = DType::f32;
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  bool lhs_transposed = false;  ///< [k, m] in memory
  bool rhs_transposed = false;  ///< [n, k] in memory
  bool interleaved = false;     ///< matrices of the batch stand between lines of others
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
  lines,
  small,
  thin,
  vectors,
  packed,
  unpacked,
  blas,
};

const KernelLine<DotOperation, DotKernel>& choose_dot(const DotOperation& dot);
KernelFamily dot_family();

}  // namespace tessera::codegen
