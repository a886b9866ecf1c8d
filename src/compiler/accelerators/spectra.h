// SPDX-License-Identifier: Apache-2.0
// Eigenvalues of symmetric matrices and singular values by Jacobi's rotations of columns, all
// matrices of a batch and half of the columns at once.
#pragma once

#include <vector>

#include "src/compiler/accelerators/matrix_formulas.h"

namespace tessera::compiler::accelerators {

/// What syevd (heevd) gives: eigenvectors, eigenvalues in ascending order, 0. `lower`: which
/// triangle is read.
Exprs symmetric_eigenvalues(Expr matrix, bool lower);
/// What gesdd gives, with these results: the matrix, singular values in descending order, U, the
/// adjoint of V, 0. Without `vectors` U and V are zeros.
Exprs singular_values(Expr matrix, const std::vector<Shape>& results, bool vectors);

}  // namespace tessera::compiler::accelerators
