// SPDX-License-Identifier: Apache-2.0
// Matrix products.
#pragma once

#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// How an operand is laid out as [batch, rows, contracted] (or, transposed, [batch, contracted,
/// rows]). Or with some of the batch in between, as caches of keys have it: [batch, rows, batch,
/// contracted].
struct DotSide {
  /// Order of dims that the kernel needs first; empty: as it stands.
  Dims transpose;
  bool transposed = false;
  std::int64_t inner = 1;  ///< of the batch that is in between
  /// The same matrix for all of the batch, which is all that the kernel is given.
  bool shared = false;
};

struct DotPlan {
  DotSide lhs, rhs;
  KernelDescriptor kernel;
};

/// Whether the kernel takes operands of narrower types than its result as they stand.
bool dot_takes_narrow(DType lhs, DType rhs, DType result);
/// The kernel's inputs: both operands, of these types, after their transposes; of a shared one what
/// is broadcast. Its output is row-major.
DotPlan dot_kernel(const ir::Instruction& dot, DType lhs, DType rhs);

}  // namespace tessera::codegen
