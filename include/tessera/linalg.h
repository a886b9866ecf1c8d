// SPDX-License-Identifier: Apache-2.0
// Linear algebra: systems of equations, factorisations, spectra, norms and functions of matrices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <tessera/array.h>
#include <tessera/ops/reductions.h>

/// @file
/// Linear algebra, as jax.numpy.linalg and jax.scipy.linalg.
///
/// Matrices stand in the last two dimensions; leading dimensions are batches, which may be split
/// among devices. All functions take f32, f64, c64 and c128; integers become f32. They have
/// derivatives of any order in both modes unless stated, under the assumptions that the functions
/// are differentiable there: factors of singular matrices, vectors of equal eigenvalues or singular
/// values and the like have none. Where LAPACK fails the results are NaN.
///
/// @throws ShapeError for arrays that hold no matrices, matrices that aren't square where they must
///   be, and sizes that don't match.
/// @throws DTypeError for f16, bf16 and smaller floats.
///
/// All messages name the caller's line.

namespace tessera::linalg {

// ------------------------------------------------------------------ systems of equations

/// Solves a x = b: a [.., n, n], b [.., n, k] -> [.., n, k], or a vector b [n] -> [.., n]. Leading
/// dimensions broadcast. Singular matrices give infinities or NaN.
/// @code
/// Array x = linalg::solve(a, b);        // one LU factorisation, also with derivatives
/// @endcode
Array solve(Operand a, Operand b);
/// Inverse of matrices [.., n, n]. `solve` is faster and more accurate for a product with one.
Array inv(Operand a);
/// Determinant: [.., n, n] -> [..].
Array det(Operand a);
/// Result of `slogdet`.
struct SlogdetResult {
  Array sign;       ///< -1, 0 or 1; of complex matrices a number of magnitude 1, or 0
  Array logabsdet;  ///< logarithm of the magnitude; -infinity for determinant 0
};
/// Sign and logarithm of the magnitude of the determinant, where it would overflow: [.., n, n] ->
/// [..].
SlogdetResult slogdet(Operand a);

/// Options of `triangular_solve`.
struct TriangularSolveOptions {
  /// Solve op(a) x = b, else x op(a) = b.
  bool left_side = false;
  /// Which triangle of a is read.
  bool lower = false;
  /// op(a) is the transpose.
  bool transpose_a = false;
  /// op(a) has conjugated elements.
  bool conjugate_a = false;
  /// The diagonal isn't read, but taken as 1.
  bool unit_diagonal = false;
};
/// Solves triangular systems (jax.lax.linalg.triangular_solve): a [.., n, n], b [.., n, k] with
/// `left_side`, else [.., k, n], and the same leading dimensions. A vector b [n] is a single column
/// or row.
Array triangular_solve(Operand a, Operand b, const TriangularSolveOptions& options = {});
/// What op(a) is in `solve_triangular` and `lu_solve`.
enum class Trans : std::uint8_t { none, transpose, adjoint };
/// Options of `solve_triangular`.
struct SolveTriangularOptions {
  /// Solve a x = b, or with the transpose or adjoint of a.
  Trans trans = Trans::none;
  /// Which triangle of a is read.
  bool lower = false;
  /// The diagonal isn't read, but taken as 1.
  bool unit_diagonal = false;
};
/// Solves triangular systems (jax.scipy.linalg.solve_triangular): a [.., n, n], b [.., n, k] or
/// [n]. Leading dimensions broadcast.
Array solve_triangular(Operand a, Operand b, const SolveTriangularOptions& options = {});

/// Solves tridiagonal systems (jax.lax.linalg.tridiagonal_solve), with exchanges of rows. Singular
/// matrices give NaN.
/// @param dl  Below the diagonal, [.., n]; dl[.., 0] isn't read.
/// @param d  The diagonal, [.., n].
/// @param du  Above the diagonal, [.., n]; du[.., n - 1] isn't read.
/// @param b  [.., n, k], or a vector [n]. Leading dimensions broadcast.
/// @throws ShapeError if sizes don't match.
Array tridiagonal_solve(Operand dl, Operand d, Operand du, Operand b);

// ------------------------------------------------------------------ factorisations

/// Options of `cholesky`.
struct CholeskyOptions {
  /// Return the upper factor.
  bool upper = false;
  /// Factor the mean of the matrix and its adjoint; else only the triangle of the factor is read.
  bool symmetrize_input = true;
};
/// Cholesky factor L, or the upper one L^H, of positive definite matrices a = L L^H: [.., n, n].
/// NaN for matrices that aren't positive definite.
Array cholesky(Operand a, const CholeskyOptions& options = {});
/// Result of `cho_factor`.
struct CholeskyFactor {
  Array factor;        ///< [.., n, n]; zeros in the other triangle
  bool lower = false;  ///< which triangle it is
};
/// Cholesky factor for `cho_solve` (jax.scipy.linalg.cho_factor). Only one triangle of a is read.
CholeskyFactor cho_factor(Operand a, bool lower = false);
/// Solves a x = b by the factor of a: b [.., n, k] or [n].
Array cho_solve(const CholeskyFactor& factor, Operand b);

/// Result of `lu`.
struct LuResult {
  Array p;  ///< [.., m, m]: permutation, real
  Array l;  ///< [.., m, k]: lower triangular with ones on the diagonal
  Array u;  ///< [.., k, n]: upper triangular
};
/// Factors of matrices [.., m, n] with a = p l u, and k = min(m, n) (jax.scipy.linalg.lu).
LuResult lu(Operand a);
/// Result of `lu_factor`.
struct LuFactors {
  Array lu;      ///< [.., m, n]: u and, below the diagonal, l
  Array pivots;  ///< [.., k], s32: row i was exchanged with row pivots[i], one after another
};
/// LU factors for `lu_solve` (jax.scipy.linalg.lu_factor).
LuFactors lu_factor(Operand a);
/// Solves op(a) x = b by the factors of a square matrix a: b [.., n, k] or [n].
Array lu_solve(const LuFactors& factors, Operand b, Trans trans = Trans::none);

/// What `qr` returns.
enum class QrMode : std::uint8_t {
  reduced,   ///< q [.., m, k], r [.., k, n]
  complete,  ///< q [.., m, m], r [.., m, n]
};
/// Result of `qr`.
struct QrResult {
  Array q;  ///< orthonormal columns
  Array r;  ///< upper triangular
};
/// QR factors of matrices [.., m, n] with a = q r, and k = min(m, n).
QrResult qr(Operand a, QrMode mode = QrMode::reduced);
/// Only r [.., k, n] of `qr`; JAX's mode "r".
Array qr_r(Operand a);

// ------------------------------------------------------------------ spectra

/// Options of `eigh` and `eigvalsh`.
struct EighOptions {
  /// Read the lower triangle, else the upper one.
  bool lower = true;
  /// Take the mean of the matrix and its adjoint first.
  bool symmetrize_input = true;
};
/// Result of `eigh`.
struct EighResult {
  Array eigenvalues;   ///< [.., n], real, ascending
  Array eigenvectors;  ///< [.., n, n]: column i belongs to eigenvalue i
};
/// Eigenvalues and eigenvectors of hermitian matrices [.., n, n].
EighResult eigh(Operand a, const EighOptions& options = {});
/// Eigenvalues of hermitian matrices, ascending: [.., n, n] -> [.., n].
Array eigvalsh(Operand a, const EighOptions& options = {});
/// Result of `eig`.
struct EigResult {
  Array eigenvalues;   ///< [.., n], complex, in LAPACK's order
  Array eigenvectors;  ///< [.., n, n], complex: column i belongs to eigenvalue i
};
/// Eigenvalues and right eigenvectors of square matrices. Vectors have norm 1 and a real entry of
/// greatest magnitude, and so have their derivatives.
EigResult eig(Operand a);
/// Eigenvalues of square matrices: [.., n, n] -> [.., n], complex.
Array eigvals(Operand a);
/// Result of `schur`.
struct SchurResult {
  Array t;  ///< upper triangular; of real ones with blocks of 2 rows for complex eigenvalues
  Array z;  ///< unitary
};
/// Schur form of square matrices, a = z t z^H (jax.scipy.linalg.schur). No derivative: a
/// NotImplementedError.
/// @param a  [.., n, n].
/// @param complex_output  Make t triangular, and complex.
SchurResult schur(Operand a, bool complex_output = false);
/// Result of `polar`.
struct PolarResult {
  Array unitary;   ///< [.., m, n]: orthonormal columns (or rows, if there are more of them)
  Array positive;  ///< hermitian and positive semidefinite
};
/// Polar form of matrices [.., m, n], a = unitary positive, or with `left` a = positive unitary
/// (jax.scipy.linalg.polar), by singular values.
PolarResult polar(Operand a, bool left = false);

/// Options of `svd`.
struct SvdOptions {
  /// u [.., m, m] and vh [.., n, n], else [.., m, k] and [.., k, n]. With it the derivative is a
  /// NotImplementedError unless matrices are square.
  bool full_matrices = true;
  /// The matrices are hermitian: use `eigh`.
  bool hermitian = false;
};
/// Result of `svd`.
struct SvdResult {
  Array u;   ///< orthonormal columns
  Array s;   ///< [.., k], real, descending
  Array vh;  ///< orthonormal rows
};
/// Singular values and vectors of matrices [.., m, n] with a = u diag(s) vh, and k = min(m, n).
SvdResult svd(Operand a, const SvdOptions& options = {});
/// Singular values, descending: [.., m, n] -> [.., k].
Array svdvals(Operand a);
/// Options of `pinv`.
struct PinvOptions {
  /// Singular values up to `rtol` times the greatest count as 0; by default 10 max(m, n) eps.
  std::optional<double> rtol{};
  /// The matrices are hermitian.
  bool hermitian = false;
};
/// Moore-Penrose inverse: [.., m, n] -> [.., n, m].
Array pinv(Operand a, const PinvOptions& options = {});
/// Result of `lstsq`.
struct LstsqResult {
  Array x;          ///< [n, k] or [n]: of the smallest norm
  Array residuals;  ///< [k]: squared norms of the columns of b - a x
  Array rank;       ///< s32
  Array s;          ///< singular values of a
};
/// Least-squares solution of a x = b: a [m, n], b [m, k] or [m]. Singular values below `rcond`
/// times the greatest count as 0; by default max(m, n) eps; a negative number stands for eps.
LstsqResult lstsq(Operand a, Operand b, std::optional<double> rcond = {});
/// Options of `matrix_rank`.
struct MatrixRankOptions {
  /// Bound below which a singular value counts as 0, as in JAX an absolute one; by default
  /// max(m, n) eps times the greatest.
  std::optional<double> rtol{};
  /// The matrices are hermitian.
  bool hermitian = false;
};
/// Number (s32) of singular values that aren't 0: [.., m, n] -> [..]. Of vectors: whether any
/// element isn't 0.
Array matrix_rank(Operand a, const MatrixRankOptions& options = {});

// ------------------------------------------------------------------ norms

/// The order of a norm: a number, or "fro" and "nuc" of matrices.
class NormOrder {
 public:
  /// 2 for vectors, "fro" for matrices.
  NormOrder() = default;
  /// A number; infinity is `std::numeric_limits<double>::infinity()`.
  NormOrder(double value) : value_(value) {}  // NOLINT: implicit by design
  /// A number.
  NormOrder(int value) : value_(double(value)) {}  // NOLINT: implicit by design
  /// "fro" or "nuc".
  NormOrder(const char* name) : value_(std::string(name)) {}  // NOLINT: implicit by design
  /// True if none was given.
  bool none() const { return std::holds_alternative<std::monostate>(value_); }
  /// The number, if it is one.
  const double* number() const { return std::get_if<double>(&value_); }
  /// The name, if it is one.
  const std::string* name() const { return std::get_if<std::string>(&value_); }
  /// As in messages.
  std::string to_string() const;

