// SPDX-License-Identifier: Apache-2.0
// Derivatives of linear algebra: against JAX's and against differences, real and complex, of first
// and second order, and through batches.
#include "tests/frontend/ops/linalg_testing.h"

#include "tests/frontend/frontend_testing.h"

namespace tessera {
namespace linalg_derivatives {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the matrices

Array adjoint(const Array& x) {
  const Array t = linalg::matrix_transpose(x);
  return is_complex(x.dtype()) ? conj(t) : t;
}

Array squared_magnitude(const Array& x) { return square(abs(x)); }

/// The real part of the sum of f(x) times fixed weights.
template <class F>
auto weighted(F f) {
  return [f](Array x) {
    const Array y = f(x);
    const Array w = is_complex(y.dtype()) ? complex_waves(y.shape(), 9) : waves(y.shape(), 9);
    const Array total = sum(y * w);
    return is_complex(y.dtype()) ? real(total) : total;
  };
}

template <class F>
void expect_gradient(const std::string& name, F f, const Array& x) {
  expect_jax("grad_" + name, grad(weighted(f))(x), 1e-6);
}

/// Of real and of complex matrices.
template <class F>
void expect_gradients(const std::string& name, F f, const Array& x, const Array& z) {
  expect_gradient(name, f, x);
  expect_gradient(name + "_c", f, z);
}

TEST(LinalgDerivatives, OfSquareMatricesAreJaxs) {
  const Array a = square_matrix(), c = complex_square(), b = waves({4, 2}, 3);
  const auto all = [&](const std::string& name, auto f) { expect_gradients(name, f, a, c); };
  all("solve", [&](Array x) { return linalg::solve(x, b); });
  all("inv", [](Array x) { return linalg::inv(x); });
  all("det", [](Array x) { return linalg::det(x); });
  all("logdet", [](Array x) { return linalg::slogdet(x).logabsdet; });
  all("chol", [](Array x) { return linalg::cholesky(matmul(x, adjoint(x))); });
  all("expm", [](Array x) { return linalg::expm(x); });
  expect_gradients(
      "eigh_w", [](Array x) { return linalg::eigvalsh(x); }, a, c);
  expect_gradients(
      "eigh_v", [](Array x) { return squared_magnitude(linalg::eigh(x).eigenvectors); }, a, c);
}

TEST(LinalgDerivatives, OfTallMatricesAreJaxs) {
  const Array t = tall_matrix(), c = complex_tall();
  const auto all = [&](const std::string& name, auto f) { expect_gradients(name, f, t, c); };
  all("lu_l", [](Array x) { return linalg::lu(x).l; });
  all("lu_u", [](Array x) { return linalg::lu(x).u; });
  all("qr_q", [](Array x) { return linalg::qr(x).q; });
  all("qr_r", [](Array x) { return linalg::qr(x).r; });
  all("qr_cq", [](Array x) { return linalg::qr(x, linalg::QrMode::complete).q; });
  all("pinv", [](Array x) { return linalg::pinv(x); });
  all("svd_s", [](Array x) { return linalg::svdvals(x); });
  all("svd_u",
      [](Array x) { return squared_magnitude(linalg::svd(x, {.full_matrices = false}).u); });
  all("nuc", [](Array x) { return linalg::norm(x, {.ord = "nuc"}); });
}

TEST(LinalgDerivatives, OfSecondOrderAreJaxs) {
  const auto expect = [](const std::string& name, auto f, const Array& x) {
    const Array direction = waves(x.shape(), 5);
    expect_jax(name, jvp(grad(f), std::tuple(x), std::tuple(direction)).second, 1e-6);
  };
  const Array b = waves({4, 2}, 3);
  expect(
      "hess_logdet", [](Array x) { return linalg::slogdet(x).logabsdet; }, square_matrix());
  expect(
      "hess_svd",
      [](Array x) {
        const Array s = linalg::svdvals(x);
        return sum(s * s * s);
      },
      tall_matrix());
  expect(
      "hess_solve", [&](Array x) { return sum(square(linalg::solve(x, b))); }, square_matrix());
}

/// Both modes and both orders.
TEST(LinalgDerivatives, AreThoseOfDifferences) {
  const CheckGradsOptions options{.order = 2, .atol = 1e-5, .rtol = 1e-5, .eps = 1e-5};
  const auto check = [&](auto f, const Array& x) { check_grads(f, std::tuple(x), options); };
  const Array wide = wide_matrix(), square = square_matrix(), tall = tall_matrix();
  const Array complex_wide = complex_waves({3, 5}, 2);
  const auto both = [](auto f) { return std::pair(f.q, f.r); };
  for (const Array& x : {wide, square, complex_wide}) {
    check([&](Array a) { return both(linalg::qr(a)); }, x);
    check(
        [](Array a) {
          const auto f = linalg::lu(a);
          return std::pair(f.l, f.u);
        },
        x);
    check([](Array a) { return linalg::svdvals(a); }, x);
    check([](Array a) { return linalg::pinv(a); }, x);
    check(
        [](Array a) {
          const auto f = linalg::svd(a, {.full_matrices = false});
          return std::pair(squared_magnitude(f.u), squared_magnitude(f.vh));
        },
        x);
  }
  check([&](Array a) { return linalg::det(a); }, square);
  check([](Array a) { return linalg::matrix_power(a, -2); }, square);
  check([](Array a) { return linalg::eigvalsh(a); }, complex_square());
  check([](Array a) { return linalg::norm(a, {.ord = 3, .axis = 0}); }, square);
  const Array rhs = waves({5, 2}, 4);
  check([&](Array a) { return linalg::lstsq(a, rhs).x; }, tall);
  // A singular matrix has a derivative of its determinant, the matrix of cofactors.
  const Array rank3 = matmul(waves({4, 3}, 1), waves({3, 4}, 2));
  check_grads([](Array a) { return linalg::det(a); }, std::tuple(rank3));
}

/// Programs that JAX exported call LAPACK; they have the gradients that JAX has of the functions.
TEST(LinalgDerivatives, OfProgramsFromJax) {
  const Array real_ones = waves({2, 4, 3}, 1), complex_ones = complex_waves({3, 3}, 1);
  for (const std::string name : {"lu", "qr", "svd", "eigh_c", "solve"}) {
    const auto program = load_stablehlo(std::string(TESSERA_SOURCE_DIR) +
                                        "/tests/fixtures/linalg_derivatives/" + name + ".mlir");
    const auto f = [&](Array x) {
      Array total = 0.0;
      for (const Array& y : program(std::vector<Array>{x})) {
        total = total + weighted([&](Array) { return y; })(x);
      }
      return total;
    };
    const bool complex = name == "eigh_c" || name == "solve";
    expect_jax("loaded_" + name, grad(f)(complex ? complex_ones : real_ones), 1e-6);
  }
}

/// A batch has the gradients of its matrices.
TEST(LinalgDerivatives, OfBatches) {
  const Array a = waves({2, 4, 4}) + 3.0 * eye(4, 4, 0, f64);
  const auto check = [&](auto f) {
    const auto g = grad([f](Array x) { return sum(f(x)); });
    const Array each = stack({g(index(a, {0})), g(index(a, {1}))});
    expect_same(g(a), each, 1e-9);
    expect_same(vmap(g)(a), each, 1e-9);
  };
  check([](Array x) { return linalg::inv(x); });
  check([](Array x) { return linalg::slogdet(x).logabsdet; });
  check([](Array x) { return square(linalg::lu(x).l); });
  check([](Array x) { return square(linalg::qr(x).r); });
  check([](Array x) { return square(linalg::eigh(x).eigenvectors); });
  check([](Array x) { return linalg::svdvals(x); });
}

}  // namespace
}  // namespace linalg_derivatives
}  // namespace tessera
