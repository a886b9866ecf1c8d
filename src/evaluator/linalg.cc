// SPDX-License-Identifier: Apache-2.0
// Evaluates cholesky and triangular-solve.
#include <cmath>
#include <limits>

#include "src/evaluator/ops.h"
#include "src/evaluator/wide.h"

namespace tessera::evaluator {
namespace {

double conjugate(double v) { return v; }
Complex conjugate(const Complex& v) { return std::conj(v); }
double real_part(double v) { return v; }
double real_part(const Complex& v) { return v.real(); }

std::int64_t matrix_count(const Dims& dims) {
  std::int64_t n = 1;
  for (std::size_t d = 0; d + 2 < dims.size(); ++d) n *= dims[d];
  return n;
}

/// l of a = l·lᴴ, from the lower triangle of a; false if a is not positive definite.
template <class W>
bool factor(const std::vector<W>& a, std::vector<W>& l, std::int64_t n) {
  const auto at = [&](std::int64_t i, std::int64_t j) { return std::size_t(i * n + j); };
  l.assign(a.size(), W{});
  for (std::int64_t j = 0; j < n; ++j) {
    double pivot = real_part(a[at(j, j)]);
    for (std::int64_t k = 0; k < j; ++k) pivot -= std::norm(l[at(j, k)]);
    if (!(pivot > 0)) return false;
    const double root = std::sqrt(pivot);
    l[at(j, j)] = root;
    for (std::int64_t i = j + 1; i < n; ++i) {
      W sum = a[at(i, j)];
      for (std::int64_t k = 0; k < j; ++k) sum -= l[at(i, k)] * conjugate(l[at(j, k)]);
      l[at(i, j)] = sum / root;
    }
  }
  return true;
}

template <class W>
Literal cholesky(const Literal& x, bool lower) {
  const std::int64_t n = x.dims().back();
  const std::size_t size = std::size_t(n * n);
  std::vector<W> all = load_all<W>(x), a(size), l;
  for (std::int64_t b = 0; b < matrix_count(x.dims()); ++b) {
    W* m = all.data() + std::size_t(b) * size;
    // The upper triangle's conjugate transpose is a lower one, and so back.
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        a[std::size_t(i * n + j)] = lower ? m[i * n + j] : conjugate(m[j * n + i]);
      }
    }
    const bool fine = factor(a, l, n);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        m[i * n + j] = !fine   ? W(std::numeric_limits<double>::quiet_NaN())
                       : lower ? l[std::size_t(i * n + j)]
                               : conjugate(l[std::size_t(j * n + i)]);
      }
    }
  }
  return store_all(x.shape(), all);
}

template <class W>
Literal solve(const ir::TriangularSolveAttrs& attrs, const Literal& a, const Literal& b) {
  using Transpose = ir::TriangularSolveAttrs::Transpose;
  const std::int64_t n = a.dims().back();
  const std::int64_t rows = b.dims()[b.dims().size() - 2], columns = b.dims().back();
  const std::vector<W> as = load_all<W>(a);
  std::vector<W> xs = load_all<W>(b);
  // x·op(a) = b is op(a)ᵀ·xᵀ = bᵀ.
  const bool swapped = (attrs.transpose_a != Transpose::none) != !attrs.left_side;
  const bool lower = attrs.lower != swapped;
  const bool conj = attrs.transpose_a == Transpose::adjoint;
  const std::int64_t vectors = attrs.left_side ? columns : rows;
  const std::int64_t step = attrs.left_side ? columns : 1, apart = attrs.left_side ? 1 : columns;
  for (std::int64_t m = 0; m < matrix_count(a.dims()); ++m) {
    const W* matrix = as.data() + m * n * n;
    const auto coefficient = [&](std::int64_t i, std::int64_t j) {
      const W v = swapped ? matrix[j * n + i] : matrix[i * n + j];
      return conj ? conjugate(v) : v;
    };
    for (std::int64_t v = 0; v < vectors; ++v) {
      W* x = xs.data() + m * rows * columns + v * apart;
      for (std::int64_t s = 0; s < n; ++s) {
        const std::int64_t i = lower ? s : n - 1 - s;
        W sum = x[i * step];
        const std::int64_t from = lower ? 0 : i + 1, to = lower ? i : n;
        for (std::int64_t j = from; j < to; ++j) sum -= coefficient(i, j) * x[j * step];
        x[i * step] = attrs.unit_diagonal ? sum : sum / coefficient(i, i);
      }
    }
  }
  return store_all(b.shape(), xs);
}

[[noreturn]] void not_floating(const ir::Instruction& in) {
  throw DTypeError(in.describe() + " needs floats or complex numbers", in.location());
}

}  // namespace

Literal eval_cholesky(const ir::Instruction& in, Operands xs) {
  const Literal& x = *xs[0];
  const bool lower = in.get<ir::CholeskyAttrs>().lower;
  if (is_complex(x.dtype())) return cholesky<Complex>(x, lower);
  if (!is_floating(x.dtype())) not_floating(in);
  return cholesky<double>(x, lower);
}

Literal eval_triangular_solve(const ir::Instruction& in, Operands xs) {
  const Literal &a = *xs[0], &b = *xs[1];
  const auto& attrs = in.get<ir::TriangularSolveAttrs>();
  if (is_complex(b.dtype())) return solve<Complex>(attrs, a, b);
  if (!is_floating(b.dtype())) not_floating(in);
  return solve<double>(attrs, a, b);
}

}  // namespace tessera::evaluator
