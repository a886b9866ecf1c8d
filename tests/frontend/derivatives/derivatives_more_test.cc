// SPDX-License-Identifier: Apache-2.0
// Derivatives with other values beside them, check_grads, and scans by associative functions.
#include <gtest/gtest.h>

#include <complex>

#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera {
namespace {

using testing::counting;
using testing::expect_close;
using testing::expect_error;
using testing::floats;
using testing::kNear;

// ------------------------------------------------------------------ has_aux

TEST(HasAux, GoesThroughVjpAndJvp) {
  const Array x = counting({4}, 0.3f);
  const auto f = [](Array v) { return std::pair(sin(v), std::tuple(v * v, arange(3), exp(v))); };
  const auto [y, pull, aux] = vjp(f, has_aux, x);
  expect_close(y, sin(x));
  expect_close(std::get<0>(aux), x * x);
  EXPECT_EQ(std::get<1>(aux).to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 1, 2}));
  expect_close(pull(ones({4})), cos(x));
  const auto [z, dz, other] = jvp(f, has_aux, std::tuple(x), std::tuple(ones({4})));
  expect_close(z, sin(x));
  expect_close(dz, cos(x));
  expect_close(std::get<2>(other), exp(x));
  // Inside of other transformations.
  const auto g = jit([&](Array v) {
    const auto [value, back, rest] = vjp(f, has_aux, v);
    return back(value) + std::get<0>(rest);
  });
  expect_close(g(x), cos(x) * sin(x) + x * x);
}

// ------------------------------------------------------------------ check_grads

TEST(CheckGrads, AcceptsWhatIsRight) {
  const Array x = counting({2, 3}, 0.2f) + 0.1f;
  const auto in = [](DType type, const Array& a) { return astype(a, type); };
  check_grads([](Array v) { return sin(v) * v; }, std::tuple(in(DType::f64, x)), {.order = 3});
  check_grads([](Array a, Array b) { return std::pair(matmul(a, b), sum(a)); },
              std::tuple(x, counting({3, 2}, 0.1f)), {.order = 2, .atol = 2e-2, .rtol = 2e-2});
  check_grads([](Array v, Array i) { return take(v, i, 1) * 2.0f; },
              std::tuple(in(DType::f64, x), array(std::vector<std::int32_t>{2, 0})));
  const Array z = complex(in(DType::f64, x), in(DType::f64, x) * 2.0);
  check_grads([](Array v) { return v * v * v; }, std::tuple(z), {.order = 2});
}

TEST(CheckGrads, RefusesWhatIsWrong) {
  const Array x = astype(counting({3}, 0.3f) + 0.5f, DType::f64);
  auto wrong = custom_jvp([](Array v) { return sin(v); });
  wrong.def_jvp([](std::tuple<Array> v, std::tuple<Array> dv) {
    return std::pair(sin(std::get<0>(v)), 2.0 * cos(std::get<0>(v)) * std::get<0>(dv));
  });
  const auto f = [&](Array v) { return wrong(v); };
  expect_error<ValueError>([&] { check_grads(f, std::tuple(x)); },
                           {"check_grads: jvp of order 1, result 0, element 0", "allowed", kNear});
  expect_error<ValueError>([&] { check_grads(f, std::tuple(x), {.forward = false}); },
                           {"check_grads: vjp of order 1", kNear});
  // Right at first order only.
  auto later = custom_jvp([](Array v) { return sin(v); });
  later.def_jvp([](std::tuple<Array> v, std::tuple<Array> dv) {
    return std::pair(sin(std::get<0>(v)), stop_gradient(cos(std::get<0>(v))) * std::get<0>(dv));
  });
  const auto g = [&](Array v) { return later(v); };
  check_grads(g, std::tuple(x));
  expect_error<ValueError>([&] { check_grads(g, std::tuple(x), {.order = 2}); },
                           {"of order 2", kNear});
  expect_error<ValueError>([&] { check_grads(g, std::tuple(x), {.order = 0}); },
                           {"order is 0", kNear});
  expect_error<ValueError>(
      [&] { check_grads([](Array v) { return log(v - 10.0); }, std::tuple(x)); }, {"nan", kNear});
}

// ------------------------------------------------------------------ associative_scan

