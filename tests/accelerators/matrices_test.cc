// SPDX-License-Identifier: Apache-2.0
// Matrices are factored by formulas where the plugin has no LAPACK and can't call the host's.
#include <functional>

#include "tests/accelerators/plugin_testing.h"

namespace tessera::testing {
namespace {

class Matrices : public FaultyPlugins {
 protected:
  Device device() {
    static const Device d = load("no extensions")[0];
    return d;
  }
  void check(const char* what, const std::function<Array(Array, Array)>& f, const Array& a,
             const Array& b, float tolerance = 2e-4f) {
    SCOPED_TRACE(what);
    const auto g = jit(f);
    expect_close(g(device_put(a, device()), device_put(b, device())), g(a, b), tolerance);
  }
  void check(const char* what, const std::function<Array(Array)>& f, const Array& a,
             float tolerance = 2e-4f) {
    check(
        what, [f](Array x, Array) { return f(x); }, a, a, tolerance);
  }
  static Array noise(const std::vector<std::int64_t>& dims) {
    return sin(square(counting(dims, 0.3f)) + 1.0f);
  }
  static Array transposed(const Array& a) { return swapaxes(a, -1, -2); }
};

TEST_F(Matrices, Factors) {
  const Array a = noise({3, 6, 6}) + eye(6) * 2.0f;
  const Array spd = matmul(a, transposed(a)) + eye(6) * 3.0f;
  const Array rhs = cos(counting({3, 6, 2}, 0.9f));
  check(
      "cholesky", [](Array x) { return linalg::cholesky(x); }, spd);
  check(
      "solve", [](Array x, Array b) { return linalg::solve(x, b); }, a, rhs);
  check(
      "inv", [](Array x) { return linalg::inv(x); }, a);
  check(
      "det", [](Array x) { return linalg::det(x); }, a);
  check(
      "qr",
      [](Array x) {
        const auto out = linalg::qr(x);
        return matmul(out.q, out.r);
      },
      a);
  check(
      "qr_r", [](Array x) { return abs(linalg::qr(x).r); }, a);
}

TEST_F(Matrices, SymmetricEigenvalues) {
  for (const std::int64_t n : {1, 2, 3, 7, 16}) {
    SCOPED_TRACE(n);
    const Array a = noise({3, n, n}), s = a + transposed(a);
    check(
        "values", [](Array x) { return linalg::eigvalsh(x); }, s);
    check(
        "together",
        [](Array x) {
          const auto [w, v] = linalg::eigh(x);
          return matmul(v * expand_dims(w, -2), swapaxes(v, -1, -2));
        },
        s);
    check(
        "orthonormal",
        [](Array x) {
          const Array v = linalg::eigh(x).eigenvectors;
          return matmul(swapaxes(v, -1, -2), v);
        },
        s);
  }
  // Eigenvalues of both signs and the same size, several times the same, and nothing.
  const Array swap =
      array(std::vector<float>{0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0}, {4, 4});
  for (const Array& s : {swap, eye(4), zeros({4, 4}), swap * 1e-12f, swap * 1e12f}) {
    const Array size = maximum(max(abs(s)), 1e-30f);
    check(
        "values", [&](Array x) { return linalg::eigvalsh(x) / size.item<float>(); }, s);
    check(
        "together",
        [&](Array x) {
          const auto [w, v] = linalg::eigh(x);
          return (matmul(v * w, transpose(v)) - x) / size.item<float>();
        },
        s, 1e-5f);
  }
  const Array a = noise({5, 5}), s = a + transposed(a);
  check(
      "gradient",
      [](Array x) { return grad([](Array y) { return sum(sin(linalg::eigvalsh(y))); })(x); }, s,
      1e-3f);
}

TEST_F(Matrices, ComplexOnes) {
  const Array a = complex(noise({2, 5, 5}), noise({2, 5, 5}) * cos(counting({2, 5, 5})));
  const Array h = a + conj(transposed(a));
  check(
      "eigvalsh", [](Array x) { return linalg::eigvalsh(x); }, h);
  check(
      "eigh",
      [](Array x) {
        const auto [w, v] = linalg::eigh(x);
        return abs(matmul(v * astype(expand_dims(w, -2), c64), conj(swapaxes(v, -1, -2))));
      },
      h);
  check(
      "svd",
      [](Array x) {
        const auto [u, s, vh] = linalg::svd(x, {.full_matrices = false});
        return real(matmul(u * astype(expand_dims(s, -2), c64), vh));
      },
      a);
}

TEST_F(Matrices, SingularValues) {
  for (const auto& [m, n] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {4, 4}, {7, 4}, {4, 7}, {9, 2}, {1, 5}, {12, 11}}) {
    SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n));
    const Array a = noise({2, m, n});
    check(
        "values", [](Array x) { return linalg::svdvals(x); }, a);
    for (const bool full : {false, true}) {
      check(
          "together",
          [full](Array x) {
            const auto [u, s, vh] = linalg::svd(x, {.full_matrices = full});
            const std::int64_t k = s.shape(-1);
            const Array left = slice_in_dim(u, 0, k, 1, -1), right = slice_in_dim(vh, 0, k, 1, -2);
            return matmul(left * expand_dims(s, -2), right);
          },
          a);
      check(
          "orthonormal",
          [full](Array x) {
            const auto [u, s, vh] = linalg::svd(x, {.full_matrices = full});
            return matmul(swapaxes(u, -1, -2), u);
          },
          a);
      check(
          "orthonormal, right",
          [full](Array x) {
            const auto [u, s, vh] = linalg::svd(x, {.full_matrices = full});
            return matmul(vh, swapaxes(vh, -1, -2));
          },
          a);
    }
  }
  // Of rank 1 and 0: U is orthonormal still.
  const Array flat = matmul(counting({5, 1}), ones({1, 3}));
  for (const Array& a : {flat, flat * 0.0f}) {
    check(
        "values", [](Array x) { return linalg::svdvals(x); }, a, 1e-5f);
    check(
        "orthonormal",
        [](Array x) {
          const auto [u, s, vh] = linalg::svd(x, {.full_matrices = false});
          return matmul(transpose(u), u);
        },
        a);
  }
  check(
      "gradient",
      [](Array x) { return grad([](Array y) { return sum(sin(linalg::svdvals(y))); })(x); },
      noise({5, 3}), 1e-3f);
  check(
      "pinv", [](Array x) { return linalg::pinv(x); }, noise({5, 3}), 1e-3f);
}

}  // namespace
}  // namespace tessera::testing
