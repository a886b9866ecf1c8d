// SPDX-License-Identifier: Apache-2.0
// Functions of matrices, products of several, and matrices that are put together.
#include <algorithm>
#include <limits>

#include <tessera/control_flow.h>
#include <tessera/linalg.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/products.h>
#include <tessera/ops/shape_ops.h>

#include "src/frontend/linalg/matrices.h"

namespace tessera::linalg {

using frontend::composed;
using frontend::Located;
using frontend::shape_of;
using frontend::where_of;
using namespace frontend::matrices;  // NOLINT(google-build-using-namespace): their functions

namespace {

/// The polynomials of an approximant of exp of degree `c.size() - 1`: U of the odd powers, V of the
/// even ones.
std::pair<Located, Located> pade(const Located& a, const std::vector<double>& c) {
  const Located one = identity(a, rows_of(a));
  const Located a2 = times(a, a);
  if (c.size() < 14) {  // degree 7
    const Located a4 = times(a2, a2), a6 = times(a4, a2);
    const Located u = times(a, a6 * c[7] + a4 * c[5] + a2 * c[3] + one * c[1]);
    return {u, a6 * c[6] + a4 * c[4] + a2 * c[2] + one * c[0]};
  }
  const Located a4 = times(a2, a2), a6 = times(a4, a2);
  const Located odd = times(a6, a6 * c[13] + a4 * c[11] + a2 * c[9]);
  const Located even = times(a6, a6 * c[12] + a4 * c[10] + a2 * c[8]);
  return {times(a, odd + a6 * c[7] + a4 * c[5] + a2 * c[3] + one * c[1]),
          even + a6 * c[6] + a4 * c[4] + a2 * c[2] + one * c[0]};
}

/// Coefficients of the approximant, and the greatest 1-norm of a matrix for which it has the
/// precision of the dtype (Higham, "The scaling and squaring method for the matrix exponential
/// revisited", 2005).
struct Approximant {
  std::vector<double> coefficients;
  double bound;
};
Approximant approximant_of(DType t) {
  if (real_type(t) == f64) {
    return {{64764752532480000., 32382376266240000., 7771770303897600., 1187353796428800.,
             129060195264000., 10559470521600., 670442572800., 33522128640., 1323241920., 40840800.,
             960960., 16380., 182., 1.},
            5.371920351148152};
  }
  return {{17297280., 8648640., 1995840., 277200., 25200., 1512., 56., 1.}, 3.92572478313866};
}

Located to_batch(const Located& per_matrix, const Located& like) {
  const Dims ones(2, 1);
  const Dims dims = joined(dims_of(per_matrix), ones);
  return with_dims(per_matrix.with(frontend::reshaped(per_matrix.array, dims, per_matrix.location)),
                   dims_of(like));
}

Located exponential(const Located& a, const ExpmOptions& options) {
  const Approximant approximant = approximant_of(a.dtype());
  const Located sums = a.with(sum(Operand(magnitude(a)), -2));
  const Located size = a.with(max(Operand(sums), -1));
  const Located steps = a.with(ceil(Operand(a.with(log2(Operand(size / approximant.bound))))));
  const Located count = choose(steps > 0, steps, steps.constant(0));
  const Located scale = a.with(exp2(Operand(-count)));
  const auto [u, v] = pade(a * as_type(to_batch(scale, a), a.dtype()), approximant.coefficients);
  const Located p = u + v, q = v - u;
  const Located first = options.upper_triangular ? solved(q, p, {.lower = false}) : solved(q, p);
  const auto limit = std::int32_t(options.max_squarings);
  // A matrix that needs no more squarings stays. The number of trips is fixed, so that there is a
  // derivative in reverse mode.
  const auto step = [&](Array r, Array i) {
    const Located now = a.with(r), trip = count.with(astype(Operand(i, a.location), count.dtype()));
    if (dims_of(count).empty()) {
      return std::pair(cond(
                           count.with(less(Operand(trip), Operand(count))).array,
                           [&](Array x) { return times(a.with(x), a.with(x)).array; },
                           [](Array x) { return x; }, r),
                       Array(0));
    }
    const Located more = with_dims(trip, dims_of(count)) < count;
    return std::pair(choose(to_batch(more, a), times(now, now), now).array, Array(0));
  };
  Located out = first;
  if (limit > 0) {
    out = first.with(scan(step, first.array, arange(double(limit), s32, a.location)).first);
  }
  const Located nan = a.constant(std::numeric_limits<double>::quiet_NaN());
  return choose(to_batch(count <= double(limit), a), out, nan);
}

}  // namespace

Array expm(Operand a, const ExpmOptions& options) {
  const std::string name = "linalg.expm";
  need_square(name, shape_of(a), a.location);
  const DType t = dtype_of(name, {a.array}, a.location);
  if (options.max_squarings < 0) {
    throw ValueError(
        name + ": max_squarings is " + std::to_string(options.max_squarings) + "; give 0 or more",
        a.location);
  }
  return composed(name, a.location, [&] {
    const Located x{frontend::converted(a.array, t, a.location), a.location};
    return x.array.size() == 0 ? x.array : exponential(x, options).array;
  });
}

Array matrix_power(Operand a, std::int64_t n) {
  const std::string name = "linalg.matrix_power";
  need_square(name, shape_of(a), a.location);
  const DType t = n < 0 ? dtype_of(name, {a.array}, a.location) : a.array.dtype();
  return composed(name, a.location, [&] {
    Located x{frontend::converted(a.array, t, a.location), a.location};
    const Located one = identity(x, rows_of(x));
    if (n == 0) return with_dims(one, dims_of(x)).array;
    if (n < 0) x = solved(x, one);
    // |n| without overflow.
    std::uint64_t left = n < 0 ? ~std::uint64_t(n) + 1 : std::uint64_t(n);
    std::optional<Located> out;
    for (;; left /= 2) {
      if (left % 2 == 1) out = out ? times(*out, x) : x;
      if (left == 1) return out->array;
      x = times(x, x);
    }
  });
}

Array multi_dot(const std::vector<Array>& arrays, Location location) {
  const std::string name = "linalg.multi_dot";
  if (arrays.size() < 2) {
    throw ValueError(name + " of " + std::to_string(arrays.size()) + " arrays; give two or more",
                     location);
  }
  std::vector<Shape> shapes;
  for (const Array& a : arrays) shapes.push_back(shape_of({a, location}));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const bool end = i == 0 || i + 1 == shapes.size();
    const std::int64_t rank = shapes[i].rank();
    if (rank != 2 && !(end && rank == 1)) {
      misfit(name, shapes,
             "array " + std::to_string(i) +
                 (end ? " must be a matrix or a vector" : " must be a matrix"),
             location);
    }
    if (i > 0 && shapes[i - 1].dims.back() != shapes[i].dims.front()) {
      misfit(name, shapes,
             "array " + std::to_string(i - 1) + " has " +
                 std::to_string(shapes[i - 1].dims.back()) + " columns, array " +
                 std::to_string(i) + " " + std::to_string(shapes[i].dims.front()) + " rows",
             location);
    }
  }
  // sizes[i], sizes[i + 1]: of matrix i. split[i][j]: where the cheapest product of i..j is cut.
  std::vector<double> sizes;
  for (const Shape& s : shapes) {
    if (sizes.empty()) sizes.push_back(s.rank() == 1 ? 1 : double(s.dim(0)));
    sizes.push_back(s.rank() == 1 && sizes.size() == shapes.size() ? 1 : double(s.dims.back()));
  }
  const std::size_t n = shapes.size();
  std::vector<std::vector<double>> cost(n, std::vector<double>(n, 0));
  std::vector<std::vector<std::size_t>> cut(n, std::vector<std::size_t>(n, 0));
  for (std::size_t length = 2; length <= n; ++length) {
    for (std::size_t i = 0; i + length <= n; ++i) {
      const std::size_t j = i + length - 1;
      cost[i][j] = std::numeric_limits<double>::infinity();
      for (std::size_t k = i; k < j; ++k) {
        const double c = cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1];
        if (c < cost[i][j]) {
          cost[i][j] = c;
          cut[i][j] = k;
        }
      }
    }
  }
  return composed(name, location, [&] {
    const std::function<Located(std::size_t, std::size_t)> product = [&](std::size_t i,
                                                                         std::size_t j) {
      if (i == j) return Located{arrays[i], location};
      return times(product(i, cut[i][j]), product(cut[i][j] + 1, j));
    };
    return product(0, n - 1).array;
  });
}