TEST(AssociativeScan, GivesPartialResults) {
  const auto plus = [](Array a, Array b) { return a + b; };
  for (const std::int64_t n : {0, 1, 2, 3, 4, 5, 7, 8, 13, 64}) {
    SCOPED_TRACE(n);
    const Array x = sin(counting({n, 2}));
    expect_close(associative_scan(plus, x), cumsum(x, 0));
    expect_close(associative_scan(plus, x, {.reverse = true}), flip(cumsum(flip(x, 0), 0), 0));
    const Array across = transpose(x);
    expect_close(associative_scan(plus, across, {.axis = -1}), cumsum(across, 1));
  }
}

TEST(AssociativeScan, KeepsTheOrderOfOperands) {
  // Products of matrices: associative, not commutative.
  const Array m = sin(counting({6, 2, 2}));
  const auto times = [](Array a, Array b) { return matmul(a, b); };
  const auto [last, products] = scan(
      [&](Array c, Array v) {
        const Array next = matmul(c, v);
        return std::pair(next, next);
      },
      eye(2), m);
  expect_close(associative_scan(times, m), products);
  expect_close(index(associative_scan(times, m), {5}), last);
}

TEST(AssociativeScan, TakesTreesAndComposes) {
  // A linear recurrence h = a h + b.
  const Array a = cos(counting({9})), b = sin(counting({9}));
  const auto combine = [](std::pair<Array, Array> p, std::pair<Array, Array> q) {
    return std::pair(p.first * q.first, q.first * p.second + q.second);
  };
  const auto states = [&](Array f, Array g) {
    return associative_scan(combine, std::pair(f, g)).second;
  };
  const auto by_scan = [](Array f, Array g) {
    return scan(
               [](Array h, std::pair<Array, Array> x) {
                 const Array next = x.first * h + x.second;
                 return std::pair(next, next);
               },
               Array(0.0f), std::pair(f, g))
        .second;
  };
  expect_close(states(a, b), by_scan(a, b));
  expect_close(grad([&](Array f) { return sum(states(f, b)); })(a),
               grad([&](Array f) { return sum(by_scan(f, b)); })(a));
  expect_close(vmap(states)(broadcast_to(a, {3, 9}), broadcast_to(b, {3, 9})),
               broadcast_to(by_scan(a, b), {3, 9}));
  const std::string text = jit(states).lower(a, b).as_text();
  EXPECT_EQ(text.find(" while("), std::string::npos) << text;
}

TEST(AssociativeScan, RefusesWhatDoesntFit) {
  const auto plus = [](Array a, Array b) { return a + b; };
  expect_error<ValueError>(
      [&] {
        associative_scan([](std::pair<Array, Array> p, std::pair<Array, Array>) { return p; },
                         std::pair(ones({3}), ones({4})));
      },
      {"associative_scan", "3 and 4 elements", kNear});
  expect_error<TypeError>(
      [&] { associative_scan([](Array a, Array) { return sum(a); }, ones({4})); },
      {"elements is f32[2]", "f32[] as it returns it", kNear});
  expect_error<ValueError>(
      [&] {
        associative_scan([](std::vector<Array> p, std::vector<Array>) { return p; },
                         std::vector<Array>{});
      },
      {"there are no arrays", kNear});
  expect_error<ValueError>([&] { associative_scan(plus, ones({4}), {.axis = 1}); },
                           {"associative_scan", kNear});
}

TEST(Derivatives, OfCumulativeProductsExchangeLittle) {
  const Mesh mesh = testing::mesh_of({{"x", 8}});
  const Array x = linspace(0.5f, 1.5f, 128), w = linspace(-1.0f, 1.0f, 128);
  const auto loss = [](Array x, Array w) { return sum(cumprod(x) * w) + sum(cummax(sin(x)) * w); };
  const auto f = jit(grad(loss));
  const Array parts = testing::put(x, mesh, P("x")), weights = testing::put(w, mesh, P("x"));
  const std::string text = f.lower(parts, weights).compile().as_text();
  // Nowhere is the whole array, or half of it.
  EXPECT_FALSE(testing::has(text, "f32[128]")) << text;
  EXPECT_FALSE(testing::has(text, "f32[64]")) << text;
  testing::expect_close(f(parts, weights), f(x, w), 1e-4f);
}

}  // namespace
}  // namespace tessera
