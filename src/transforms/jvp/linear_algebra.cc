// SPDX-License-Identifier: Apache-2.0
// Derivatives of Cholesky factors and of triangular solvers, and the choice among the LAPACK
// routines that JAX calls.
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/hooks.h"
#include "src/transforms/jvp/matrices.h"

namespace tessera::transforms {

using ir::Instruction;
using ir::Opcode;

namespace matrices {
namespace {

/// The triangle with half the diagonal.
Instruction* half_triangle(ir::Builder& b, Instruction* x) {
  Instruction* low = triangle(b, x, true, false);
  Instruction* diagonal = on_diagonal(b, x->shape);
  return b.select(diagonal, b.binary(Opcode::multiply, low, full(b, x->shape, 0.5)), low);
}

/// Of the factor L of A = L L^H: dL = L phi(L^-1 dA L^-H), phi the triangle with half its diagonal.
Instruction* tangent_of_factor(JvpSite& s, Instruction* factor, Instruction* d_matrix) {
  ir::Builder& b = s.b;
  Instruction* inner = solve(b, factor, d_matrix, true, true, Transpose::none);
  inner = solve(b, factor, inner, false, true, Transpose::adjoint);
  return product(b, factor, half_triangle(b, inner));
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

}  // namespace

/// Of X with T X = B: T dX = dB - dT X, for the diagonals that T consists of.
Tangent of_gtsv(JvpSite& s) {
  ir::Builder& b = s.b;
  Instruction* x = b.get_tuple_element(s.primal(), 3);
  const std::int64_t k = columns_of(x);
  Instruction* right = s.tangent(3);
  // The row of X that each diagonal multiplies: the one above, the own, the one below.
  for (std::size_t i = 0; i < 3; ++i) {
    if (s.dx[i].is_zero() || rows_of(x) == 0) continue;
    const std::int64_t shift = 1 - std::int64_t(i);
    Instruction* moved = shift == 0 ? x : margins(b, x, {shift, -shift, 0}, {});
    right = s.sub(right, s.mul(as_columns(b, s.dx[i].array, k), moved));
  }
  Instruction* call = s.clone_on({s.x[0], s.x[1], s.x[2], right});
  return Tangent::tuple({{}, {}, {}, b.get_tuple_element(call, 3), {}});
}

namespace {

bool is_lapack(const std::string& target, const std::string& routine) {
  // lapack_spotrf_ffi: s, d, c, z for the element type.
  return target.size() == routine.size() + 12 && target.starts_with("lapack_") &&
         target.substr(8, routine.size()) == routine && target.ends_with("_ffi");
}

/// By the routine that the call names.
Tangent of_routine(JvpSite& s) {
  const auto& call = s.get<ir::CustomCallAttrs>();
  const std::string& target = call.target;
  if (call.host != nullptr) {
    if (call.host->kind() == ir::HostCallback::Kind::debug) return {};
    s.refuse(
        "a function of the host has no derivative; put the call into a function with a custom "
        "derivative (custom_jvp, custom_vjp), or call it on stop_gradient() of its arguments");
  }
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
  if (is_lapack(target, "getrf")) return of_getrf(s);
  if (is_lapack(target, "geqrf")) return of_geqrf(s);
  if (is_lapack(target, "orgqr") || is_lapack(target, "ungqr")) return of_orgqr(s);
  if (is_lapack(target, "syevd") || is_lapack(target, "heevd")) return of_syevd(s);
  if (is_lapack(target, "gesdd") || is_lapack(target, "gesvd")) return of_gesdd(s);
  if (is_lapack(target, "gtsv")) return of_gtsv(s);
  if (is_lapack(target, "geev")) return of_geev(s);
  if (is_lapack(target, "gees")) s.refuse("Schur forms of matrices have no derivative");
  if (const ir::CustomCallTarget* known = ir::find_custom_call(target)) {
    if (const ir::Computation* body = known->body(s.b.module(), s.op)) return s.through(*body);
  }
  s.refuse("nothing says what the derivative of a custom call of " + target +
           " is; put it into a function with a custom derivative");
}

}  // namespace
}  // namespace matrices

Tangent jvp_cholesky(JvpSite& s) {
  return matrices::of_cholesky(s, s.primal(), s.get<ir::CholeskyAttrs>().lower);
}

Tangent jvp_triangular_solve(JvpSite& s) {
  return matrices::of_solve(s, s.get<ir::TriangularSolveAttrs>(), 0, 1);
}

Tangent jvp_custom_call(JvpSite& s) { return matrices::of_routine(s); }

}  // namespace tessera::transforms
