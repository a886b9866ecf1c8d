// SPDX-License-Identifier: Apache-2.0
// Matrices of the tests of linear algebra, and comparison with JAX's numbers for them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include <tessera/tessera.h>

#include "tests/frontend/ops/linalg_numbers.h"

namespace tessera::testing {

/// sin(1.3 i^2 + 0.7 i + k) for element i.
inline Array waves(std::vector<std::int64_t> shape, double k = 0) {
  std::int64_t n = 1;
  for (std::int64_t d : shape) n *= d;
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i) {
    values.push_back(std::sin(1.3 * double(i) * double(i) + 0.7 * double(i) + k));
  }
  return array(values, std::move(shape));
}
inline Array complex_waves(std::vector<std::int64_t> shape, double k = 0) {
  return tessera::complex(waves(shape, k), waves(shape, k + 0.5));
}
/// [4, 4], far from singular.
inline Array square_matrix() { return waves({4, 4}) + 2.0 * eye(4, 4, 0, f64); }
inline Array complex_square() {
  return complex_waves({4, 4}) + astype(2.0 * eye(4, 4, 0, f64), c128);
}
inline Array tall_matrix() { return waves({5, 3}, 1); }
inline Array complex_tall() { return complex_waves({5, 3}, 1); }
inline Array wide_matrix() { return waves({3, 5}, 2); }

inline std::vector<double> doubles(const Array& x) {
  if (!is_complex(x.dtype())) return astype(x, f64).to_vector<double>();
  std::vector<double> out;
  for (const std::complex<double>& v : astype(x, c128).to_vector<std::complex<double>>()) {
    out.push_back(v.real());
    out.push_back(v.imag());
  }
  return out;
}

inline void expect_same(const Array& have, const std::vector<double>& want, double tolerance,
                        const std::string& what) {
  const std::vector<double> values = doubles(have);
  ASSERT_EQ(values.size(), want.size()) << what;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (values[i] == want[i]) continue;
    ASSERT_NEAR(values[i], want[i], tolerance * (1 + std::abs(want[i]))) << what << ", " << i;
  }
}
inline void expect_same(const Array& have, const Array& want, double tolerance = 1e-8,
                        const std::string& what = "") {
  ASSERT_EQ(have.shape(), want.shape()) << what;
  expect_same(have, doubles(want), tolerance, what);
}
inline void expect_jax(const std::string& name, const Array& have, double tolerance = 1e-7) {
  ASSERT_EQ(jax_linalg().count(name), 1u) << name;
  expect_same(have, jax_linalg().at(name), tolerance, name);
}

}  // namespace tessera::testing
