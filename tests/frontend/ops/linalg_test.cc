// SPDX-License-Identifier: Apache-2.0
// Linear algebra: values against JAX's, products of factors, batches, shardings, errors.
#include "tests/frontend/ops/linalg_testing.h"

#include <limits>

#include "tests/frontend/frontend_testing.h"

namespace tessera {
namespace linalg_values {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the matrices

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Linalg, SolvesLikeJax) {
  expect_jax("solve", linalg::solve(square_matrix(), waves({4, 2}, 3)));
  expect_jax("solve_c", linalg::solve(complex_square(), complex_waves({4, 2}, 3)));
  expect_jax("inv", linalg::inv(square_matrix()));
  expect_jax("det", linalg::det(square_matrix()));
  expect_jax("det_c", linalg::det(complex_square()));
  const auto [sign, log] = linalg::slogdet(complex_square());
  expect_jax("slogdet_sign", sign);
  expect_jax("slogdet_log", log);
  expect_jax("pinv", linalg::pinv(tall_matrix()));
  expect_jax("pinv_c", linalg::pinv(complex_tall()));
  const auto fit = linalg::lstsq(tall_matrix(), waves({5, 2}, 4));
  expect_jax("lstsq_x", fit.x);
  expect_jax("lstsq_r", fit.residuals);
  EXPECT_EQ(fit.rank.item<int>(), 3);
}

TEST(Linalg, FactorsLikeJax) {
  const auto f = linalg::lu(tall_matrix());
  expect_jax("lu_p", f.p);
  expect_jax("lu_l", f.l);
  expect_jax("lu_u", f.u);
  const auto q = linalg::qr(tall_matrix());
  expect_jax("qr_q", q.q);
  expect_jax("qr_r", q.r);
  expect_jax("qr_r", linalg::qr_r(tall_matrix()));
  expect_jax("qr_cq", linalg::qr(tall_matrix(), linalg::QrMode::complete).q);
  expect_jax("qr_wr", linalg::qr(wide_matrix()).r);
  const Array a = square_matrix(), c = complex_square();
  expect_jax("eigh_w", linalg::eigvalsh(a + linalg::matrix_transpose(a)));
  expect_jax("eigh_cw", linalg::eigvalsh(c + conj(linalg::matrix_transpose(c))));
  expect_jax("svd_s", linalg::svdvals(tall_matrix()));
}

TEST(Linalg, FactorsMultiplyToTheMatrix) {
  for (const Array& a : {waves({2, 5, 3}, 1), complex_waves({2, 3, 5}, 1), waves({3, 4, 4}, 2),
                         complex_waves({4, 4}, 2)}) {
    const auto f = linalg::lu(a);
    const Array p = is_complex(a.dtype()) ? astype(f.p, c128) : f.p;
    expect_same(matmul(p, matmul(f.l, f.u)), a, 1e-12, "lu");
    for (const auto mode : {linalg::QrMode::reduced, linalg::QrMode::complete}) {
      const auto q = linalg::qr(a, mode);
      expect_same(matmul(q.q, q.r), a, 1e-12, "qr");
    }
    const auto d = linalg::svd(a, {.full_matrices = false});
    const Array s = expand_dims(is_complex(a.dtype()) ? astype(d.s, c128) : d.s, -2);
    expect_same(matmul(d.u * s, d.vh), a, 1e-12, "svd");
    expect_same(matmul(matmul(a, linalg::pinv(a)), a), a, 1e-12, "pinv");
  }
  const Array a = complex_waves({2, 3, 3}, 1);
  const Array h = a + conj(linalg::matrix_transpose(a));
  const auto e = linalg::eigh(h);
  expect_same(matmul(h, e.eigenvectors),
              e.eigenvectors * expand_dims(astype(e.eigenvalues, c128), -2), 1e-12, "eigh");
  const auto hermitian = linalg::svd(h, {.hermitian = true});
  expect_same(matmul(hermitian.u * expand_dims(astype(hermitian.s, c128), -2), hermitian.vh), h,
              1e-12, "svd of hermitian");
  expect_same(hermitian.s, linalg::svdvals(h), 1e-12);
  const Array positive = matmul(a, conj(linalg::matrix_transpose(a))) + eye(3, 3, 0, f64);
  const Array l = linalg::cholesky(positive), u = linalg::cholesky(positive, {.upper = true});
  expect_same(matmul(l, conj(linalg::matrix_transpose(l))), positive, 1e-12, "cholesky");
  expect_same(matmul(conj(linalg::matrix_transpose(u)), u), positive, 1e-12, "upper");
  const auto general = linalg::eig(waves({2, 4, 4}));
  expect_same(matmul(astype(waves({2, 4, 4}), c128), general.eigenvectors),
              general.eigenvectors * expand_dims(general.eigenvalues, -2), 1e-12, "eig");
}

TEST(Linalg, SolvesByFactors) {
  const Array a = complex_square(), b = complex_waves({4, 2}, 3);
  const auto f = linalg::lu_factor(a);
  const Array at = linalg::matrix_transpose(a);
  expect_same(linalg::lu_solve(f, b), linalg::solve(a, b));
  expect_same(linalg::lu_solve(f, b, linalg::Trans::transpose), linalg::solve(at, b));
  expect_same(linalg::lu_solve(f, b, linalg::Trans::adjoint), linalg::solve(conj(at), b));
  const Array positive = matmul(a, conj(at));
  for (const bool lower : {false, true}) {
    expect_same(linalg::cho_solve(linalg::cho_factor(positive, lower), b),
                linalg::solve(positive, b));
  }
  const Array low = tril(a), v = complex_waves({4}, 2);
  for (const auto trans : {linalg::Trans::none, linalg::Trans::transpose, linalg::Trans::adjoint}) {
    const Array op = trans == linalg::Trans::none        ? low
                     : trans == linalg::Trans::transpose ? linalg::matrix_transpose(low)
                                                         : conj(linalg::matrix_transpose(low));
    const Array x = linalg::solve_triangular(a, v, {.trans = trans, .lower = true});
    expect_same(matmul(op, x), v);
    const bool moved = trans != linalg::Trans::none, conjugated = trans == linalg::Trans::adjoint;
    const Array y =
        linalg::triangular_solve(a, linalg::matrix_transpose(b),
                                 {.lower = true, .transpose_a = moved, .conjugate_a = conjugated});
    expect_same(matmul(y, op), linalg::matrix_transpose(b));
  }
}

TEST(Linalg, NormsLikeJax) {
  const Array t = tall_matrix(), v = index(t, {Slice{}, 0}), a = square_matrix();
  expect_jax("norm_None", linalg::norm(t));
  expect_jax("norm_fro", linalg::norm(t, {.ord = "fro"}));
  expect_jax("norm_nuc", linalg::norm(t, {.ord = "nuc"}));
  const auto orders = {std::pair("1", 1.0), {"-1", -1.0},       {"2", 2.0},
                       {"-2", -2.0},        {"inf", kInfinity}, {"-inf", -kInfinity}};
  for (const auto& [name, order] : orders) {
    const std::string text = name;
    expect_jax("norm_" + text, linalg::norm(t, {.ord = order}));
    expect_jax("norm_" + text, linalg::matrix_norm(t, {.ord = order}));
    if (text != "-1") expect_jax("vnorm_" + text, linalg::norm(v, {.ord = order}));
  }
  for (const auto& [name, order] : {std::pair("0", 0.0), {"3", 3.0}, {"0.5", 0.5}}) {
    expect_jax(std::string("vnorm_") + name, linalg::vector_norm(v, {.ord = order}));
  }
  expect_jax("cond_None", linalg::cond(a));
  for (const auto& [name, order] :
       {std::pair("2", 2.0), {"-2", -2.0}, {"1", 1.0}, {"-1", -1.0}, {"inf", kInfinity}}) {
    expect_jax(std::string("cond_") + name, linalg::cond(a, order));
  }
  expect_jax("cond_fro", linalg::cond(a, "fro"));
  const Array x = waves({2, 3, 4});
  EXPECT_EQ(linalg::norm(x, {.ord = 1, .axis = {0, 2}, .keepdims = true}).shape(),
            (std::vector<std::int64_t>{1, 3, 1}));
  expect_same(linalg::norm(x, {.ord = "nuc", .axis = {2, 0}}),
              sum(linalg::svdvals(transpose(x, {1, 0, 2})), -1));
  EXPECT_EQ(linalg::norm(x, {.ord = 2, .axis = {0, 1}, .keepdims = true}).shape(),
            (std::vector<std::int64_t>{1, 1, 4}));
  EXPECT_EQ(linalg::matrix_rank(outer(v, v)).item<int>(), 1);
  EXPECT_EQ(linalg::matrix_rank(stack({a, zeros({4, 4}, f64)})).to_vector<int>(),
            (std::vector<int>{4, 0}));
}

TEST(Linalg, FunctionsLikeJax) {
  const Array a = square_matrix(), c = complex_square();
  expect_jax("expm", linalg::expm(a));
  expect_jax("expm_c", linalg::expm(c));
  expect_jax("expm_32", linalg::expm(astype(a, f32)), 2e-5);
  expect_same(linalg::expm(stack({a, a * 9.0, a * 0.0})),
              stack({linalg::expm(a), linalg::expm(a * 9.0), eye(4, 4, 0, f64)}));
  EXPECT_TRUE(std::isnan(doubles(linalg::expm(a * 1e9))[0]));
  expect_jax("mpow", linalg::matrix_power(a, -3));
  expect_same(linalg::matrix_power(a, 5), matmul(a, matmul(matmul(a, a), matmul(a, a))));
  EXPECT_EQ(linalg::matrix_power(full({2, 2}, 2), 3).dtype(), s32);
  const Array p = waves({2, 9}), q = waves({9, 3}, 1), r = waves({3, 5}, 2), v = waves({5}, 3);
  expect_same(linalg::multi_dot({p, q, r, v}), matmul(matmul(matmul(p, q), r), v));
  const Array blocks = linalg::block_diag({ones({1, 2}), 3.0f, ones({2}) * 4.0f});
  EXPECT_EQ(blocks.to_vector<float>(),
            (std::vector<float>{1, 1, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 4, 4}));
  EXPECT_EQ(linalg::toeplitz(array({1, 2, 3}), array({9, 4})).to_vector<int>(),
            (std::vector<int>{1, 4, 2, 1, 3, 2}));
  EXPECT_EQ(linalg::vander(array({1, 2, 3}), 3).to_vector<int>(),
            (std::vector<int>{1, 1, 1, 4, 2, 1, 9, 3, 1}));
  const Array tensor = reshape(square_matrix(), {2, 2, 4});
  const Array x = linalg::tensorsolve(tensor, waves({2, 2}));
  expect_same(tensordot(tensor, x, 1), waves({2, 2}));
  EXPECT_EQ(linalg::tensorinv(tensor).shape(), (std::vector<std::int64_t>{4, 2, 2}));
}

TEST(Linalg, PromotesAndBroadcasts) {
  EXPECT_EQ(linalg::inv(array(std::vector<std::vector<int>>{{2, 0}, {0, 4}})).dtype(), f32);
  EXPECT_EQ(linalg::solve(ones({1, 1}), ones({1}, f64)).dtype(), f64);
  EXPECT_EQ(linalg::svdvals(complex_tall()).dtype(), f64);
  const Array a = stack({square_matrix(), square_matrix() * 2.0});
  const Array b = waves({3, 1, 4, 2});
  const Array x = linalg::solve(a, b);
  EXPECT_EQ(x.shape(), (std::vector<std::int64_t>{3, 2, 4, 2}));
  expect_same(matmul(a, x), broadcast_to(b, {3, 2, 4, 2}));
  expect_same(matmul(a, expand_dims(linalg::solve(a, waves({4})), -1)),
              broadcast_to(reshape(waves({4}), {4, 1}), {2, 4, 1}));
  EXPECT_EQ(linalg::det(zeros({3, 0, 0})).to_vector<float>(), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(linalg::inv(zeros({2, 0, 0})).shape(), (std::vector<std::int64_t>{2, 0, 0}));
}

TEST(Linalg, SaysNaNWhereThereIsNothing) {
  const Array bad = -eye(3, 3, 0, f64), both = stack({bad, -bad});
  const auto factors = linalg::cholesky(both).to_vector<double>();
  EXPECT_TRUE(std::isnan(factors[0]) && std::isnan(factors[1]));
  EXPECT_EQ(factors[9], 1);
  EXPECT_EQ(linalg::det(zeros({4, 4})).item<float>(), 0);
  const auto [sign, log] = linalg::slogdet(zeros({4, 4}));
  EXPECT_EQ(sign.item<float>(), 0);
  EXPECT_EQ(log.item<float>(), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(linalg::cond(zeros({2, 2}), 1).item<float>(), std::numeric_limits<float>::infinity());
}

/// A batch that is split among devices is computed without communication.
TEST(Linalg, Behaviour_208_BatchesAreSplitWithoutCollectives) {
  const Mesh mesh = make_mesh({{"x", 4}});
  const NamedSharding split(mesh, P("x"));
  const Array a = device_put(waves({8, 4, 4}) + 3.0 * eye(4, 4, 0, f64), split);
  const auto check = [&](const std::string& name, auto f) {
    const auto compiled = jit(f, {.out_shardings = split}).lower(a).compile();
    const std::string text = compiled.as_text();
    for (const char* op : {"all-gather", "all-reduce", "all-to-all", "collective-permute"}) {
      EXPECT_EQ(text.find(op), std::string::npos) << name << ":\n" << text;
    }
    expect_same(compiled(a), f(device_put(a, NamedSharding(mesh, P()))), 1e-9, name);
  };
  check("solve", [](Array x) { return linalg::solve(x, x * x); });
  check("det", [](Array x) { return linalg::det(x); });
  check("slogdet", [](Array x) { return linalg::slogdet(x).logabsdet; });
  check("lu", [](Array x) { return linalg::lu(x).l; });
  check("qr", [](Array x) { return linalg::qr(x).q; });
  check("eigh", [](Array x) { return linalg::eigh(x).eigenvectors; });
  check("svd", [](Array x) { return linalg::svd(x).s; });
  check("cholesky",
        [](Array x) { return linalg::cholesky(matmul(x, linalg::matrix_transpose(x))); });
  check("expm", [](Array x) { return linalg::expm(x); });
  check("grad of logdet", grad([](Array x) { return sum(linalg::slogdet(x).logabsdet); }));
  check("grad of lu", grad([](Array x) { return sum(square(linalg::lu(x).u)); }));
  check("grad of svd", grad([](Array x) { return sum(linalg::svd(x).s); }));
}

TEST(Linalg, BatchesUnderVmap) {
  const Array a = waves({3, 4, 4}) + 3.0 * eye(4, 4, 0, f64), b = waves({3, 4, 2}, 1);
  const auto each = [&](auto f) {
    return stack({f(index(a, {0})), f(index(a, {1})), f(index(a, {2}))});
  };
  const auto check = [&](auto f) { expect_same(vmap(f)(a), each(f), 1e-12); };
  check([](Array x) { return linalg::inv(x); });
  check([](Array x) { return linalg::det(x); });
  check([](Array x) { return linalg::lu(x).l; });
  check([](Array x) { return linalg::qr(x).q; });
  check([](Array x) { return linalg::eigh(x).eigenvalues; });
  check([](Array x) { return linalg::svd(x).s; });
  check([](Array x) { return linalg::expm(x); });
  check(grad([](Array x) { return linalg::det(x); }));
  check(grad([](Array x) { return linalg::norm(x, {.ord = "nuc"}); }));
  expect_same(vmap([](Array x, Array y) { return linalg::solve(x, y); })(a, b), linalg::solve(a, b),
              1e-12);
}

TEST(Linalg, ProgramsCallLapackLikeJax) {
  const auto text = jit([](Array x) { return linalg::qr(x).q; }).lower(ones({2, 5, 3})).as_text();
  EXPECT_NE(text.find("lapack_sgeqrf_ffi"), std::string::npos) << text;
  EXPECT_NE(text.find("lapack_sorgqr_ffi"), std::string::npos) << text;
  EXPECT_NE(text.find("{f32[2,5,3]{1,2,0}}"), std::string::npos) << text;
  EXPECT_NE(text.find("num_batch_dims=\"1\""), std::string::npos) << text;
}

TEST(Linalg, ErrorsSayTheSizesAndTheLine) {
  const Array m = ones({2, 3}), s = ones({3, 3});
  expect_error<ShapeError>([&] { linalg::inv(m); },
                           {"linalg.inv of f32[2,3]", "2 rows and 3 columns", kNear});
  expect_error<ShapeError>([&] { linalg::det(ones({3})); }, {"linalg.det", "f32[3]", kNear});
  expect_error<ShapeError>(
      [&] {
        linalg::solve(s, ones({4, 2}));
      },
      {"f32[3,3] and f32[4,2]", "3 rows", "4", kNear});
  expect_error<ShapeError>(
      [&] {
        linalg::solve(ones({2, 3, 3}), ones({2, 3}));
      },
      {"[.., n, 1]", kNear});
  expect_error<ShapeError>(
      [&] {
        linalg::solve(ones({2, 3, 3}), ones({5, 3, 1}));
      },
      {"[2]", "[5]", kNear});
  expect_error<DTypeError>(
      [&] {
        linalg::svd(ones({2, 2}, bf16));
      },
      {"bf16[2,2]", "f32, f64, c64 and c128", kNear});
  expect_error<ShapeError>(
      [&] {
        linalg::triangular_solve(s, ones({3, 2}));
      },
      {"3 rows", "2 columns", kNear});
  expect_error<ShapeError>([&] { linalg::lstsq(m, ones({3})); }, {"2 rows", "3", kNear});
  expect_error<ValueError>([&] { linalg::norm(m, {.ord = 3}); }, {"order is 3", "nuc", kNear});
  expect_error<ValueError>([&] { linalg::norm(m, {.ord = "nuc", .axis = 0}); }, {"nuc", kNear});
  expect_error<ValueError>([&] { linalg::norm(ones({2, 2, 2}), {.ord = 2}); }, {"3 axes", kNear});
  expect_error<ValueError>([&] { linalg::multi_dot({m}); }, {"two or more", kNear});
  expect_error<ShapeError>([&] { linalg::multi_dot({m, m}); }, {"3 columns", "2 rows", kNear});
  expect_error<ValueError>([&] { linalg::cond(ones({0, 2})); }, {"no elements", kNear});
  expect_error<ShapeError>([&] { linalg::lu_solve({s, arange(2)}, ones({3})); }, {"[3]", kNear});
  expect_error<NotImplementedError>(
      [&] { grad([](Array x) { return sum(linalg::schur(x).t); })(s); }, {"Schur", kNear});
  expect_error<NotImplementedError>([&] { grad([](Array x) { return sum(linalg::svd(x).u); })(m); },
                                    {"full_matrices = false", kNear});
}

}  // namespace
}  // namespace linalg_values
}  // namespace tessera
