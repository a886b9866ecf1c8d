// SPDX-License-Identifier: Apache-2.0
// What the functions of linear algebra share: checks of matrices, LAPACK calls, products and
// solutions of triangular systems. All but the checks are for use inside of a trace.
#pragma once

#include <string>
#include <vector>

#include <tessera/custom/call_attributes.h>

#include "src/frontend/ops/located.h"

namespace tessera::frontend::matrices {

/// The dtype in which a function of linear algebra computes: that of the operands promoted
/// together, f32 for integers. DTypeError for those that LAPACK doesn't have.
DType dtype_of(const std::string& name, const std::vector<Array>& operands, Location location);
/// ShapeError unless x is [.., m, n]; [.., n, n] for `need_square`.
void need_matrix(const std::string& name, const Shape& x, Location location);
void need_square(const std::string& name, const Shape& x, Location location);
[[noreturn]] void misfit(const std::string& name, const std::vector<Shape>& shapes,
                         const std::string& why, Location location);

inline Dims dims_of(const Located& x) { return x.array.shape(); }
/// Sizes of the last two dims.
inline std::int64_t rows_of(const Located& x) {
  const Dims dims = x.array.shape();
  return dims[dims.size() - 2];
}
inline std::int64_t columns_of(const Located& x) { return x.array.shape().back(); }
/// All dims but the last `own`.
Dims batch_of(const Dims& dims, std::size_t own = 2);
Dims joined(Dims batch, const Dims& own);

Located with_dims(const Located& x, const Dims& dims);    ///< broadcast
Located with_batch(const Located& x, const Dims& batch);  ///< broadcast, the matrix kept
/// Entries of the last two dims: [first_row, end_row) x [first_column, end_column).
Located block(const Located& x, std::int64_t first_row, std::int64_t end_row,
              std::int64_t first_column, std::int64_t end_column);
Located entry(const Located& x, std::int64_t row, std::int64_t column);
Located identity(const Located& like, std::int64_t n);  ///< [n, n] of like's dtype
Located diagonal_of(const Located& x);
Located swapped(const Located& x);  ///< the last two dims
Located adjoint(const Located& x);
Located conjugate(const Located& x);
Located real_part(const Located& x);
Located magnitude(const Located& x);
/// x[..., None]
Located as_column(const Located& x);
Located times(const Located& a, const Located& b);
/// All entries NaN where `ok`, of the batch's dims, is false.
Located nan_unless(const Located& ok, const Located& x);
/// (x + x^H) / 2
Located symmetrized(const Located& x);

struct Triangle {
  bool left = true, lower = true, unit = false;
  bool transposed = false, conjugated = false;
};
/// Of equal batch dims.
Located solved(const Located& matrix, const Located& rhs, const Triangle& triangle);

/// x[..., places[..., i], :], for places [.., m] that are in range; of equal batch dims.
Located take_rows(const Located& x, const Located& places);

/// A LAPACK routine as JAX calls it on CPU: `routine` "getrf" is "lapack_sgetrf_ffi" for f32.
/// The results' dims stand behind the batch dims: all dims of the first operand but the last `own`.
struct LapackResult {
  DType dtype;
  Dims own;  ///< dims behind the batch's
};
std::vector<Located> call_lapack(const std::string& routine, const std::vector<Located>& operands,
                                 const std::vector<LapackResult>& results,
                                 const CallAttributes& attributes = {}, std::size_t own = 2);

/// A = P L U: `permutation` says which row of A is row i of L U.
struct Factors {
  Located lu, pivots, permutation;
};
Factors factored(const Located& a);
/// The permutation of `rows` rows that swapping row i with row pivots[i], one after another, is.
Located permutation_of(const Located& pivots, std::int64_t rows);
/// Of A, its transpose (1) or its adjoint (2), of equal batch dims; without derivatives of its own.
Located solved(const Located& lu, const Located& permutation, const Located& rhs, int trans);
/// A^-1 b for b [.., n, k], with the batch dims broadcast. Its derivative needs no more than the
/// factors.
Located solved(const Located& a, const Located& b);

/// {u, s, v^H} of x; only {s} without vectors. NaN where LAPACK finds none.
std::vector<Located> singular(const Located& x, bool full_matrices, bool vectors);
/// {w, v} of the hermitian matrix that one triangle of x says.
std::vector<Located> eigen(const Located& x, bool lower);

}  // namespace tessera::frontend::matrices
