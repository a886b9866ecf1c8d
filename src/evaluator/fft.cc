// SPDX-License-Identifier: Apache-2.0
// Evaluates fft by mixed-radix recursion in double precision.
#include <cmath>

#include "src/evaluator/ops.h"
#include "src/evaluator/strided.h"
#include "src/evaluator/wide.h"

namespace tessera::evaluator {
namespace {

Complex product(const Complex& a, const Complex& b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

/// Mixed radix by recursion: any length, quick for those with small factors.
class Transform {
 public:
  Transform(std::int64_t n, bool inverse) : n_(n) {
    const long double turn = (inverse ? 2 : -2) * std::acos(-1.0L) / (long double)(n);
    for (std::int64_t i = 0; i < n; ++i) {
      const long double angle = turn * (long double)(i);
      roots_.emplace_back(double(std::cos(angle)), double(std::sin(angle)));
    }
  }

  void run(const Complex* in, Complex* out) const { run(in, 1, out, n_); }

 private:
  void run(const Complex* in, std::int64_t step, Complex* out, std::int64_t n) const {
    if (n == 1) {
      *out = *in;
      return;
    }
    const std::int64_t radix = smallest_factor(n), m = n / radix;
    for (std::int64_t r = 0; r < radix; ++r) run(in + r * step, step * radix, out + r * m, m);
    std::vector<Complex> parts(static_cast<std::size_t>(radix));
    const std::int64_t scale = n_ / n;
    for (std::int64_t k = 0; k < m; ++k) {
      for (std::int64_t r = 0; r < radix; ++r) parts[std::size_t(r)] = out[r * m + k];
      for (std::int64_t q = 0; q < radix; ++q) {
        const std::int64_t turn = k + q * m;
        Complex sum = parts[0];
        for (std::int64_t r = 1; r < radix; ++r) {
          sum += product(parts[std::size_t(r)], roots_[std::size_t(r * turn % n * scale)]);
        }
        out[turn] = sum;
      }
    }
  }

  static std::int64_t smallest_factor(std::int64_t n) {
    for (std::int64_t p = 2; p * p <= n; ++p) {
      if (n % p == 0) return p;
    }
    return n;
  }

  std::int64_t n_;
  std::vector<Complex> roots_;
};

/// A complex array in row-major order.
struct Grid {
  Dims dims;
  std::vector<Complex> values;
};

/// Transforms every row along one dim.
void transform_dim(Grid& grid, std::size_t dim, bool inverse) {
  const std::int64_t n = grid.dims[dim];
  if (grid.values.empty() || n <= 1) return;
  const Transform transform(n, inverse);
  const std::int64_t step = row_major_strides(grid.dims)[dim];
  std::vector<Complex> row(static_cast<std::size_t>(n)), result(static_cast<std::size_t>(n));
  Dims starts = grid.dims;
  starts[dim] = 1;
  for_each_index(starts, [&](const Dims& index) {
    Complex* at = grid.values.data() + dot_product(index, row_major_strides(grid.dims));
    for (std::int64_t i = 0; i < n; ++i) row[std::size_t(i)] = at[i * step];
    transform.run(row.data(), result.data());
    for (std::int64_t i = 0; i < n; ++i) at[i * step] = result[std::size_t(i)];
  });
}

/// Cuts or, from the conjugate symmetry, completes the rows of the last dim to n elements.
Grid with_last_dim(const Grid& grid, std::int64_t n, bool symmetric) {
  Grid out{grid.dims, {}};
  out.dims.back() = n;
  const std::int64_t had = grid.dims.back();
  const std::int64_t rows = had == 0 ? 0 : std::int64_t(grid.values.size()) / had;
  for (std::int64_t r = 0; r < rows; ++r) {
    const Complex* row = grid.values.data() + r * had;
    for (std::int64_t i = 0; i < n; ++i) {
      if (!symmetric) {
        out.values.push_back(row[i]);
      } else if (i == 0 || 2 * i == n) {
        out.values.emplace_back(row[i].real(), 0);
      } else {
        out.values.push_back(2 * i < n ? row[i] : std::conj(row[n - i]));
      }
    }
  }
  return out;
}

}  // namespace

Literal eval_fft(const ir::Instruction& in, Operands xs) {
  const Literal& x = *xs[0];
  const auto& attrs = in.get<ir::FftAttrs>();
  const std::size_t rank = x.dims().size(), count = attrs.lengths.size();
  const bool inverse = attrs.type == ir::FftType::ifft || attrs.type == ir::FftType::irfft;
  Grid grid{x.dims(), load_all<Complex>(x)};
  for (std::size_t d = rank - count; d + 1 < rank; ++d) transform_dim(grid, d, inverse);
  if (attrs.type == ir::FftType::irfft) grid = with_last_dim(grid, attrs.lengths.back(), true);
  transform_dim(grid, rank - 1, inverse);
  if (attrs.type == ir::FftType::rfft) {
    const std::int64_t n = attrs.lengths.back();
    grid = with_last_dim(grid, n == 0 ? 0 : n / 2 + 1, false);
  }
  if (inverse) {
    const double total = double(element_count(attrs.lengths));
    for (Complex& v : grid.values) v /= total;
  }
  const Shape shape(in.shape.dtype, in.shape.dims);
  if (attrs.type != ir::FftType::irfft) return store_all(shape, grid.values);
  std::vector<double> reals;
  for (const Complex& v : grid.values) reals.push_back(v.real());
  return store_all(shape, reals);
}

}  // namespace tessera::evaluator
