// SPDX-License-Identifier: Apache-2.0
// What derivatives of factorisations share: matrices in the last two dims, the LAPACK routines.
#pragma once

#include <string>

#include "src/transforms/jvp/site.h"

namespace tessera::transforms::matrices {

using Transpose = ir::TriangularSolveAttrs::Transpose;

/// The last two dims exchanged.
ir::Instruction* swapped(ir::Builder& b, ir::Instruction* x);
ir::Instruction* adjoint(JvpSite& s, ir::Instruction* x);
/// x y of matrices in the last two dims, of equal batch dims.
ir::Instruction* product(ir::Builder& b, ir::Instruction* x, ir::Instruction* y);
/// pred like such matrices.
ir::Instruction* on_diagonal(ir::Builder& b, const Shape& shape);
/// The lower (or upper) triangle; `strict`: without the diagonal.
ir::Instruction* triangle(ir::Builder& b, ir::Instruction* x, bool lower, bool strict);
/// Solves with a triangular matrix.
ir::Instruction* solve(ir::Builder& b, ir::Instruction* matrix, ir::Instruction* rhs, bool left,
                       bool lower, Transpose transpose_a, bool unit = false);
/// The hermitian matrix that one triangle says.
ir::Instruction* hermitian(JvpSite& s, ir::Instruction* x, bool lower);
/// Entries [first_row, end_row) x [first_column, end_column) of the last two dims.
ir::Instruction* block(ir::Builder& b, ir::Instruction* x, std::int64_t first_row,
                       std::int64_t end_row, std::int64_t first_column, std::int64_t end_column);
/// Zeros in front of and behind the last two dims.
ir::Instruction* margins(ir::Builder& b, ir::Instruction* x, ir::PadDim rows, ir::PadDim columns);
/// Ones on the diagonal of matrices of that shape.
ir::Instruction* unit_matrix(ir::Builder& b, const Shape& shape);
/// x with ones on its diagonal.
ir::Instruction* with_unit_diagonal(ir::Builder& b, ir::Instruction* x);
/// [.., n, n] -> [.., n]
ir::Instruction* diagonal(ir::Builder& b, ir::Instruction* x);
/// A vector [.., n] as each row of matrices [.., m, n], or [.., m] as each column of them.
ir::Instruction* as_rows(ir::Builder& b, ir::Instruction* vector, std::int64_t m);
ir::Instruction* as_columns(ir::Builder& b, ir::Instruction* vector, std::int64_t n);
/// Real numbers in a complex dtype, if it is one.
ir::Instruction* in_dtype(ir::Builder& b, ir::Instruction* x, DType dtype);
ir::Instruction* real_of(ir::Builder& b, ir::Instruction* x);

inline std::int64_t rows_of(const ir::Instruction* x) { return x->shape.dim(x->shape.rank() - 2); }
inline std::int64_t columns_of(const ir::Instruction* x) { return x->shape.dims.back(); }

/// The letter that a LAPACK option of a custom call stands for: `uplo = 76 : ui8` is L.
char option(const JvpSite& s, const std::string& key);
/// The call with another letter for an option, and results of other dims.
ir::Instruction* with_option(JvpSite& s, const std::string& key, char letter, const Shape& shape);

// Rules of the routines; the tangents of a call's results.
Tangent of_getrf(JvpSite& s);
Tangent of_geqrf(JvpSite& s);
Tangent of_orgqr(JvpSite& s);
Tangent of_syevd(JvpSite& s);
Tangent of_gesdd(JvpSite& s);
Tangent of_geev(JvpSite& s);
Tangent of_gtsv(JvpSite& s);

}  // namespace tessera::transforms::matrices
