// SPDX-License-Identifier: Apache-2.0
// Emits what formulas on matrices are made of.
#include "src/compiler/accelerators/matrix_formulas.h"

#include <optional>
#include <utility>

#include "src/base/check.h"
#include "src/ir/analysis/layouts.h"

namespace tessera::compiler::accelerators {

using ir::Builder;
using ir::Instruction;
using ir::Opcode;

namespace {

/// A scalar for all elements.
Expr spread(Expr x, const Dims& dims) {
  return x.rank() == 0 ? Expr{x.b, x.b->splat(x.i, dims)} : x;
}

Expr slice(Expr x, std::size_t dim, std::int64_t begin, std::int64_t end) {
  if (begin == 0 && end == x.dims()[dim]) return x;
  Dims starts(x.dims().size(), 0), limits = x.dims();
  starts[dim] = begin, limits[dim] = end;
  return {x.b, x.b->slice(x.i, std::move(starts), std::move(limits))};
}

}  // namespace

Dims with_size(Dims dims, std::int64_t rows, std::int64_t columns) {
  dims[dims.size() - 2] = rows;
  dims[dims.size() - 1] = columns;
  return dims;
}

Dims batch_of(const Dims& matrices) { return Dims(matrices.begin(), matrices.end() - 2); }
Dims rows_of(const Dims& matrices) { return Dims(matrices.begin(), matrices.end() - 1); }
Dims columns_of(const Dims& matrices) {
  Dims out = batch_of(matrices);
  out.push_back(matrices.back());
  return out;
}

Expr filled(Builder* b, DType t, const Dims& dims, double value) {
  return {b, b->splat(b->scalar(t, value), dims)};
}
Expr filled(Expr x, double value) { return filled(x.b, x.dtype(), x.dims(), value); }

Expr iota(Builder* b, const Dims& dims, std::int64_t dim) {
  return {b, b->iota(Shape(DType::s32, dims), dim)};
}
Expr row_numbers(Expr x) { return iota(x.b, x.dims(), x.rank() - 2); }
Expr column_numbers(Expr x) { return iota(x.b, x.dims(), x.rank() - 1); }

Expr unary(Opcode opcode, Expr x) { return {x.b, x.b->unary(opcode, x.i)}; }

Expr binary(Opcode opcode, Expr x, Expr y) {
  TESSERA_CHECK(x.b == y.b, "operands of different computations");
  return {x.b, x.b->binary(opcode, spread(x, y.dims()).i, spread(y, x.dims()).i)};
}

Expr compare(ir::Direction direction, Expr x, Expr y) {
  return {x.b, x.b->compare(direction, spread(x, y.dims()).i, spread(y, x.dims()).i)};
}

Expr choose(Expr mask, Expr yes, Expr no) { return {mask.b, mask.b->select(mask.i, yes.i, no.i)}; }

Expr convert(Expr x, DType t) { return {x.b, x.b->convert(x.i, t)}; }

Expr real(Expr x) { return is_complex(x.dtype()) ? unary(Opcode::real, x) : x; }
Expr imag(Expr x) { return is_complex(x.dtype()) ? unary(Opcode::imag, x) : filled(x, 0); }

Expr conjugate(Expr x) {
  return is_complex(x.dtype()) ? binary(Opcode::complex, real(x), -imag(x)) : x;
}

Expr squares(Expr x) {
  if (!is_complex(x.dtype())) return x * x;
  const Expr re = real(x), im = imag(x);
  return re * re + im * im;
}

Expr as_type(Expr x, DType t) {
  return x.dtype() == t ? x : binary(Opcode::complex, x, filled(x, 0));
}

Expr broadcast(Expr x, const Dims& dims, Dims at) {
  return {x.b, x.b->broadcast(x.i, dims, std::move(at))};
}
Expr per_matrix(Expr x, const Dims& dims) {
  return broadcast(x, dims, ir::consecutive_dims(0, x.rank()));
}
Expr per_row(Expr x, const Dims& matrices) {
  return broadcast(x, matrices, ir::consecutive_dims(0, std::int64_t(matrices.size()) - 1));
}
Expr per_column(Expr x, const Dims& matrices) {
  Dims at = ir::consecutive_dims(0, std::int64_t(matrices.size()));
  at.erase(at.end() - 2);
  return broadcast(x, matrices, std::move(at));
}

Expr reduce(Expr x, Dims dims, Opcode by, double start) {
  ir::Computation* reducer = ir::scalar_computation(x.b->module(), by, x.dtype());
  return {x.b, x.b->reduce(x.i, x.b->scalar(x.dtype(), start), std::move(dims), reducer)};
}
Expr sum_of_matrix(Expr x) { return reduce(x, {x.rank() - 2, x.rank() - 1}, Opcode::add, 0); }
Expr max_of_matrix(Expr x, double least) {
  return reduce(x, {x.rank() - 2, x.rank() - 1}, Opcode::maximum, least);
}
Expr min_of_matrix(Expr x, double most) {
  return reduce(x, {x.rank() - 2, x.rank() - 1}, Opcode::minimum, most);
}
Expr sum_over_columns(Expr x) { return reduce(x, {x.rank() - 1}, Opcode::add, 0); }
Expr sum_over_rows(Expr x) { return reduce(x, {x.rank() - 2}, Opcode::add, 0); }
Expr column(Expr x, Expr mask) { return sum_over_columns(choose(mask, x, 0)); }
Expr row(Expr x, Expr mask) { return sum_over_rows(choose(mask, x, 0)); }

Expr columns(Expr x, std::int64_t begin, std::int64_t end) {
  return slice(x, x.dims().size() - 1, begin, end);
}
Expr rows(Expr x, std::int64_t begin, std::int64_t end) {
  return slice(x, x.dims().size() - 2, begin, end);
}

Expr beside(const Exprs& parts) {
  std::vector<Instruction*> operands;
  for (const Expr& p : parts) operands.push_back(p.i);
  return {parts[0].b, parts[0].b->concatenate(std::move(operands), parts[0].rank() - 1)};
}

Expr padded(Expr x, std::int64_t rows, std::int64_t columns) {
  if (x.rows() == rows && x.columns() == columns) return x;
  std::vector<ir::PadDim> dims(x.dims().size());
  dims[dims.size() - 2].high = rows - x.rows();
  dims[dims.size() - 1].high = columns - x.columns();
  return {x.b, x.b->pad(x.i, x.b->zero(x.dtype()), std::move(dims))};
}

Expr adjoint(Expr x) {
  Dims order = ir::consecutive_dims(0, x.rank());
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return conjugate({x.b, x.b->transpose(x.i, std::move(order))});
}

Expr unit(Builder* b, DType t, const Dims& matrices) {
  const Expr zeros = filled(b, t, matrices, 0);
  return choose(row_numbers(zeros) == column_numbers(zeros), 1, zeros);
}

Exprs sorted(const Exprs& xs, ir::Direction direction) {
  Builder& b = *xs.at(0).b;
  Builder before(b.module()->add_computation("in_order"));
  before.metadata = b.metadata;
  std::vector<Instruction*> operands, parameters;
  for (const Expr& x : xs) {
    operands.push_back(x.i);
    for (int side = 0; side < 2; ++side) {
      parameters.push_back(before.parameter(std::int64_t(parameters.size()), Shape(x.dtype(), {})));
    }
  }
  before.computation()->set_root(before.compare(direction, parameters[0], parameters[1]));
  Instruction* out = b.sort(std::move(operands), xs[0].rank() - 1, true, before.computation());
  if (xs.size() == 1) return {{&b, out}};
  Exprs all;
  for (std::size_t k = 0; k < xs.size(); ++k) {
    all.push_back({&b, b.get_tuple_element(out, std::int64_t(k))});
  }
  return all;
}

namespace {

Instruction* packed(const Exprs& xs) {
  std::vector<Instruction*> elements;
  for (const Expr& x : xs) elements.push_back(x.i);
  return xs.at(0).b->tuple(std::move(elements));
}

Exprs unpacked(Builder* b, Instruction* tuple) {
  Exprs out;
  for (std::size_t k = 0; k < tuple->shape.elements.size(); ++k) {
    out.push_back({b, b->get_tuple_element(tuple, std::int64_t(k))});
  }
  return out;
}

Exprs repeated(const std::string& name, const Exprs& initial,
               const std::function<Expr(const Exprs&)>& goes_on,
               const std::function<Exprs(const Exprs&)>& step, std::optional<std::int64_t> trips) {
  Builder& b = *initial.at(0).b;
  Instruction* first = packed(initial);
  const auto computation = [&](const char* part, const auto& root) {
    Builder in(b.module()->add_computation(name + part));
    in.metadata = b.metadata;
    Instruction* state = in.parameter(0, first->shape);
    in.computation()->set_root(root(unpacked(&in, state)));
    return in.computation();
  };
  ir::Computation* condition =
      computation(".condition", [&](const Exprs& state) { return goes_on(state).i; });
  ir::Computation* body =
      computation(".body", [&](const Exprs& state) { return packed(step(state)); });
  return unpacked(&b, b.while_loop(condition, body, first, trips));
}

}  // namespace

Exprs loop(const std::string& name, const Exprs& initial,
           const std::function<Expr(const Exprs&)>& goes_on,
           const std::function<Exprs(const Exprs&)>& step) {
  return repeated(name, initial, goes_on, step, {});
}

Exprs counted_loop(const std::string& name, std::int64_t steps, const Exprs& initial,
                   const std::function<Exprs(Expr, const Exprs&)>& step) {
  Exprs all{filled(initial.at(0).b, DType::s32, {}, 0)};
  all.insert(all.end(), initial.begin(), initial.end());
  Exprs out = repeated(
      name, all, [&](const Exprs& state) { return state[0] < double(steps); },
      [&](const Exprs& state) {
        Exprs next{state[0] + 1};
        const Exprs made = step(state[0], Exprs(state.begin() + 1, state.end()));
        next.insert(next.end(), made.begin(), made.end());
        return next;
      },
      steps);
  out.erase(out.begin());
  return out;
}

}  // namespace tessera::compiler::accelerators
