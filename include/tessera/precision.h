// SPDX-License-Identifier: Apache-2.0
// The precision of products within a scope.
#pragma once

#include <tessera/ops/products.h>

namespace tessera {

/// Makes a precision that of the products and convolutions of this thread that state none
/// (jax.default_matmul_precision). On virtual devices all give the same. On accelerators the
/// standard one is the fastest: on NVIDIA's GPUs products of f32 round their factors to TF32, on
/// TPUs to bf16; `Precision::highest` gives results of f32. Functions under `jit` are traced anew
/// for each.
/// @code
/// const PrecisionScope scope(Precision::highest);
/// Array c = matmul(a, b);
/// @endcode
class PrecisionScope {
 public:
  /// Begins the scope.
  explicit PrecisionScope(Precision precision);
  /// Ends it, on the thread where it began, after those that began within it.
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  Precision before_;
};
/// JAX's name of PrecisionScope.
using default_matmul_precision = PrecisionScope;
/// Returns the innermost precision in scope on this thread, `standard` if there is none.
Precision current_precision();

}  // namespace tessera