Array matrix_transpose(Operand x) {
  need_matrix("linalg.matrix_transpose", shape_of(x), x.location);
  return swapaxes(x, -1, -2);
}

Array tensorsolve(Operand a, Operand b, std::optional<std::vector<std::int64_t>> axes) {
  const Location at = where_of(a, b);
  const std::string name = "linalg.tensorsolve";
  return composed(name, at, [&] {
    Located x{a.array, at};
    if (axes) {
      (void)frontend::normalize_axes(name, Axes(*axes), shape_of(a).rank(), at);
      Dims perm, back;
      for (std::int64_t d = 0; d < shape_of(a).rank(); ++d) {
        const bool moved = std::any_of(axes->begin(), axes->end(), [&](std::int64_t v) {
          return (v < 0 ? v + shape_of(a).rank() : v) == d;
        });
        if (!moved) perm.push_back(d);
      }
      for (std::int64_t v : *axes) perm.push_back(v < 0 ? v + shape_of(a).rank() : v);
      x = x.with(transpose(Operand(x), perm));
    }
    const Dims dims = dims_of(x), rhs = b.array.shape();
    const bool fits = rhs.size() <= dims.size() && std::equal(rhs.begin(), rhs.end(), dims.begin());
    const Dims out = fits ? Dims(dims.begin() + std::ptrdiff_t(rhs.size()), dims.end()) : Dims();
    if (!fits || element_count(out) != element_count(rhs)) {
      misfit(name, {Shape(x.dtype(), dims), shape_of(b)},
             "the first dims of a, after `axes` are moved to its end, must be those of b, and the "
             "others have as many elements",
             at);
    }
    const std::int64_t n = element_count(rhs);
    const Located matrix = x.with(frontend::reshaped(x.array, {n, n}, at));
    const Located flat = x.with(frontend::reshaped(b.array, {n}, at));
    return frontend::reshaped(solve(Operand(matrix), Operand(flat)), out, at);
  });
}

