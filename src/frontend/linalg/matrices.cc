// SPDX-License-Identifier: Apache-2.0
// Checks of matrices, products, triangular systems and LAPACK calls.
#include "src/frontend/linalg/matrices.h"

#include <limits>

#include <tessera/ops/creation.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/products.h>
#include <tessera/ops/shape_ops.h>

#include "src/codegen/custom_calls/custom_calls.h"
#include "src/ir/analysis/indexed_dims.h"

namespace tessera::frontend::matrices {

DType dtype_of(const std::string& name, const std::vector<Array>& operands, Location location) {
  const DType t = to_inexact(promote(operands, location).dtype);
  if (t == f32 || t == f64 || t == c64 || t == c128) return t;
  std::string what;
  for (const Array& a : operands) {
    what += (what.empty() ? "" : ", ") + abstract_value(a).shape.to_string();
  }
  throw DTypeError(name + " of " + what + " would compute in " + std::string(tessera::name(t)) +
                       "; linear algebra is there for f32, f64, c64 and c128, to which astype "
                       "converts",
                   location);
}

void misfit(const std::string& name, const std::vector<Shape>& shapes, const std::string& why,
            Location location) {
  std::string what;
  for (const Shape& s : shapes) what += (what.empty() ? "" : " and ") + s.to_string();
  throw ShapeError(name + " of " + what + ": " + why, location);
}

void need_matrix(const std::string& name, const Shape& x, Location location) {
  if (x.rank() >= 2) return;
  misfit(name, {x}, "needs matrices, [.., m, n], in the last two dims", location);
}

void need_square(const std::string& name, const Shape& x, Location location) {
  need_matrix(name, x, location);
  const std::int64_t rows = x.dim(x.rank() - 2), columns = x.dim(x.rank() - 1);
  if (rows == columns) return;
  misfit(name, {x},
         "needs square matrices, [.., n, n]; these have " + std::to_string(rows) + " rows and " +
             std::to_string(columns) + " columns",
         location);
}

Dims batch_of(const Dims& dims, std::size_t own) {
  return Dims(dims.begin(), dims.end() - std::ptrdiff_t(own));
}

Dims joined(Dims batch, const Dims& own) {
  batch.insert(batch.end(), own.begin(), own.end());
  return batch;
}

Located with_dims(const Located& x, const Dims& dims) {
  return x.with(broadcasted(x.array, dims, x.location));
}

Located with_batch(const Located& x, const Dims& batch) {
  return with_dims(x, joined(batch, {rows_of(x), columns_of(x)}));
}

Located block(const Located& x, std::int64_t first_row, std::int64_t end_row,
              std::int64_t first_column, std::int64_t end_column) {
  if (first_row == 0 && end_row == rows_of(x) && first_column == 0 && end_column == columns_of(x)) {
    return x;
  }
  Dims starts(dims_of(x).size(), 0), limits = dims_of(x);
  const std::size_t row = starts.size() - 2;
  starts[row] = first_row;
  starts[row + 1] = first_column;
  limits[row] = end_row;
  limits[row + 1] = end_column;
  return x.with(slice(Operand(x), starts, limits));
}

Located entry(const Located& x, std::int64_t row, std::int64_t column) {
  const Located one = block(x, row, row + 1, column, column + 1);
  return x.with(reshaped(one.array, batch_of(dims_of(x)), x.location));
}

Located identity(const Located& like, std::int64_t n) {
  return like.with(eye(n, n, 0, like.dtype(), like.location));
}

Located diagonal_of(const Located& x) { return x.with(diagonal(Operand(x), 0, -2, -1)); }
Located swapped(const Located& x) { return x.with(swapaxes(Operand(x), -1, -2)); }
Located conjugate(const Located& x) { return is_complex(x.dtype()) ? x.with(conj(Operand(x))) : x; }
Located adjoint(const Located& x) { return conjugate(swapped(x)); }
Located real_part(const Located& x) { return is_complex(x.dtype()) ? x.with(real(Operand(x))) : x; }
Located magnitude(const Located& x) { return x.with(tessera::abs(Operand(x))); }
Located as_column(const Located& x) { return x.with(expand_dims(Operand(x), -1)); }
Located times(const Located& a, const Located& b) {
  return a.with(matmul(Operand(a), Operand(b), {.precision = Precision::highest}));
}

Located nan_unless(const Located& ok, const Located& x) {
  const Dims batch = dims_of(ok), dims = dims_of(x);
  const Dims ones(dims.size() - batch.size(), 1);
  const Located mask =
      with_dims(ok.with(reshaped(ok.array, joined(batch, ones), ok.location)), dims);
  const Located nan = with_dims(x.constant(std::numeric_limits<double>::quiet_NaN()), dims);
  return choose(mask, x, nan);
}

Located symmetrized(const Located& x) { return (x + adjoint(x)) * 0.5; }

Located solved(const Located& matrix, const Located& rhs, const Triangle& triangle) {
  using Transpose = ir::TriangularSolveAttrs::Transpose;
  ir::TriangularSolveAttrs a;
  a.left_side = triangle.left;
  a.lower = triangle.lower;
  a.unit_diagonal = triangle.unit;
  Located m = matrix;
  if (triangle.transposed) {
    a.transpose_a = triangle.conjugated ? Transpose::adjoint : Transpose::transpose;
  } else if (triangle.conjugated) {
    m = conjugate(matrix);
  }
  const std::vector<Array> operands{m.array, rhs.array};
  return rhs.with(
      apply(ir::Opcode::triangular_solve, operands, a, rhs.location, "triangular_solve"));
}

Located take_rows(const Located& x, const Located& places) {
  if (x.array.size() == 0) return x;
  const std::vector<Array> operands{x.array, places.array};
  return x.with(
      apply(ir::Opcode::gather, operands, ir::gather_of_rows(dims_of(x)), x.location, "take_rows"));
}

namespace {

/// Column-major, batches outside: what LAPACK takes.
Shape column_major(DType dtype, const Dims& dims, std::size_t batch) {
  Shape out(dtype, dims);
  const std::int64_t rank = out.rank();
  if (dims.size() != batch + 2) return out;
  out.layout = {rank - 2, rank - 1};
  for (std::int64_t d = rank - 3; d >= 0; --d) out.layout.push_back(d);
  return out;
}

char letter_of(DType t) { return t == f32 ? 's' : t == f64 ? 'd' : t == c64 ? 'c' : 'z'; }

}  // namespace

std::vector<Located> call_lapack(const std::string& routine, const std::vector<Located>& operands,
                                 const std::vector<LapackResult>& results,
                                 const CallAttributes& attributes, std::size_t own) {
  codegen::register_builtin_custom_calls();
  const Located& first = operands[0];
  const Dims batch = batch_of(dims_of(first), own);
  ir::CustomCallAttrs attrs;
  attrs.target = "lapack_" + (letter_of(first.dtype()) + routine) + "_ffi";
  attrs.api_version = "API_VERSION_TYPED_FFI";
  std::string layouts;
  std::vector<Array> arrays;
  for (const Located& o : operands) {
    arrays.push_back(o.array);
    layouts += layouts.empty() ? "{" : ", ";
    layouts += column_major(o.dtype(), dims_of(o), batch.size()).to_string_with_layout();
  }
  attrs.other.emplace_back("operand_layout_constraints", layouts + "}");
  std::vector<Shape> shapes;
  for (const LapackResult& r : results) {
    shapes.push_back(column_major(r.dtype, joined(batch, r.own), batch.size()));
  }
  const Shape shape = shapes.size() == 1 ? shapes[0] : Shape::tuple(shapes);
  Trace& trace = *Trace::current();
  const std::vector<Array> made =
      apply_many(ir::Opcode::custom_call, arrays, attrs, first.location, attrs.target, &shape);
  ir::Instruction* call = trace.lift(made[0], first.location);
  while (call->is(ir::Opcode::sharding_constraint)) call = call->operand(0);
  if (call->is(ir::Opcode::get_tuple_element)) call = call->operand(0);
  call->backend_config = attributes.to_string();
  call->frontend_attributes.edit()["num_batch_dims"] = std::to_string(batch.size());
  std::vector<Located> out;
  for (const Array& a : made) out.push_back(first.with(a));
  return out;
}

}  // namespace tessera::frontend::matrices
