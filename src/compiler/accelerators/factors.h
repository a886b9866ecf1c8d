// SPDX-License-Identifier: Apache-2.0
// Factors of matrices by loops over columns, with masks in place of slices: all matrices of a batch
// at once. Results are as LAPACK has them.
#pragma once

#include "src/compiler/accelerators/matrix_formulas.h"

namespace tessera::compiler::accelerators {

/// potrf: the factor, with the other triangle as it was, and info.
Exprs cholesky(Expr a, bool lower);
/// getrf: both factors, pivots (from 1), and info.
Exprs lu(Expr a);
/// geqrf: R with the reflectors below it, and their factors tau.
Exprs qr(Expr a);
/// orgqr, ungqr: the product of such reflectors, as many columns as `a` has.
Expr product_of_reflectors(Expr a, Expr tau);

}  // namespace tessera::compiler::accelerators
