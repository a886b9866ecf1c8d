// SPDX-License-Identifier: Apache-2.0
// Formulas on batches of matrices, [batch, m, n], as they are emitted into a computation.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/ir/rewrite/builder.h"

namespace tessera::compiler::accelerators {

/// An array in the computation that `b` builds. Operands of an operator have the same dims, or one
/// is a scalar or a number, which then stands for all elements.
struct Expr {
  ir::Builder* b = nullptr;
  ir::Instruction* i = nullptr;

  DType dtype() const { return i->shape.dtype; }
  const Dims& dims() const { return i->shape.dims; }
  std::int64_t rank() const { return std::int64_t(dims().size()); }
  std::int64_t rows() const { return dims()[dims().size() - 2]; }
  std::int64_t columns() const { return dims().back(); }
};
using Exprs = std::vector<Expr>;

/// Dims of matrices that have another size.
Dims with_size(Dims dims, std::int64_t rows, std::int64_t columns);
/// Dims of what there is one of for each matrix, row or column.
Dims batch_of(const Dims& matrices);
Dims rows_of(const Dims& matrices);
Dims columns_of(const Dims& matrices);

Expr filled(ir::Builder* b, DType t, const Dims& dims, double value);
/// Of x's type and dims.
Expr filled(Expr x, double value);
Expr iota(ir::Builder* b, const Dims& dims, std::int64_t dim);
/// Numbers of the rows or columns that elements of x stand in.
Expr row_numbers(Expr x);
Expr column_numbers(Expr x);

Expr unary(ir::Opcode opcode, Expr x);
Expr binary(ir::Opcode opcode, Expr x, Expr y);
Expr compare(ir::Direction direction, Expr x, Expr y);
Expr choose(Expr mask, Expr yes, Expr no);
inline Expr choose(Expr mask, Expr yes, double no) { return choose(mask, yes, filled(yes, no)); }
inline Expr choose(Expr mask, double yes, Expr no) { return choose(mask, filled(no, yes), no); }
inline Expr operator+(Expr x, Expr y) { return binary(ir::Opcode::add, x, y); }
inline Expr operator-(Expr x, Expr y) { return binary(ir::Opcode::subtract, x, y); }
inline Expr operator*(Expr x, Expr y) { return binary(ir::Opcode::multiply, x, y); }
inline Expr operator/(Expr x, Expr y) { return binary(ir::Opcode::divide, x, y); }
inline Expr operator&(Expr x, Expr y) { return binary(ir::Opcode::and_, x, y); }
inline Expr operator-(Expr x) { return unary(ir::Opcode::negate, x); }
inline Expr operator+(Expr x, double y) { return x + filled(x, y); }
inline Expr operator/(double x, Expr y) { return filled(y, x) / y; }
inline Expr operator==(Expr x, Expr y) { return compare(ir::Direction::eq, x, y); }
inline Expr operator>=(Expr x, Expr y) { return compare(ir::Direction::ge, x, y); }
inline Expr operator<=(Expr x, Expr y) { return compare(ir::Direction::le, x, y); }
inline Expr operator>(Expr x, Expr y) { return compare(ir::Direction::gt, x, y); }
inline Expr operator<(Expr x, Expr y) { return compare(ir::Direction::lt, x, y); }
inline Expr operator==(Expr x, double y) { return x == filled(x, y); }
inline Expr operator!=(Expr x, Expr y) { return compare(ir::Direction::ne, x, y); }
inline Expr operator!=(Expr x, double y) { return x != filled(x, y); }
inline Expr operator>=(Expr x, double y) { return x >= filled(x, y); }
inline Expr operator>(Expr x, double y) { return x > filled(x, y); }
inline Expr operator<(Expr x, double y) { return x < filled(x, y); }
inline Expr sqrt(Expr x) { return unary(ir::Opcode::sqrt, x); }
/// Of complex numbers: their absolute value.
inline Expr abs(Expr x) { return unary(ir::Opcode::abs, x); }
Expr convert(Expr x, DType t);

/// What follows takes real numbers, too, and gives them back where that is the answer.
Expr real(Expr x);
Expr imag(Expr x);
Expr conjugate(Expr x);
/// |x|^2, as a real number.
Expr squares(Expr x);
/// A real number as one of type `t`.
Expr as_type(Expr x, DType t);

/// The dims of x are those of `dims` with these numbers.
Expr broadcast(Expr x, const Dims& dims, Dims at);
/// A value of each matrix, [batch], for what begins with the same dims.
Expr per_matrix(Expr x, const Dims& dims);
/// A value of each row, [batch, m], or column, [batch, n], for all of a matrix's elements.
Expr per_row(Expr x, const Dims& matrices);
Expr per_column(Expr x, const Dims& matrices);

Expr reduce(Expr x, Dims dims, ir::Opcode by, double start);
/// One value of each matrix.
Expr sum_of_matrix(Expr x);
Expr max_of_matrix(Expr x, double least);
Expr min_of_matrix(Expr x, double most);
/// [batch, m]: over the columns. [batch, n]: over the rows.
Expr sum_over_columns(Expr x);
Expr sum_over_rows(Expr x);
/// The one column or row that the mask has.
Expr column(Expr x, Expr mask);
Expr row(Expr x, Expr mask);

Expr columns(Expr x, std::int64_t begin, std::int64_t end);
Expr rows(Expr x, std::int64_t begin, std::int64_t end);
/// Matrices side by side.
Expr beside(const Exprs& parts);
/// Zeros behind rows and columns.
Expr padded(Expr x, std::int64_t rows, std::int64_t columns);
Expr adjoint(Expr x);
Expr unit(ir::Builder* b, DType t, const Dims& matrices);
/// Along the last dim, by the first, stably.
Exprs sorted(const Exprs& xs, ir::Direction direction);

/// Repeats `step` while `goes_on`. What both are given stands in computations of their own: it
/// can't be used with anything that was made outside.
Exprs loop(const std::string& name, const Exprs& initial,
           const std::function<Expr(const Exprs& state)>& goes_on,
           const std::function<Exprs(const Exprs& state)>& step);
/// For k = 0 to steps - 1, an s32.
Exprs counted_loop(const std::string& name, std::int64_t steps, const Exprs& initial,
                   const std::function<Exprs(Expr k, const Exprs& state)>& step);

}  // namespace tessera::compiler::accelerators
