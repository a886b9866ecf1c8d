// SPDX-License-Identifier: Apache-2.0
// One-sided Jacobi (Hestenes): pairs of columns are rotated until all are orthogonal. As in a
// tournament each column meets each other one once a sweep, half of all pairs at a time.
#include "src/compiler/accelerators/spectra.h"

#include <algorithm>
#include <cmath>

#include "src/compiler/accelerators/factors.h"
#include "src/ir/analysis/layouts.h"

namespace tessera::compiler::accelerators {
namespace {

/// Sweeps that are made at most: convergence is quadratic, and takes 5 to 10.
constexpr int kSweeps = 20;

/// Turns of a column each of the left and the right half, in places of their own.
struct Turns {
  Expr cosine, sine, phase;
  Expr turned;  ///< whether there is one
};

/// What makes columns of `x` and `y` orthogonal.
Turns turns_of(Expr x, Expr y) {
  const DType t = x.dtype();
  const Expr x2 = sum_over_rows(squares(x)), y2 = sum_over_rows(squares(y));
  const Expr xy = sum_over_rows(conjugate(x) * y);
  const Expr size = abs(xy);
  const double epsilon = x2.dtype() == DType::f64 ? 2.2e-16 : 1.2e-7;
  const double tolerance = epsilon * std::max(4.0, std::sqrt(double(x.rows())));
  const Expr turned = size > filled(x2, tolerance) * (sqrt(x2) * sqrt(y2));
  const Expr safe = choose(turned, size, 1);
  const Expr slope = (y2 - x2) / (safe + safe);
  const Expr one = filled(slope, 1);
  // If its square is too large for the type, nothing is turned.
  const Expr steep = abs(slope);
  const Expr tangent = choose(slope >= 0, one, -one) / (steep + sqrt(one + steep * steep));
  const Expr cosine = choose(turned, one / sqrt(one + tangent * tangent), one);
  const Expr sine = choose(turned, cosine * tangent, 0);
  // The second column is turned to where the product of both is positive.
  const Expr phase = choose(turned, xy / as_type(safe, t), 1);
  return {cosine, sine, phase, turned};
}

/// Both halves, rotated, with all columns but the first gone on by one place.
Exprs rotated(Expr x, Expr y, const Turns& turns) {
  const auto each = [&](Expr value) { return per_column(as_type(value, x.dtype()), x.dims()); };
  const Expr c = each(turns.cosine), s = each(turns.sine);
  const Expr turned = y * each(conjugate(turns.phase));
  const Expr first = c * x - s * turned, second = s * x + c * turned;
  const std::int64_t h = x.columns();
  if (h == 1) return {first, second};
  Exprs left{columns(first, 0, 1), columns(second, 0, 1)};
  if (h > 2) left.push_back(columns(first, 1, h - 1));
  return {beside(left), beside({columns(second, 1, h), columns(first, h - 1, h)})};
}

/// The state is whether something was turned, the halves, and those of the product of all
/// rotations.
Exprs round(Expr /*k*/, const Exprs& state) {
  const Turns turns = turns_of(state[1], state[2]);
  const Dims all = ir::consecutive_dims(0, turns.turned.rank());
  const Expr now = reduce(convert(turns.turned, DType::s32), all, ir::Opcode::maximum, 0);
  Exprs out{binary(ir::Opcode::maximum, state[0], now)};
  for (int k : {1, 3}) {
    const Exprs halves = rotated(state[std::size_t(k)], state[std::size_t(k) + 1], turns);
    out.insert(out.end(), halves.begin(), halves.end());
  }
  return out;
}

/// Orthogonal columns, and the rotations that made them of the matrix.
struct Rotated {
  Expr columns, turns;
};

Rotated rotate(Expr a) {
  const std::int64_t n = a.columns(), half = (n + 1) / 2;
  const Expr even = padded(a, a.rows(), 2 * half);
  const Expr one = unit(a.b, a.dtype(), with_size(a.dims(), 2 * half, 2 * half));
  const auto goes_on = [](const Exprs& state) {
    return (state[0] < double(kSweeps)) & (state[1] > 0);
  };
  const auto sweep = [half](const Exprs& state) {
    Exprs first(state.begin() + 1, state.end());
    first[0] = filled(first[0], 0);
    Exprs out{state[0] + 1};
    const Exprs last = counted_loop("jacobi_round", 2 * half - 1, first, round);
    out.insert(out.end(), last.begin(), last.end());
    return out;
  };
  const Exprs last =
      loop("jacobi_sweep",
           {filled(a.b, DType::s32, {}, 0), filled(a.b, DType::s32, {}, 1), columns(even, 0, half),
            columns(even, half, 2 * half), columns(one, 0, half), columns(one, half, 2 * half)},
           goes_on, sweep);
  // After a sweep all are where they were: what was added stands last.
  return {columns(beside({last[2], last[3]}), 0, n),
          rows(columns(beside({last[4], last[5]}), 0, n), 0, n)};
}

/// Columns in the order of their keys, [batch, n].
Expr in_order(Expr keys, Expr x, ir::Direction direction) {
  return sorted({per_column(keys, x.dims()), x}, direction)[1];
}

/// Largest element, at least a little: [batch].
Expr scale_of(Expr a) {
  const Expr most = max_of_matrix(abs(a), 0);
  return choose(most == 0, 1, most);
}

/// a / scale
Expr scaled_by(Expr a, Expr scale) { return a / as_type(per_matrix(scale, a.dims()), a.dtype()); }

/// Orthonormal columns in the directions of x's, which are orthogonal already but may be 0; `count`
/// of them.
Expr directions(Expr x, std::int64_t count) {
  const Exprs factors = qr(x);
  const Expr a = factors[0];
  const Expr q = product_of_reflectors(padded(a, a.rows(), count), factors[1]);
  // As the columns are orthogonal, the diagonal has their lengths, up to a factor of size 1.
  const Expr diagonal = sum_over_rows(choose(row_numbers(a) == column_numbers(a), a, 0));
  const Expr size = abs(diagonal);
  const Expr some = size > 0;
  const Expr phase = choose(some, diagonal / as_type(choose(some, size, 1), a.dtype()), 1);
  const Expr first = columns(q, 0, a.columns()) * per_column(phase, a.dims());
  return count == a.columns() ? first : beside({first, columns(q, a.columns(), count)});
}

}  // namespace

Exprs symmetric_eigenvalues(Expr a, bool lower) {
  const DType t = a.dtype();
  const Dims& dims = a.dims();
  const Expr row = row_numbers(a), column = column_numbers(a);
  const Expr diagonal = row == column;
  Expr whole = choose(lower ? row >= column : row <= column, a, adjoint(a));
  if (is_complex(t)) whole = choose(diagonal, as_type(real(whole), t), whole);
  const Expr scale = scale_of(whole), scaled = scaled_by(whole, scale);
  // No eigenvalue is below minus the largest sum of a row: with that on the diagonal none is
  // negative, and so the columns are eigenvectors themselves.
  const Expr sums = sum_over_columns(abs(scaled));
  const Expr most = reduce(sums, {sums.rank() - 1}, ir::Opcode::maximum, 0);
  const Expr shift = as_type(per_matrix(most, dims), t);
  const Rotated out = rotate(scaled + choose(diagonal, shift, 0));
  // v* A v, with A v = what became of v less the shift.
  const Expr image = out.columns - shift * out.turns;
  const Expr values = real(sum_over_rows(conjugate(out.turns) * image));
  const Expr ascending = sorted({values}, ir::Direction::lt)[0];
  return {in_order(values, out.turns, ir::Direction::lt),
          ascending * per_matrix(scale, ascending.dims()),
          filled(a.b, DType::s32, batch_of(dims), 0)};
}

Exprs singular_values(Expr given, const std::vector<Shape>& results, bool vectors) {
  const bool wide = given.rows() < given.columns();
  // Columns must not outnumber rows.
  const Expr a = wide ? adjoint(given) : given;
  const Expr scale = scale_of(a);
  const Rotated out = rotate(scaled_by(a, scale));
  const Expr lengths = sqrt(sum_over_rows(squares(out.columns)));
  const Expr descending = sorted({lengths}, ir::Direction::gt)[0];
  const Shape &u_shape = results.at(2), &v_shape = results.at(3);
  Expr u, v;
  if (!vectors) {
    u = filled(given.b, given.dtype(), u_shape.dims, 0);
    v = filled(given.b, given.dtype(), v_shape.dims, 0);
  } else {
    const Expr turns = in_order(lengths, out.turns, ir::Direction::gt);
    const std::int64_t count = wide ? v_shape.dims[v_shape.dims.size() - 2] : u_shape.dims.back();
    const Expr sides = directions(in_order(lengths, out.columns, ir::Direction::gt), count);
    u = wide ? turns : sides;
    v = adjoint(wide ? sides : turns);
  }
  return {given, descending * per_matrix(scale, descending.dims()), u, v,
          filled(given.b, DType::s32, batch_of(given.dims()), 0)};
}

}  // namespace tessera::compiler::accelerators
