// SPDX-License-Identifier: Apache-2.0
// The normal distribution of vectors, and orthogonal matrices.
#include <tessera/linalg.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/products.h>
#include <tessera/ops/shape_ops.h>

#include "src/frontend/ops/moves.h"
#include "src/frontend/random/internal.h"

namespace tessera::random {

using frontend::Located;
using internal::impl_of;

namespace {

/// L with L L^T = (cov + cov^T) / 2, zeros above the diagonal.
Located lower_factor(const Located& cov) {
  const auto rank = cov.array.ndim();
  const Located turned{frontend::moved_dim(cov.array, rank - 2, rank - 1, cov.location),
                       cov.location};
  const Located even = (cov + turned) / 2.0;
  const std::vector<Array> operands{even.array};
  const Located factor =
      cov.with(frontend::apply(ir::Opcode::cholesky, operands, ir::CholeskyAttrs{true},
                               cov.location, "random_multivariate_normal"));
  return cov.with(tril(factor));
}

/// F with F F^T = cov.
Located covariance_factor(const Located& cov, CovarianceFactor method) {
  const Location l = cov.location;
  if (method == CovarianceFactor::cholesky) return lower_factor(cov);
  Located vectors = cov, variances = cov;
  if (method == CovarianceFactor::svd) {
    const auto [u, s, vh] = linalg::svd({cov.array, l});
    vectors = cov.with(u);
    variances = cov.with(s);
  } else {
    const auto [w, v] = linalg::eigh({cov.array, l});
    vectors = cov.with(v);
    variances = cov.with(w);
  }
  return vectors * cov.with(sqrt({expand_dims(Operand(variances), -2), l}));
}

}  // namespace

Array multivariate_normal(Operand key, Operand mean, Operand cov, OptionalShape shape,
                          std::optional<DType> dtype, CovarianceFactor method) {
  const Location l = key.location;
  const std::string op = "random::multivariate_normal";
  const tessera::Shape &m = impl_of(mean.array, l).shape, &c = impl_of(cov.array, l).shape;
  const std::string given = op + " with mean " + m.to_string() + " and cov " + c.to_string();
  if (m.rank() < 1) throw ShapeError(given + ": the mean must be a vector [.., n]", l);
  const std::int64_t n = m.dims.back();
  if (c.rank() < 2 || c.dim(c.rank() - 1) != n || c.dim(c.rank() - 2) != n) {
    const std::string size = std::to_string(n);
    throw ShapeError(given + ": cov must be [.., " + size + ", " + size + "]", l);
  }
  const DType common = frontend::to_inexact(frontend::promote({mean.array, cov.array}, l).dtype);
  frontend::check_random_float(op + ", whose parameters are", common, l);
  Dims batch = shape.given().value_or(Dims{});
  const Dims mean_batch(m.dims.begin(), m.dims.end() - 1),
      cov_batch(c.dims.begin(), c.dims.end() - 2);
  for (const Dims* part : {&mean_batch, &cov_batch}) {
    const Dims both = frontend::broadcast_shapes(op, batch, *part, l);
    if (shape.given() && both != batch) {
      throw ShapeError(
          given + ": their leading dimensions don't broadcast to the shape " + to_string(batch), l);
    }
    batch = both;
  }
  Dims dims = batch;
  dims.push_back(n);
  const DType t = dtype.value_or(common);
  return frontend::drawn("multivariate_normal", key, dims, t, [&](const frontend::KeyWords& words) {
    // Matrices of narrow floats are factored in f32.
    const DType work = common == f64 ? f64 : f32;
    const Located factor = frontend::as_type(
        covariance_factor(frontend::as_type({cov.array, l}, work), method), common);
    const Located x = frontend::normal_numbers(words, dims, t);
    const Located moved = x.with(einsum("...ij,...j->...i", factor, x));
    return frontend::as_type({mean.array, l}, common) + moved;
  });
}

Array orthogonal(Operand key, std::int64_t n, Shape shape, DType dtype,
                 std::optional<std::int64_t> m) {
  const Location l = key.location;
  const std::string op = "random::orthogonal";
  const std::int64_t columns = m.value_or(n);
  if (n < 0 || columns < 0) {
    throw ValueError(op + " of " + std::to_string(n) + " rows and " + std::to_string(columns) +
                         " columns; give 0 or more",
                     l);
  }
  frontend::check_key(op, key);
  frontend::check_random_shape(op, shape, l);
  if (dtype != f32 && dtype != f64 && dtype != c64 && dtype != c128) {
    throw DTypeError(
        op + " of dtype " + std::string(name(dtype)) + "; valid are f32, f64, c64 and c128", l);
  }
  return frontend::composed("random_orthogonal", l, [&] {
    Dims tall = shape, wanted = shape;
    tall.insert(tall.end(), {std::max(n, columns), std::min(n, columns)});
    wanted.insert(wanted.end(), {n, columns});
    if (tessera::Shape(dtype, wanted).element_count() == 0) {
      return tessera::zeros(wanted, dtype, l);
    }
    const auto [q, r] = linalg::qr({normal(key, tall, dtype), l});
    // Factors are unique, and the distribution uniform, with a positive diagonal of r.
    const Located d{diagonal({r, l}, 0, -2, -1), l};
    const Located x = Located{q, l} * d.with(expand_dims({sign(Operand(d)), l}, -2));
    return n < columns ? swapaxes(Operand(x), -1, -2) : x.array;
  });
}

}  // namespace tessera::random
