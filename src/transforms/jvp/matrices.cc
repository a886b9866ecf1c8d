// SPDX-License-Identifier: Apache-2.0
// Matrices in the last two dims: products, triangles, blocks, diagonals.
#include "src/transforms/jvp/matrices.h"

#include <numeric>

namespace tessera::transforms::matrices {

using ir::Direction;
using ir::Instruction;
using ir::Opcode;

Instruction* swapped(ir::Builder& b, Instruction* x) {
  Dims perm(x->shape.dims.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return b.transpose(x, perm);
}

Instruction* adjoint(JvpSite& s, Instruction* x) { return s.conj(swapped(s.b, x)); }

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

namespace {

Instruction* rows_and_columns(ir::Builder& b, const Shape& shape, Direction rows_to_columns) {
  const Shape places(DType::s32, shape.dims);
  return b.compare(rows_to_columns, b.iota(places, shape.rank() - 2),
                   b.iota(places, shape.rank() - 1));
}

}  // namespace

Instruction* on_diagonal(ir::Builder& b, const Shape& shape) {
  return rows_and_columns(b, shape, Direction::eq);
}

Instruction* triangle(ir::Builder& b, Instruction* x, bool lower, bool strict) {
  const Direction d =
      lower ? (strict ? Direction::gt : Direction::ge) : (strict ? Direction::lt : Direction::le);
  return b.select(rows_and_columns(b, x->shape, d), x, zeros(b, x->shape));
}

Instruction* solve(ir::Builder& b, Instruction* matrix, Instruction* rhs, bool left, bool lower,
                   Transpose transpose_a, bool unit) {
  ir::TriangularSolveAttrs a;
  a.left_side = left;
  a.lower = lower;
  a.unit_diagonal = unit;
  a.transpose_a = transpose_a;
  return b.emit(Opcode::triangular_solve, {matrix, rhs}, a);
}

Instruction* hermitian(JvpSite& s, Instruction* x, bool lower) {
  Instruction* other = adjoint(s, triangle(s.b, x, lower, true));
  Instruction* own = triangle(s.b, x, lower, false);
  if (is_complex(x->shape.dtype)) {
    // The diagonal's imaginary part isn't read.
    own = s.b.select(on_diagonal(s.b, x->shape), in_dtype(s.b, real_of(s.b, own), x->shape.dtype),
                     own);
  }
  return s.add(own, other);
}

Instruction* block(ir::Builder& b, Instruction* x, std::int64_t first_row, std::int64_t end_row,
                   std::int64_t first_column, std::int64_t end_column) {
  Dims starts(x->shape.dims.size(), 0), limits = x->shape.dims;
  const std::size_t row = starts.size() - 2;
  starts[row] = first_row;
  starts[row + 1] = first_column;
  limits[row] = end_row;
  limits[row + 1] = end_column;
  return limits == x->shape.dims && starts == Dims(starts.size(), 0)
             ? x
             : b.slice(x, starts, limits, Dims(starts.size(), 1));
}

Instruction* margins(ir::Builder& b, Instruction* x, ir::PadDim rows, ir::PadDim columns) {
  std::vector<ir::PadDim> dims(x->shape.dims.size());
  dims[dims.size() - 2] = rows;
  dims[dims.size() - 1] = columns;
  return b.pad(x, b.zero(x->shape.dtype), dims);
}

Instruction* unit_matrix(ir::Builder& b, const Shape& shape) {
  return b.select(on_diagonal(b, shape), full(b, shape, 1), zeros(b, shape));
}

Instruction* with_unit_diagonal(ir::Builder& b, Instruction* x) {
  return b.select(on_diagonal(b, x->shape), full(b, x->shape, 1), x);
}

Instruction* diagonal(ir::Builder& b, Instruction* x) {
  Instruction* only = b.select(on_diagonal(b, x->shape), x, zeros(b, x->shape));
  return b.reduce(only, b.zero(x->shape.dtype), {x->shape.rank() - 1},
                  ir::scalar_computation(b.module(), Opcode::add, x->shape.dtype));
}

Instruction* as_rows(ir::Builder& b, Instruction* vector, std::int64_t m) {
  Dims dims = vector->shape.dims, from(dims.size());
  std::iota(from.begin(), from.end(), 0);
  dims.insert(dims.end() - 1, m);
  ++from.back();
  return b.broadcast(vector, dims, from);
}

Instruction* as_columns(ir::Builder& b, Instruction* vector, std::int64_t n) {
  Dims dims = vector->shape.dims, from(dims.size());
  std::iota(from.begin(), from.end(), 0);
  dims.push_back(n);
  return b.broadcast(vector, dims, from);
}

Instruction* in_dtype(ir::Builder& b, Instruction* x, DType dtype) {
  if (x->shape.dtype == dtype) return x;
  return b.binary(Opcode::complex, x, zeros(b, x->shape));
}

Instruction* real_of(ir::Builder& b, Instruction* x) {
  return is_complex(x->shape.dtype) ? b.unary(Opcode::real, x) : x;
}

char option(const JvpSite& s, const std::string& key) {
  const std::string& text = *s.op.backend_config;
  const std::size_t at = text.find(key);
  if (at == std::string::npos) s.refuse("its backend_config lacks " + key);
  const std::size_t digit = text.find_first_of("0123456789", at + key.size());
  if (digit == std::string::npos) s.refuse("its backend_config has no number for " + key);
  return char(std::stoi(text.substr(digit, 3)));
}

Instruction* with_option(JvpSite& s, const std::string& key, char letter, const Shape& shape) {
  std::string text = *s.op.backend_config;
  const std::size_t at = text.find(key), first = text.find_first_of("0123456789", at);
  const std::size_t end = text.find_first_not_of("0123456789", first);
  text.replace(first, end - first, std::to_string(int(letter)));
  Instruction* call = ir::emit_like(s.b, s.op, {s.x[0]}, &shape);
  call->backend_config = text;
  // Of the shapes of the other call.
  call->frontend_attributes.edit().erase("xla.sdy.sharding_rule");
  return call;
}

}  // namespace tessera::transforms::matrices
