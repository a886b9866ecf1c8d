// SPDX-License-Identifier: Apache-2.0
// Derivatives of factorisations and of solvers, and of the LAPACK routines that JAX calls for them.
#include <algorithm>
#include <numeric>

#include "src/transforms/jvp/site.h"

namespace tessera::transforms {

using ir::Direction;
using ir::Instruction;
using ir::Opcode;

namespace {

using Transpose = ir::TriangularSolveAttrs::Transpose;

Instruction* swapped(ir::Builder& b, Instruction* x) {
  Dims perm(x->shape.dims.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return b.transpose(x, perm);
}

/// x y of matrices in the last two dims.
Instruction* product(ir::Builder& b, Instruction* x, Instruction* y) {
  const std::int64_t rank = x->shape.rank();
  ir::DotAttrs a;
  for (std::int64_t d = 0; d < rank - 2; ++d) a.lhs_batch.push_back(d);
  a.rhs_batch = a.lhs_batch;
  a.lhs_contracting = {rank - 1};
  a.rhs_contracting = {rank - 2};
  a.operand_precision = {"highest", "highest"};
  return b.dot(x, y, a);
}

Instruction* rows_and_columns(ir::Builder& b, const Shape& shape, Direction rows_to_columns) {
  const Shape places(DType::s32, shape.dims);
  return b.compare(rows_to_columns, b.iota(places, shape.rank() - 2),
                   b.iota(places, shape.rank() - 1));
}

/// The lower (or upper) triangle; `unit`: without the diagonal.
Instruction* triangle(ir::Builder& b, Instruction* x, bool lower, bool strict) {
  const Direction d =
      lower ? (strict ? Direction::gt : Direction::ge) : (strict ? Direction::lt : Direction::le);
  return b.select(rows_and_columns(b, x->shape, d), x, zeros(b, x->shape));
}

/// The triangle with half the diagonal.
Instruction* half_triangle(ir::Builder& b, Instruction* x) {
  Instruction* low = triangle(b, x, true, false);
  Instruction* diagonal = rows_and_columns(b, x->shape, Direction::eq);
  return b.select(diagonal, b.binary(Opcode::multiply, low, full(b, x->shape, 0.5)), low);
}

Instruction* solve(ir::Builder& b, Instruction* matrix, Instruction* rhs, bool left, bool lower,
                   Transpose transpose_a, bool unit = false) {
  ir::TriangularSolveAttrs a;
  a.left_side = left;
  a.lower = lower;
  a.unit_diagonal = unit;
  a.transpose_a = transpose_a;
  return b.emit(Opcode::triangular_solve, {matrix, rhs}, a);
}

/// Of the factor L of A = L L^H: dL = L phi(L^-1 dA L^-H), phi the triangle with half its diagonal.
Instruction* tangent_of_factor(JvpSite& s, Instruction* factor, Instruction* d_matrix) {
  ir::Builder& b = s.b;
  Instruction* inner = solve(b, factor, d_matrix, true, true, Transpose::none);
  inner = solve(b, factor, inner, false, true, Transpose::adjoint);
  return product(b, factor, half_triangle(b, inner));
}

/// The hermitian matrix that one triangle says.
Instruction* hermitian(JvpSite& s, Instruction* x, bool lower) {
  Instruction* strict = triangle(s.b, x, lower, true);
  Instruction* other = swapped(s.b, s.conj(strict));
  return s.add(triangle(s.b, x, lower, false), other);
}

/// The tangent of a Cholesky factor, in the triangle in which it is; what else the matrix holds is
/// not looked at.
Tangent of_cholesky(JvpSite& s, Instruction* result, bool lower) {
  ir::Builder& b = s.b;
  Instruction* d = hermitian(s, s.dx[0].array, lower);
  if (lower) return tangent_of_factor(s, triangle(b, result, true, false), d);
  Instruction* factor = swapped(b, s.conj(triangle(b, result, false, false)));
  return swapped(b, s.conj(tangent_of_factor(s, factor, d)));
}

/// Of X with op(A) X = B (or X op(A) = B): op(A) dX = dB - op(dA) X.
Tangent of_solve(JvpSite& s, const ir::TriangularSolveAttrs& a, std::size_t matrix,
                 std::size_t rhs) {
  ir::Builder& b = s.b;
  Instruction* right = nullptr;
  if (!s.dx[rhs].is_zero()) right = s.dx[rhs].array;
  if (!s.dx[matrix].is_zero()) {
    Instruction* d = triangle(b, s.dx[matrix].array, a.lower, a.unit_diagonal);
    if (a.transpose_a != Transpose::none) d = swapped(b, d);
    if (a.transpose_a == Transpose::adjoint) d = s.conj(d);
    Instruction* x = elements_of(b, s.primal())[0];
    Instruction* moved = a.left_side ? product(b, d, x) : product(b, x, d);
    right = right ? s.sub(right, moved) : s.neg(moved);
  }
  return b.emit(Opcode::triangular_solve, {s.x[matrix], right}, a);
}

/// The letter that a LAPACK option of a custom call stands for: `uplo = 76 : ui8` is L.
char option(const JvpSite& s, const std::string& key) {
  const std::string& text = *s.op.backend_config;
  const std::size_t at = text.find(key);
  if (at == std::string::npos) s.refuse("its backend_config lacks " + key);
  const std::size_t digit = text.find_first_of("0123456789", at + key.size());
  if (digit == std::string::npos) s.refuse("its backend_config has no number for " + key);
  return char(std::stoi(text.substr(digit, 3)));
}

bool is_lapack(const std::string& target, const std::string& routine) {
  // lapack_spotrf_ffi: s, d, c, z for the element type.
  return target.size() == routine.size() + 12 && target.starts_with("lapack_") &&
         target.substr(8, routine.size()) == routine && target.ends_with("_ffi");
}

}  // namespace

Tangent jvp_cholesky(JvpSite& s) {
  return of_cholesky(s, s.primal(), s.get<ir::CholeskyAttrs>().lower);
}

Tangent jvp_triangular_solve(JvpSite& s) {
  return of_solve(s, s.get<ir::TriangularSolveAttrs>(), 0, 1);
}

Tangent jvp_custom_call(JvpSite& s) {
  const std::string& target = s.get<ir::CustomCallAttrs>().target;
  if (is_lapack(target, "potrf")) {
    Instruction* factor = s.b.get_tuple_element(s.primal(), 0);
    return Tangent::tuple({of_cholesky(s, factor, option(s, "uplo") == 'L'), {}});
  }
  if (is_lapack(target, "trsm")) {
    ir::TriangularSolveAttrs a;
    a.left_side = option(s, "side") == 'L';
    a.lower = option(s, "uplo") == 'L';
    a.unit_diagonal = option(s, "diag") == 'U';
    const char trans = option(s, "trans_x");
    a.transpose_a = trans == 'N'   ? Transpose::none
                    : trans == 'T' ? Transpose::transpose
                                   : Transpose::adjoint;
    return of_solve(s, a, 0, 1);
  }
  s.refuse("nothing says what the derivative of a custom call of " + target +
           " is; put it into a function with a custom derivative");
}

}  // namespace tessera::transforms
