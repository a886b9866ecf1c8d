// SPDX-License-Identifier: Apache-2.0
// Derivatives of LU and QR factors as LAPACK gives them: getrf, geqrf, orgqr.
#include <algorithm>

#include "src/ir/analysis/indexed_dims.h"
#include "src/transforms/jvp/matrices.h"

namespace tessera::transforms::matrices {

using ir::Computation;
using ir::Direction;
using ir::Instruction;
using ir::Opcode;

// ------------------------------------------------------------------ LU

namespace {

/// One exchange of rows: order[.., i] and order[.., pivots[.., i] - 1], of {i, order, pivots}.
Computation* exchange(ir::Module* module, const Shape& carried) {
  ir::Builder b(module->add_computation("exchange_rows"));
  Instruction* state = b.parameter(0, carried);
  Instruction* i = b.get_tuple_element(state, 0);
  Instruction* order = b.get_tuple_element(state, 1);
  Instruction* pivots = b.get_tuple_element(state, 2);
  const std::int64_t dim = order->shape.rank() - 1;
  Instruction* one = b.scalar(DType::s32, 1);
  std::vector<Instruction*> starts(std::size_t(dim), b.zero(DType::s32));
  starts.push_back(i);
  Dims sizes = pivots->shape.dims;
  sizes.back() = 1;
  Instruction* pivot = b.dynamic_slice(pivots, starts, sizes);
  pivot = b.binary(Opcode::subtract, pivot, full(b, pivot->shape, 1));
  const Dims& dims = order->shape.dims;
  const Dims batch(dims.begin(), dims.end() - 1);
  Dims all;
  for (std::int64_t d = 0; d < dim; ++d) all.push_back(d);
  const auto spread = [&](Instruction* per_batch) { return b.broadcast(per_batch, dims, all); };
  Instruction* places = b.iota(order->shape, dim);
  Instruction* here = b.compare(Direction::eq, places, b.splat(i, dims));
  Instruction* there = b.compare(Direction::eq, places, spread(b.reshape(pivot, batch)));
  const auto value_at = [&](Instruction* mask) {
    Instruction* only = b.select(mask, order, zeros(b, order->shape));
    return spread(b.reduce(only, b.zero(DType::s32), {dim},
                           ir::scalar_computation(module, Opcode::add, DType::s32)));
  };
  Instruction* next = b.select(here, value_at(there), b.select(there, value_at(here), order));
  b.computation()->set_root(b.tuple({b.binary(Opcode::add, i, one), next, pivots}));
  return b.computation();
}

/// Which row of the matrix is row i of the factors' product: s32[.., m] of pivots s32[.., k].
Instruction* order_of(ir::Builder& b, Instruction* pivots, std::int64_t m) {
  const std::int64_t k = pivots->shape.dims.back();
  Shape order(DType::s32, pivots->shape.dims);
  order.dims.back() = m;
  Instruction* places = b.iota(order, order.rank() - 1);
  const Shape carried =
      Shape::tuple({Shape(DType::s32, {}), order, Shape(DType::s32, pivots->shape.dims)});
  ir::Builder c(b.module()->add_computation("more_rows"));
  Instruction* state = c.parameter(0, carried);
  c.computation()->set_root(
      c.compare(Direction::lt, c.get_tuple_element(state, 0), c.scalar(DType::s32, double(k))));
  Instruction* init = b.tuple({b.zero(DType::s32), places, pivots});
  Instruction* loop = b.while_loop(c.computation(), exchange(b.module(), carried), init, k);
  return b.get_tuple_element(loop, 1);
}

}  // namespace

/// Of P A = L U: F = L^-1 P dA U^-1 is L^-1 dL + dU U^-1, a strict lower triangle and an upper one.
/// L and U are completed by parts of the unit matrix to square ones.
Tangent of_getrf(JvpSite& s) {
  ir::Builder& b = s.b;
  const std::int64_t m = rows_of(s.x[0]), n = columns_of(s.x[0]), k = std::min(m, n);
  if (k == 0) return {};
  Instruction* packed = b.get_tuple_element(s.primal(), 0);
  Instruction* order = order_of(b, b.get_tuple_element(s.primal(), 1), m);
  Instruction* l = triangle(b, block(b, packed, 0, m, 0, k), true, true);
  if (m > k) l = margins(b, l, {}, {0, m - k, 0});
  l = with_unit_diagonal(b, l);
  Instruction* u = triangle(b, block(b, packed, 0, k, 0, n), false, false);
  if (n > k) {
    u = margins(b, u, {0, n - k, 0}, {});
    Instruction* below =
        b.compare(Direction::ge, b.iota(Shape(DType::s32, u->shape.dims), u->shape.rank() - 2),
                  full(b, Shape(DType::s32, u->shape.dims), double(k)));
    u = b.select(b.binary(Opcode::and_, below, on_diagonal(b, u->shape)), full(b, u->shape, 1), u);
  }
  Instruction* dx = s.dx[0].array;
  Instruction* f = b.emit(Opcode::gather, {dx, order}, ir::gather_of_rows(dx->shape.dims));
  f = solve(b, l, f, true, true, Transpose::none, true);
  f = solve(b, u, f, false, false, Transpose::none);
  Instruction* dl = product(b, l, triangle(b, f, true, true));
  Instruction* du = product(b, triangle(b, f, false, false), u);
  return Tangent::tuple({s.add(dl, du), {}, {}});
}

// ------------------------------------------------------------------ QR

namespace {

/// H = I - V T V^H is the product of reflectors; V has ones on the diagonal, zeros above. T is
/// (I + D S)^-1 D for D = diag(taus), S the strict upper triangle of V^H V: also where taus vanish.
struct Reflectors {
  Instruction* v;       ///< [.., m, t]
  Instruction* gram;    ///< V^H V
  Instruction* scaled;  ///< D S
  Instruction* taus;    ///< each row times its tau: [.., t, t]
  Instruction* t;       ///< T
};

Reflectors reflectors(JvpSite& s, Instruction* packed, Instruction* taus) {
  ir::Builder& b = s.b;
  const std::int64_t m = rows_of(packed), t = taus->shape.dims.back();
  Reflectors r{};
  r.v = with_unit_diagonal(b, triangle(b, block(b, packed, 0, m, 0, t), true, true));
  r.gram = product(b, adjoint(s, r.v), r.v);
  r.taus = as_columns(b, taus, t);
  r.scaled = s.mul(r.taus, triangle(b, r.gram, false, true));
  Instruction* d = s.mul(r.taus, unit_matrix(b, r.taus->shape));
  r.t = solve(b, r.scaled, d, true, false, Transpose::none, true);
  return r;
}

/// The first n columns of H.
Instruction* columns_of_product(JvpSite& s, const Reflectors& r, std::int64_t n) {
  ir::Builder& b = s.b;
  const std::int64_t t = columns_of(r.v);
  Instruction* top = adjoint(s, block(b, r.v, 0, n, 0, t));
  Instruction* moved = product(b, product(b, r.v, r.t), top);
  return s.sub(unit_matrix(b, moved->shape), moved);
}

/// Of Q R = X for X of no more columns than rows, by dX: Q^H dX R^-1 is Q^H dQ + dR R^-1, skew
/// hermitian and upper triangular with a real diagonal.
std::pair<Instruction*, Instruction*> thin_qr(JvpSite& s, Instruction* q, Instruction* r,
                                              Instruction* dx) {
  ir::Builder& b = s.b;
  Instruction* right = solve(b, r, dx, false, false, Transpose::none);
  Instruction* f = product(b, adjoint(s, q), right);
  Instruction* low = triangle(b, f, true, true);
  Instruction* skew = s.sub(low, adjoint(s, low));
  if (is_complex(f->shape.dtype)) {
    Instruction* imaginary = s.sub(f, in_dtype(b, real_of(b, f), f->shape.dtype));
    skew = s.add(skew, b.select(on_diagonal(b, f->shape), imaginary, zeros(b, f->shape)));
  }
  Instruction* upper = s.sub(f, skew);
  Instruction* dq = s.add(s.sub(product(b, q, skew), product(b, q, f)), right);
  return {dq, product(b, upper, r)};
}

}  // namespace

/// dQ and dR as of any QR factors; what they say of the reflectors follows from the columns of Q:
/// I - Q = V (T V1^H) are LU factors, of which the diagonal of the upper one has the taus.
Tangent of_geqrf(JvpSite& s) {
  ir::Builder& b = s.b;
  const std::int64_t m = rows_of(s.x[0]), n = columns_of(s.x[0]), k = std::min(m, n);
  if (k == 0) return {};
  Instruction* packed = b.get_tuple_element(s.primal(), 0);
  Instruction* taus = b.get_tuple_element(s.primal(), 1);
  const Reflectors h = reflectors(s, block(b, packed, 0, m, 0, k), taus);
  Instruction* q = columns_of_product(s, h, k);
  Instruction* r = triangle(b, block(b, packed, 0, k, 0, k), false, false);
  Instruction* dx = s.dx[0].array;
  const auto [dq, dr1] = thin_qr(s, q, r, block(b, dx, 0, m, 0, k));
  Instruction* dr = dr1;
  if (n > k) {
    Instruction* rest = s.add(product(b, adjoint(s, dq), block(b, s.x[0], 0, m, k, n)),
                              product(b, adjoint(s, q), block(b, dx, 0, m, k, n)));
    dr = b.concatenate({dr1, rest}, dr1->shape.rank() - 1);
  }
  // Of the last reflector of a square matrix tau may be 0, and V has nothing that moves: any number
  // in its place gives the same.
  Instruction* v1 = block(b, h.v, 0, k, 0, k);
  Instruction* u = product(b, h.t, adjoint(s, v1));
  Instruction* none = b.compare(Direction::eq, h.taus, zeros(b, h.taus->shape));
  u = b.select(b.binary(Opcode::and_, none, on_diagonal(b, u->shape)), full(b, u->shape, 1), u);
  Instruction* right = solve(b, u, s.neg(dq), false, false, Transpose::none);
  Instruction* f = solve(b, v1, block(b, right, 0, k, 0, k), true, true, Transpose::none, true);
  Instruction* upper = triangle(b, f, false, false);
  Instruction* dv = triangle(b, s.sub(right, product(b, h.v, upper)), true, true);
  Instruction* dtaus = diagonal(b, product(b, upper, u));
  dr = triangle(b, dr, false, false);
  if (m > k) dr = margins(b, dr, {0, m - k, 0}, {});
  if (n > k) dv = margins(b, dv, {}, {0, n - k, 0});
  std::vector<Tangent> out{s.add(dr, dv), dtaus};
  out.resize(s.shape().elements.size());
  return Tangent::tuple(std::move(out));
}

/// Of the first columns of H = I - V T V^H, by dV and the taus' tangents.
Tangent of_orgqr(JvpSite& s) {
  ir::Builder& b = s.b;
  const std::int64_t n = columns_of(s.x[0]), m = rows_of(s.x[0]);
  const std::int64_t t = s.x[1]->shape.dims.back();
  if (m == 0 || n == 0 || t == 0) return {};
  const Reflectors h = reflectors(s, s.x[0], s.x[1]);
  Instruction* top = adjoint(s, block(b, h.v, 0, n, 0, t));
  Instruction* moved = nullptr;
  // (I + D S) dT = dD (I - S T) - D dS T
  Instruction* right = nullptr;
  if (!s.dx[1].is_zero()) {
    Instruction* st = product(b, triangle(b, h.gram, false, true), h.t);
    right = s.mul(as_columns(b, s.dx[1].array, t), s.sub(unit_matrix(b, st->shape), st));
  }
  if (!s.dx[0].is_zero()) {
    Instruction* dv = triangle(b, block(b, s.dx[0].array, 0, m, 0, t), true, true);
    Instruction* half = product(b, adjoint(s, h.v), dv);
    Instruction* ds = triangle(b, s.add(half, adjoint(s, half)), false, true);
    Instruction* less = product(b, s.mul(h.taus, ds), h.t);
    right = right ? s.sub(right, less) : s.neg(less);
    Instruction* dtop = adjoint(s, block(b, dv, 0, n, 0, t));
    moved = s.add(product(b, product(b, dv, h.t), top), product(b, product(b, h.v, h.t), dtop));
  }
  Instruction* dt = solve(b, h.scaled, right, true, false, Transpose::none, true);
  Instruction* inner = product(b, product(b, h.v, dt), top);
  Instruction* dq = s.neg(moved ? s.add(moved, inner) : inner);
  if (!s.shape().is_tuple) return dq;
  std::vector<Tangent> out{dq};
  out.resize(s.shape().elements.size());
  return Tangent::tuple(std::move(out));
}

}  // namespace tessera::transforms::matrices