 private:
  std::variant<std::monostate, double, std::string> value_;
};
/// Options of `norm`.
struct NormOptions {
  /// The order.
  NormOrder ord{};
  /// One axis for norms of vectors, two for norms of matrices. By default those of the entire
  /// array, and the 2-norm of all elements if there is no order either.
  Axes axis{};
  /// Keep reduced dimensions, with size 1.
  bool keepdims = false;
};
/// Norms of vectors or matrices, real (numpy.linalg.norm). Of vectors: any number, infinity and
/// -infinity (greatest and smallest magnitude), 0 (count of nonzeros). Of matrices: "fro", "nuc",
/// 1, -1, 2, -2, infinity, -infinity.
/// @throws ValueError for another order, or more than two axes.
Array norm(Operand x, const NormOptions& options = {});
/// Options of `vector_norm`.
struct VectorNormOptions {
  /// Any number.
  NormOrder ord = 2;
  /// Axes whose elements count as one vector; all by default.
  Axes axis{};
  /// Keep reduced dimensions, with size 1.
  bool keepdims = false;
};
/// Norms of vectors, over any number of axes.
Array vector_norm(Operand x, const VectorNormOptions& options = {});
/// Options of `matrix_norm`.
struct MatrixNormOptions {
  /// "fro", "nuc", 1, -1, 2, -2, infinity, -infinity.
  NormOrder ord = "fro";
  /// Keep reduced dimensions, with size 1.
  bool keepdims = false;
};
/// Norms of the matrices in the last two dimensions.
Array matrix_norm(Operand x, const MatrixNormOptions& options = {});
/// Condition number of matrices in a norm, by default 2: [.., m, n] -> [..]. Matrices must be
/// square unless the order is 2 or -2.
/// @throws ValueError for matrices without elements.
Array cond(Operand x, NormOrder p = {});

// ------------------------------------------------------------------ functions and products

/// Options of `expm`.
struct ExpmOptions {
  /// The matrices are upper triangular.
  bool upper_triangular = false;
  /// Matrices that would have to be squared more often give NaN.
  std::int64_t max_squarings = 16;
};
/// Exponential of square matrices, by a Pade approximant of the matrix divided by a power of 2, and
/// squarings.
Array expm(Operand a, const ExpmOptions& options = {});
/// `expm` of a and its derivative in the direction e (jax.scipy.linalg.expm_frechet).
/// @throws ShapeError if the shapes differ.
std::pair<Array, Array> expm_frechet(Operand a, Operand e);
/// Principal square root of square matrices, complex, by their Schur form (jax.scipy.linalg.sqrtm).
/// No derivative, as `schur`.
Array sqrtm(Operand a);
/// Integer power of square matrices; negative ones are powers of the inverse. Integers stay
/// integers for n >= 0.
Array matrix_power(Operand a, std::int64_t n);
/// Product of two or more matrices in the order that takes the fewest multiplications. The first
/// may be a row [n], the last a column [n].
Array multi_dot(const std::vector<Array>& arrays, Location location = Location::current());
/// The last two dimensions exchanged, of any dtype.
Array matrix_transpose(Operand x);
/// Solves tensordot(a, x, x.ndim) = b for x: a [I.., J..], b [I..] -> [J..]; `axes` of a are moved
/// to its end first.
Array tensorsolve(Operand a, Operand b, std::optional<std::vector<std::int64_t>> axes = {});
/// Inverse of a as a map of tensors: [I.., J..] -> [J.., I..], where I has `ind` dimensions.
/// @throws ValueError if `ind` isn't positive.
Array tensorinv(Operand a, std::int64_t ind = 2);
/// Matrices (of at most two dimensions) along the diagonal of one, zeros elsewhere.
Array block_diag(const std::vector<Array>& arrays, Location location = Location::current());
/// Matrix of constant diagonals: first column c, first row r (r[0] isn't read), by default conj(c).
Array toeplitz(Operand c, const std::optional<Array>& r = {});
/// Powers of the elements of a vector as columns: [n] -> [n, columns], by default n of them.
/// Decreasing powers unless `increasing`.
Array vander(Operand x, std::optional<std::int64_t> columns = {}, bool increasing = false);

}  // namespace tessera::linalg
