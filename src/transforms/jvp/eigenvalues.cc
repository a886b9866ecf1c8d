// SPDX-License-Identifier: Apache-2.0
// Derivatives of eigenvalues and eigenvectors of general matrices: geev.
#include "src/transforms/jvp/matrices.h"

namespace tessera::transforms::matrices {

using ir::Direction;
using ir::Instruction;
using ir::Opcode;

namespace {

/// Column-major, batches outside: what LAPACK takes.
Shape column_major(Shape shape, std::int64_t batch) {
  const std::int64_t rank = shape.rank();
  if (rank != batch + 2) return shape;
  shape.layout = {rank - 2, rank - 1};
  for (std::int64_t d = batch - 1; d >= 0; --d) shape.layout.push_back(d);
  return shape;
}

/// A routine of c64 or c128 matrices in the last two dims of its first operand.
Instruction* lapack(ir::Builder& b, const std::string& routine,
                    const std::vector<Instruction*>& operands, std::vector<Shape> results) {
  const std::int64_t batch = operands[0]->shape.rank() - 2;
  ir::CustomCallAttrs attrs;
  attrs.target = std::string("lapack_") + (operands[0]->shape.dtype == DType::c128 ? "z" : "c") +
                 routine + "_ffi";
  attrs.api_version = "API_VERSION_TYPED_FFI";
  std::string layouts;
  for (const Instruction* o : operands) {
    layouts += layouts.empty() ? "{" : ", ";
    layouts += column_major(o->shape, batch).to_string_with_layout();
  }
  attrs.other.emplace_back("operand_layout_constraints", layouts + "}");
  for (Shape& shape : results) shape = column_major(std::move(shape), batch);
  const Shape shape = results.size() == 1 ? results[0] : Shape::tuple(results);
  Instruction* call = b.emit_shaped(Opcode::custom_call, shape, operands, attrs);
  call->backend_config = std::string("{}");
  call->frontend_attributes.edit()["num_batch_dims"] = std::to_string(batch);
  return call;
}

/// V^-1 X of general matrices, by the QR factors of V: both have derivatives.
class Inverse {
 public:
  Inverse(JvpSite& s, Instruction* v) : s_(s) {
    Shape taus = v->shape;
    taus.dims.pop_back();
    Instruction* factors = lapack(s.b, "geqrf", {v}, {v->shape, taus});
    packed_ = s.b.get_tuple_element(factors, 0);
    q_ = lapack(s.b, "ungqr", {packed_, s.b.get_tuple_element(factors, 1)}, {v->shape});
  }
  Instruction* times(Instruction* x) {
    Instruction* upper = triangle(s_.b, packed_, false, false);
    return solve(s_.b, upper, product(s_.b, adjoint(s_, q_), x), true, false, Transpose::none);
  }

 private:
  JvpSite& s_;
  Instruction *packed_ = nullptr, *q_ = nullptr;
};

Instruction* sum_over_rows(ir::Builder& b, Instruction* x) {
  return b.reduce(x, b.zero(x->shape.dtype), {x->shape.rank() - 2},
                  ir::scalar_computation(b.module(), Opcode::add, x->shape.dtype));
}

Instruction* imag_of(ir::Builder& b, Instruction* x) { return b.unary(Opcode::imag, x); }

/// For each column the first entry of greatest magnitude: pred [.., n, n].
Instruction* greatest_entries(ir::Builder& b, Instruction* v) {
  Instruction* size = b.unary(Opcode::abs, v);
  const std::int64_t rows = rows_of(v), dim = v->shape.rank() - 2;
  const DType t = size->shape.dtype;
  Instruction* most =
      b.reduce(size, b.zero(t), {dim}, ir::scalar_computation(b.module(), Opcode::maximum, t));
  Instruction* hit = b.compare(Direction::ge, size, as_rows(b, most, rows));
  const Shape places(DType::s32, v->shape.dims);
  Instruction* row = b.iota(places, dim);
  Instruction* candidates = b.select(hit, row, full(b, places, double(rows)));
  Instruction* first = b.reduce(candidates, b.scalar(DType::s32, double(rows)), {dim},
                                ir::scalar_computation(b.module(), Opcode::minimum, DType::s32));
  return b.compare(Direction::eq, row, as_rows(b, first, rows));
}

/// Tangents of eigenvalues w and eigenvectors v of A, where A changes by d.
struct EigenTangents {
  Instruction *values = nullptr, *vectors = nullptr;
};

/// Perturbation theory of simple eigenvalues. With P = V^-1 dA V the values' tangents are on the
/// diagonal of P, and those of the vectors V (F * P) + V diag(c), F[i, j] = 1 / (w[j] - w[i]). The
/// numbers c keep what LAPACK makes of each vector: norm 1, and a real entry of greatest magnitude.
EigenTangents perturbed(JvpSite& s, Instruction* w, Instruction* v, Instruction* d) {
  ir::Builder& b = s.b;
  const std::int64_t n = columns_of(v);
  Instruction* p = Inverse(s, v).times(product(b, d, v));
  EigenTangents out;
  out.values = diagonal(b, p);
  Instruction* apart = s.sub(as_rows(b, w, n), as_columns(b, w, n));
  Instruction* eye = on_diagonal(b, apart->shape);
  Instruction* one = full(b, apart->shape, 1);
  Instruction* f = b.select(eye, zeros(b, apart->shape), s.div(one, b.select(eye, one, apart)));
  Instruction* u = product(b, v, s.mul(f, p));
  Instruction* along = s.neg(real_of(b, sum_over_rows(b, s.mul(s.conj(v), u))));
  Instruction* entry = greatest_entries(b, v);
  const auto entry_of = [&](Instruction* x) {
    return sum_over_rows(b, b.select(entry, x, zeros(b, x->shape)));
  };
  Instruction* turned = s.neg(s.div(imag_of(b, entry_of(u)), real_of(b, entry_of(v))));
  Instruction* c = b.binary(Opcode::complex, along, turned);
  out.vectors = s.add(u, s.mul(v, as_rows(b, c, n)));
  return out;
}

}  // namespace

Tangent of_geev(JvpSite& s) {
  ir::Builder& b = s.b;
  const std::int64_t n = columns_of(s.x[0]);
  if (n == 0) return {};
  const bool complex = is_complex(s.x[0]->shape.dtype);
  const bool left = option(s, "compute_left") == 'V', right = option(s, "compute_right") == 'V';
  Instruction* call = right ? s.primal() : with_option(s, "compute_right", 'V', s.op.shape);
  const std::int64_t first = complex ? 1 : 2;  // of the vectors
  Instruction* w = b.get_tuple_element(call, 0);
  if (!complex) w = b.binary(Opcode::complex, w, b.get_tuple_element(call, 1));
  Instruction* v = b.get_tuple_element(call, first + 1);
  Instruction* d = in_dtype(b, s.dx[0].array, v->shape.dtype);
  const EigenTangents t = perturbed(s, w, v, d);
  std::vector<Tangent> out(s.shape().elements.size());
  out[0] = complex ? t.values : real_of(b, t.values);
  if (!complex) out[1] = imag_of(b, t.values);
  if (right) out[std::size_t(first + 1)] = t.vectors;
  if (left) {
    // Left vectors are right ones of the adjoint.
    Instruction* vl = b.get_tuple_element(call, first);
    out[std::size_t(first)] = perturbed(s, s.conj(w), vl, adjoint(s, d)).vectors;
  }
  return Tangent::tuple(std::move(out));
}

}  // namespace tessera::transforms::matrices
