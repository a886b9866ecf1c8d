// SPDX-License-Identifier: Apache-2.0
// Eigenvalues of symmetric matrices and singular values by Jacobi's rotations of columns, all
// matrices of a batch and half of the columns at once.
#pragma once

#include <string>
#include <vector>

#include "src/base/arrays/shape.h"

namespace tessera::compiler::accelerators {

/// HLO text of what syevd (heevd) gives: eigenvectors, eigenvalues in ascending order, 0. `lower`:
/// which triangle is read.
std::string symmetric_eigenvalues(const Shape& matrix, bool lower);
/// Of what gesdd gives, with these results: the matrix, singular values in descending order, U, the
/// adjoint of V, 0. Without `vectors` U and V are zeros.
std::string singular_values(const Shape& matrix, const std::vector<Shape>& results, bool vectors);

}  // namespace tessera::compiler::accelerators
