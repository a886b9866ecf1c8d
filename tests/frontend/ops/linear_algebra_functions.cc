// SPDX-License-Identifier: Apache-2.0
// Forms of matrices, their derivatives, transforms and bits by their names in the fixtures.
#include "tests/frontend/ops/numeric_functions.h"

namespace tessera::testing {

namespace {

using Arrays = std::vector<Array>;

/// 1, 2, .. n in a dtype.
Array numbers_to(std::int64_t n, DType t) { return arange(1, double(n) + 1, 1, t); }

Arrays weighted_values(const FixtureCall& c) {
  const Array w = linalg::eigvals(c[0]);
  const Array re = real(w), im = imag(w);
  return {(square(re) + 3 * square(im) + 2 * re) * numbers_to(w.shape(-1), re.dtype())};
}

Arrays weighted_vectors(const FixtureCall& c) {
  const Array v = linalg::eig(c[0]).eigenvectors;
  const Array k = numbers_to(v.shape(-1), real_type(v.dtype()));
  return {real(v) * expand_dims(k, 1) + imag(v) * k};
}

FftOptions fft_options(const FixtureCall& c) {
  FftOptions o;
  if (c.has("n")) o.n = c.integer("n");
  o.axis = c.axis().value_or(-1);
  if (c.word("norm") == "ortho") o.norm = FftNorm::ortho;
  if (c.word("norm") == "forward") o.norm = FftNorm::forward;
  return o;
}

}  // namespace

const FixtureTable& linear_algebra_functions() {
  static const FixtureTable table = [] {
    using Call = FixtureCall;
    FixtureTable t;
    t["sqrtm"] = [](const Call& c) { return Arrays{linalg::sqrtm(c[0])}; };
    t["schur"] = [](const Call& c) {
      const linalg::SchurResult r = linalg::schur(c[0], c.integer("complex") != 0);
      if (!is_complex(r.t.dtype())) return Arrays{r.t, r.z};
      // The phases of the vectors are LAPACK's choice, and differ between its kernels.
      return Arrays{abs(r.t), abs(r.z), matmul(matmul(r.z, r.t), conj(transpose(r.z)))};
    };
    t["expm_frechet"] = [](const Call& c) {
      const auto [value, derivative] = linalg::expm_frechet(c[0], c[1]);
      return Arrays{value, derivative};
    };
    t["polar"] = [](const Call& c) {
      const linalg::PolarResult r = linalg::polar(c[0], c.integer("left") != 0);
      return Arrays{r.unitary, r.positive};
    };
    t["eigvals_weighted"] = weighted_values;
    t["eigvectors_weighted"] = weighted_vectors;
    t["tridiagonal_solve"] = [](const Call& c) {
      return Arrays{linalg::tridiagonal_solve(c[0], c[1], c[2], c[3])};
    };
    t["hfft"] = [](const Call& c) { return Arrays{hfft(c[0], fft_options(c))}; };
    t["ihfft"] = [](const Call& c) { return Arrays{ihfft(c[0], fft_options(c))}; };
    t["population_count"] = [](const Call& c) { return Arrays{population_count(c[0])}; };
    t["clz"] = [](const Call& c) { return Arrays{clz(c[0])}; };
    t["reduce_precision"] = [](const Call& c) {
      return Arrays{reduce_precision(c[0], c.integer("exponent"), c.integer("mantissa"))};
    };
    t["reduce"] = [](const Call& c) {
      if (c.has("axis")) {
        return Arrays{reduce(
            c[0], 1, [](Array a, Array b) { return a + b; }, c.axes())};
      }
      return Arrays{reduce(c[0], 0, [](Array a, Array b) { return a ^ b; })};
    };
    return t;
  }();
  return table;
}

}  // namespace tessera::testing
