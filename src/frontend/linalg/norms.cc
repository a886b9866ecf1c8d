// SPDX-License-Identifier: Apache-2.0
// Norms and condition numbers.
#include <cmath>
#include <limits>

#include <tessera/linalg.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/shape_ops.h>

#include "src/frontend/linalg/matrices.h"

namespace tessera::linalg {

using frontend::composed;
using frontend::Located;
using frontend::shape_of;
using namespace frontend::matrices;  // NOLINT(google-build-using-namespace): their functions

std::string NormOrder::to_string() const {
  if (const std::string* text = name()) return '"' + *text + '"';
  if (const double* value = number()) {
    std::string out = std::to_string(*value);
    while (out.find('.') != std::string::npos && (out.back() == '0' || out.back() == '.')) {
      const bool point = out.back() == '.';
      out.pop_back();
      if (point) break;
    }
    return out;
  }
  return "none";
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Located in_floats(const Operand& x) {
  const DType t = frontend::to_inexact(x.array.dtype());
  return {frontend::converted(x.array, t, x.location), x.location};
}

Located summed(const Located& x, const Axes& axes, bool keepdims) {
  return x.with(sum(Operand(x), axes, {.keepdims = keepdims}));
}

/// sqrt(sum(|x|^2))
Located root_of_squares(const Located& x, const Axes& axes, bool keepdims) {
  const Located squares = real_part(x * conjugate(x));
  const Located total = summed(squares, axes, keepdims);
  return x.with(sqrt(Operand(total)));
}

/// The greatest of numbers that aren't negative: 0 if there are none.
Located greatest(const Located& x, const Axes& axes, bool keepdims) {
  if (x.array.size() == 0) return summed(x, axes, keepdims);
  return x.with(max(Operand(x), axes, keepdims));
}

Located of_vectors(const Located& x, double order, const Axes& axes, bool keepdims) {
  if (order == 2) return root_of_squares(x, axes, keepdims);
  const Located size = magnitude(x);
  if (order == kInfinity) return greatest(size, axes, keepdims);
  if (order == -kInfinity) return x.with(min(Operand(size), axes, keepdims));
  if (order == 0) return summed(as_type(x != x.constant(0), real_type(x.dtype())), axes, keepdims);
  if (order == 1) return summed(size, axes, keepdims);
  const Located powers = x.with(power(Operand(size), Operand(size.constant(order))));
  const Located total = summed(powers, axes, keepdims);
  return x.with(power(Operand(total), Operand(total.constant(1 / order))));
}

[[noreturn]] void wrong_order(const std::string& name, const NormOrder& order, const char* valid,
                              Location at) {
  throw ValueError(name + ": the order is " + order.to_string() + "; valid are " + valid, at);
}

/// Of the matrices in dims `row` and `column`.
Located of_matrices(const std::string& name, const Located& x, const NormOrder& order,
                    std::int64_t row, std::int64_t column, bool keepdims) {
  const double* number = order.number();
  if (order.none() || (order.name() && *order.name() == "fro")) {
    return root_of_squares(x, {row, column}, keepdims);
  }
  const bool nuclear = order.name() && *order.name() == "nuc";
  if (nuclear || (number && (*number == 2 || *number == -2))) {
    const Located s = singular(x.with(moveaxis(Operand(x), Axes({row, column}), Axes({-2, -1}))),
                               false, false)[0];
    Located y = nuclear        ? summed(s, -1, false)
                : *number == 2 ? greatest(s, -1, false)
                               : s.with(min(Operand(s), -1));
    return keepdims ? y.with(expand_dims(Operand(y), Axes({row, column}))) : y;
  }
  const bool along_rows = number && std::abs(*number) == 1;
  if (!along_rows && !(number && std::isinf(*number))) {
    wrong_order(name, order, "\"fro\", \"nuc\", 1, -1, 2, -2, infinity and -infinity", x.location);
  }
  const std::int64_t first = along_rows ? row : column, second = along_rows ? column : row;
  const Located sums = summed(magnitude(x), first, true);
  const Located y =
      *number > 0 ? greatest(sums, second, true) : x.with(min(Operand(sums), second, true));
  return keepdims ? y : y.with(squeeze(Operand(y), Axes({row, column})));
}

double order_of_vectors(const std::string& name, const NormOrder& order, Location at) {
  if (order.none()) return 2;
  if (const double* number = order.number()) return *number;
  wrong_order(name, order, "numbers for norms of vectors", at);
}

}  // namespace

Array norm(Operand x, const NormOptions& options) {
  const std::string name = "linalg.norm";
  const Shape& shape = shape_of(x);
  const bool all = options.axis.all();
  Dims axes = options.axis.list();
  if (all) {
    for (std::int64_t d = 0; d < shape.rank(); ++d) axes.push_back(d);
  }
  (void)frontend::normalize_axes(name, Axes(axes), shape.rank(), x.location);
  for (std::int64_t& a : axes) a += a < 0 ? shape.rank() : 0;
  const bool flat = all && options.ord.none();
  if (!flat && axes.size() != 1 && axes.size() != 2) {
    throw ValueError(name + " of " + shape.to_string() + " over " + std::to_string(axes.size()) +
                         " axes; give one axis for norms of vectors, two for norms of matrices",
                     x.location);
  }
  const bool vectors = !flat && axes.size() == 1;
  const double order = vectors ? order_of_vectors(name, options.ord, x.location) : 2;
  return composed(name, x.location, [&] {
    const Located y = in_floats(x);
    if (flat) return root_of_squares(y, {}, options.keepdims).array;
    if (vectors) return of_vectors(y, order, axes, options.keepdims).array;
    return of_matrices(name, y, options.ord, axes[0], axes[1], options.keepdims).array;
  });
}

Array vector_norm(Operand x, const VectorNormOptions& options) {
  const std::string name = "linalg.vector_norm";
  const double order = order_of_vectors(name, options.ord, x.location);
  (void)frontend::normalize_axes(name, options.axis, shape_of(x).rank(), x.location);
  return composed(name, x.location, [&] {
    return of_vectors(in_floats(x), order, options.axis, options.keepdims).array;
  });
}

Array matrix_norm(Operand x, const MatrixNormOptions& options) {
  const std::string name = "linalg.matrix_norm";
  const Shape& shape = shape_of(x);
  need_matrix(name, shape, x.location);
  return composed(name, x.location, [&] {
    return of_matrices(name, in_floats(x), options.ord, shape.rank() - 2, shape.rank() - 1,
                       options.keepdims)
        .array;
  });
}

Array cond(Operand x, NormOrder p) {
  const std::string name = "linalg.cond";
  const Shape& shape = shape_of(x);
  need_matrix(name, shape, x.location);
  const std::int64_t row = shape.rank() - 2, column = shape.rank() - 1;
  if (shape.dim(row) == 0 || shape.dim(column) == 0) {
    throw ValueError(name + " of " + shape.to_string() + ": the matrices have no elements",
                     x.location);
  }
  const bool spectral = p.none() || (p.number() && std::abs(*p.number()) == 2);
  if (!spectral) need_square(name, shape, x.location);
  const DType t = dtype_of(name, {x.array}, x.location);
  return composed(name, x.location, [&] {
    const Located a{frontend::converted(x.array, t, x.location), x.location};
    Located r = a;
    if (spectral) {
      const Located s = singular(a, false, false)[0];
      const std::int64_t last = dims_of(s).back() - 1;
      const auto at = [&](std::int64_t i) {
        const Located one = block(as_column(s), i, i + 1, 0, 1);
        return s.with(frontend::reshaped(one.array, batch_of(shape.dims), x.location));
      };
      if (p.none() || *p.number() == 2) return (at(0) / at(last)).array;
      r = at(last) / at(0);
    } else {
      const Located inverse = solved(a, identity(a, rows_of(a)));
      r = of_matrices(name, a, p, row, column, false) *
          of_matrices(name, inverse, p, row, column, false);
    }
    // NaN of a singular matrix, but not of NaN.
    const Located given = a.with(any(Operand(a.with(isnan(Operand(a)))), Axes({-2, -1})));
    const Located lost = r.with(isnan(Operand(r))) & a.with(logical_not(Operand(given)));
    return choose(lost, r.constant(kInfinity), r).array;
  });
}

}  // namespace tessera::linalg