Array tensorinv(Operand a, std::int64_t ind) {
  const std::string name = "linalg.tensorinv";
  const Shape& shape = shape_of(a);
  if (ind <= 0) {
    throw ValueError(name + ": ind is " + std::to_string(ind) + "; give 1 or more", a.location);
  }
  const std::size_t cut = std::size_t(std::min<std::int64_t>(ind, shape.rank()));
  const Dims first(shape.dims.begin(), shape.dims.begin() + std::ptrdiff_t(cut));
  const Dims rest(shape.dims.begin() + std::ptrdiff_t(cut), shape.dims.end());
  const std::int64_t n = element_count(first);
  if (n != element_count(rest)) {
    misfit(name, {shape},
           "the first " + std::to_string(ind) + " dims have " + std::to_string(n) +
               " elements, the others " + std::to_string(element_count(rest)) +
               "; both must be equal",
           a.location);
  }
  return composed(name, a.location, [&] {
    const Array flat = inv({frontend::reshaped(a.array, {n, n}, a.location), a.location});
    return frontend::reshaped(flat, joined(rest, first), a.location);
  });
}

Array block_diag(const std::vector<Array>& arrays, Location location) {
  const std::string name = "linalg.block_diag";
  if (arrays.empty()) return zeros({1, 0}, f32, location);
  std::vector<Shape> shapes;
  std::int64_t total = 0;
  for (const Array& a : arrays) {
    shapes.push_back(shape_of({a, location}));
    if (shapes.back().rank() > 2) {
      misfit(name, shapes, "arrays of at most two dims are put on the diagonal", location);
    }
    total += shapes.back().rank() == 0 ? 1 : shapes.back().dims.back();
  }
  return composed(name, location, [&] {
    const DType t = frontend::promote(arrays, location).dtype;
    std::vector<Array> rows;
    std::int64_t before = 0;
    for (const Array& a : arrays) {
      const Array m = atleast_2d(Operand(frontend::converted(a, t, location), location));
      const std::int64_t columns = m.shape()[1];
      rows.push_back(pad(Operand(m, location), {{0, 0}, {before, total - columns - before}}));
      before += columns;
    }
    return concatenate(rows, 0, location);
  });
}

Array toeplitz(Operand c, const std::optional<Array>& r) {
  const std::string name = "linalg.toeplitz";
  const Location at = c.location;
  const Shape& column = shape_of(c);
  const Shape& row = r ? shape_of({*r, at}) : column;
  if (column.rank() > 1 || row.rank() > 1) {
    misfit(name, {column, row}, "both must be vectors", at);
  }
  return composed(name, at, [&] {
    const Array first = atleast_1d(c);
    const Array other = r ? atleast_1d({*r, at}) : atleast_1d({conj(c), at});
    const std::int64_t m = first.shape()[0], n = other.shape()[0];
    const DType t = frontend::promote({first, other}, at).dtype;
    const Located x{frontend::converted(first, t, at), at};
    const Located y{frontend::converted(other, t, at), at};
    if (m == 0 || n == 0) return zeros({m, n}, t, at);
    // c reversed, then r from its second element: entry [i, j] is at m - 1 - i + j.
    const Located all =
        x.with(concatenate({flip(Operand(x)), slice_in_dim(Operand(y), 1, n, 1, 0)}, 0, at));
    const Located i = x.with(iota(s32, {m, n}, 0, at)), j = x.with(iota(s32, {m, n}, 1, at));
    return take(Operand(all), Operand(j - i + double(m - 1)), 0);
  });
}

Array vander(Operand x, std::optional<std::int64_t> columns, bool increasing) {
  const std::string name = "linalg.vander";
  const Shape& shape = shape_of(x);
  if (shape.rank() != 1) misfit(name, {shape}, "a vector is needed", x.location);
  const std::int64_t n = columns.value_or(shape.dim(0));
  if (n < 0) {
    throw ValueError(name + ": " + std::to_string(n) + " columns; give 0 or more", x.location);
  }
  return composed(name, x.location, [&] {
    const Located v{x.array, x.location};
    std::vector<Array> powers;
    Located power = with_dims(v.constant(1), shape.dims);
    for (std::int64_t k = 0; k < n; ++k) {
      if (k > 0) power = power * v;
      powers.push_back(power.array);
    }
    if (powers.empty()) return zeros({shape.dim(0), 0}, v.dtype(), x.location);
    if (!increasing) std::reverse(powers.begin(), powers.end());
    return stack(powers, 1, x.location);
  });
}

}  // namespace tessera::linalg
