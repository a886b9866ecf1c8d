// SPDX-License-Identifier: Apache-2.0
// Derivatives of eigenvalues and of singular values, with their vectors: syevd, heevd, gesdd,
// gesvd.
#include <algorithm>

#include "src/transforms/jvp/matrices.h"

namespace tessera::transforms::matrices {

using ir::Direction;
using ir::Instruction;
using ir::Opcode;

namespace {

/// 1 / x, and 0 where `zero`.
Instruction* inverse_or_zero(JvpSite& s, Instruction* x, Instruction* zero) {
  Instruction* one = full(s.b, x->shape, 1);
  Instruction* safe = s.b.select(zero, one, x);
  return s.b.select(zero, zeros(s.b, x->shape), s.div(one, safe));
}

}  // namespace

/// First-order perturbation theory of simple eigenvalues: V^H dA V has the eigenvalues' tangents on
/// its diagonal; divided by their differences, those of the vectors in terms of V.
Tangent of_syevd(JvpSite& s) {
  ir::Builder& b = s.b;
  if (columns_of(s.x[0]) == 0) return {};
  const bool vectors = option(s, "mode") == 'V';
  Instruction* call = vectors ? s.primal() : with_option(s, "mode", 'V', s.op.shape);
  Instruction* v = b.get_tuple_element(call, 0);
  Instruction* w = b.get_tuple_element(call, 1);
  const std::int64_t n = columns_of(v);
  Instruction* d = hermitian(s, s.dx[0].array, option(s, "uplo") == 'L');
  Instruction* inner = product(b, product(b, adjoint(s, v), d), v);
  Instruction* dw = diagonal(b, real_of(b, inner));
  std::vector<Tangent> out(s.shape().elements.size());
  out[1] = dw;
  if (vectors) {
    Instruction* apart = s.sub(as_rows(b, w, n), as_columns(b, w, n));
    Instruction* f = inverse_or_zero(s, apart, on_diagonal(b, apart->shape));
    out[0] = product(b, v, s.mul(in_dtype(b, f, v->shape.dtype), inner));
  }
  return Tangent::tuple(std::move(out));
}

/// As of JAX: with dS = U^H dA V, the diagonal of which has the singular values' tangents.
Tangent of_gesdd(JvpSite& s) {
  ir::Builder& b = s.b;
  const std::int64_t m = rows_of(s.x[0]), n = columns_of(s.x[0]), k = std::min(m, n);
  if (k == 0) return {};
  const char mode = option(s, "mode");
  if (mode == 'A' && m != n) {
    s.refuse("of singular vectors of a matrix of " + std::to_string(m) + " rows and " +
             std::to_string(n) +
             " columns those beyond the least size have no derivative; compute them with "
             "full_matrices = false");
  }
  const DType t = s.x[0]->shape.dtype;
  Instruction* call = s.primal();
  if (mode == 'N') {
    Shape shape = s.op.shape;
    const auto size = std::size_t(s.x[0]->shape.rank());
    shape.elements[2].dims[size - 1] = k;
    shape.elements[3].dims[size - 2] = k;
    call = with_option(s, "mode", 'S', shape);
  }
  Instruction* sv = b.get_tuple_element(call, 1);
  Instruction* u = b.get_tuple_element(call, 2);
  Instruction* vh = b.get_tuple_element(call, 3);
  Instruction* uh = adjoint(s, u);
  Instruction* v = adjoint(s, vh);
  Instruction* da = s.dx[0].array;
  Instruction* dav = product(b, da, v);
  Instruction* ds = product(b, uh, dav);
  std::vector<Tangent> out(s.shape().elements.size());
  out[1] = diagonal(b, real_of(b, ds));
  if (mode == 'N') return Tangent::tuple(std::move(out));
  Instruction* by_row = as_rows(b, sv, k);
  Instruction* by_column = as_columns(b, sv, k);
  Instruction* eye = on_diagonal(b, by_row->shape);
  Instruction* apart = s.mul(s.add(by_row, by_column), s.sub(by_row, by_column));
  Instruction* f = in_dtype(b, inverse_or_zero(s, apart, eye), t);
  Instruction* right = s.mul(in_dtype(b, by_row, t), ds);    // dS diag(s)
  Instruction* left = s.mul(in_dtype(b, by_column, t), ds);  // diag(s) dS
  Instruction* du = s.mul(f, s.add(right, adjoint(s, right)));
  Instruction* dv = s.mul(f, s.add(left, adjoint(s, left)));
  if (is_complex(t)) {
    // Half of the phases' change is that of u: all of it, as LAPACK leaves v's.
    Instruction* zero = b.compare(Direction::eq, by_row, zeros(b, by_row->shape));
    Instruction* inverse = inverse_or_zero(s, by_row, zero);
    inverse = b.select(eye, inverse, zeros(b, inverse->shape));
    Instruction* skew = s.mul(s.sub(ds, adjoint(s, ds)), full(b, ds->shape, 0.5));
    du = s.add(du, s.mul(skew, in_dtype(b, inverse, t)));
  }
  du = product(b, u, du);
  dv = product(b, v, dv);
  if (m > n) {
    Instruction* outside = s.sub(dav, product(b, u, ds));
    du = s.add(du, s.div(outside, in_dtype(b, as_rows(b, sv, m), t)));
  }
  if (n > m) {
    Instruction* dahu = product(b, adjoint(s, da), u);
    Instruction* outside = s.sub(dahu, product(b, v, product(b, vh, dahu)));
    dv = s.add(dv, s.div(outside, in_dtype(b, as_rows(b, sv, n), t)));
  }
  out[2] = du;
  out[3] = adjoint(s, dv);
  return Tangent::tuple(std::move(out));
}

}  // namespace tessera::transforms::matrices
