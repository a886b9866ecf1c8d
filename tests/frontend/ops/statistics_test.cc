// SPDX-License-Identifier: Apache-2.0
// Statistics, histograms, sampled functions and products of vectors: transformations and errors.
#include <gtest/gtest.h>

#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::statistics_tests {
namespace {

using testing::counting;
using testing::expect_close;
using testing::expect_error;
using testing::floats;
using testing::kNear;

/// Functions of one row.
std::vector<std::pair<const char*, std::function<Array(Array)>>> row_functions() {
  const Array xp = array({0.0f, 1.0f, 2.0f, 4.0f}), fp = array({1.0f, 3.0f, -2.0f, 5.0f});
  return {{"median", [](Array x) { return median(x); }},
          {"quantile",
           [](Array x) {
             return quantile(x, array({0.2f, 0.7f}));
           }},
          {"nanvar", [](Array x) { return nanvar(x); }},
          {"ptp", [](Array x) { return ptp(x); }},
          {"cumlogsumexp", [](Array x) { return cumlogsumexp(x); }},
          {"diff", [](Array x) { return diff(x, 2); }},
          {"trapezoid", [](Array x) { return trapezoid(x); }},
          {"interp", [=](Array x) { return interp(x, xp, fp); }},
          {"polyval",
           [](Array x) {
             return polyval(array({1.0f, -2.0f, 0.5f}), x);
           }},
          {"max", [](Array x) { return max(x, {}, {.where = x < 3, .initial = 0.5f}); }}};
}

Array rows() {
  std::vector<float> values;
  for (int i = 0; i < 40; ++i) values.push_back(float((i * 17) % 41) / 10 + 0.03f);
  return array(values, {8, 5});
}

TEST(Statistics, AreTheSameOnBatchesAndShards) {
  const Array x = rows();
  const Mesh mesh = make_mesh({{"x", 8}});
  const Array split = device_put(x, NamedSharding(mesh, P("x")));
  for (const auto& [name, f] : row_functions()) {
    SCOPED_TRACE(name);
    const Array all = vmap(f)(x);
    for (int i : {0, 5}) expect_close(index(all, {i}), f(index(x, {i})), 1e-6f);
    const auto batch = [&f = f](Array v) { return vmap(f)(v); };
    expect_close(jit(batch)(split), all, 1e-6f);
    const std::string text = jit(batch).lower(split).compile().as_text();
    for (const char* word : {"all-reduce", "all-gather", "collective-permute", "all-to-all"}) {
      EXPECT_FALSE(testing::has(text, word)) << text;
    }
  }
}

TEST(Statistics, DerivativesAreThoseOfDifferences) {
  const Array x = array({0.35, 2.3, 1.6, 3.1, 0.9});
  for (const auto& [name, f] : row_functions()) {
    SCOPED_TRACE(name);
    EXPECT_NO_THROW(check_grads(f, std::tuple(x), {.atol = 1e-3, .rtol = 1e-3}));
  }
}

TEST(Statistics, BincountNeedsALengthInTraces) {
  const Array x = array({1, 3, 1});
  EXPECT_EQ(bincount(x).to_vector<int>(), (std::vector<int>{0, 2, 0, 1}));
  expect_error<TracerError>([&] { jit([](Array v) { return bincount(v); })(x); },
                            {"bincount", "length", kNear});
  const Array under = jit([](Array v) { return bincount(v, {.length = 3}); })(x);
  EXPECT_EQ(under.to_vector<int>(), (std::vector<int>{0, 2, 0}));
}

TEST(Statistics, Errors) {
  const Array x = counting({3, 4}), z = x * std::complex<float>(0, 1);
  expect_error<DTypeError>([&] { median(z); }, {"median", "c64[3,4]", kNear});
  expect_error<ShapeError>([&] { quantile(x, x); }, {"quantile", "f32[3,4]", kNear});
  expect_error<ValueError>([&] { quantile(x, 0.5f, {}, {.weights = x}); },
                           {"weights", "inverted_cdf", kNear});
  expect_error<ValueError>([&] { median(zeros({0})); }, {"median over no elements", kNear});
  expect_error<ValueError>([&] { median(x, 2); }, {"median: axis 2", kNear});
  expect_error<ShapeError>([&] { average(x, 0, {.weights = ones({4})}); },
                           {"average", "f32[4]", "[3]", kNear});
  expect_error<ValueError>([&] { max(x, {}, {.where = x > 1}); }, {"max", "initial", kNear});
  expect_error<DTypeError>([&] { sum(x, {}, {.where = x}); }, {"sum", "where", "pred", kNear});
  expect_error<ShapeError>(
      [&] {
        sum(x, {}, {.where = ones({2, 3, 4}) > 0});
      },
      {"sum", "pred[2,3,4]", kNear});
  expect_error<ShapeError>([&] { sum(x, {}, {.initial = ones({2})}); }, {"initial", kNear});
  expect_error<ShapeError>([&] { cov(ones({2, 2, 2})); }, {"cov", "[2,2,2]", kNear});
  expect_error<ShapeError>([&] { cov(x, {.aweights = ones({3})}); },
                           {"4 samples", "aweights f32[3]", kNear});
  expect_error<ValueError>([&] { histogram(x, 0); }, {"histogram with 0 bins", kNear});
  expect_error<ShapeError>([&] { histogramdd(ones({3})); }, {"histogramdd", "[N, D]", kNear});
  expect_error<DTypeError>([&] { bincount(ones({3})); }, {"bincount", "f32[3]", kNear});
  expect_error<ShapeError>([&] { digitize(x, x); }, {"digitize", "vector", kNear});
}

TEST(Sampled, Errors) {
  const Array x = counting({3, 4}), v = counting({4});
  expect_error<ValueError>([&] { diff(x, -1); }, {"diff of order -1", kNear});
  expect_error<ShapeError>([&] { diff(2.0f); }, {"diff of a scalar", kNear});
  expect_error<ShapeError>([&] { gradient(ones({1, 3})); }, {"gradient", "axis 0", kNear});
  expect_error<ValueError>([&] { gradient(x, {v, v, v}); }, {"2 axes with 3 spacings", kNear});
  expect_error<ShapeError>([&] { interp(v, v, ones({3})); }, {"interp", "[3]", kNear});
  expect_error<ShapeError>([&] { convolve(x, v); }, {"convolve", "[3,4]", "vectors", kNear});
  expect_error<ShapeError>([&] { polyadd(v, zeros({0})); }, {"polyadd", "[0]", kNear});
  expect_error<ValueError>([&] { polyder(v, -1); }, {"polyder of order -1", kNear});
  expect_error<ShapeError>([&] { polyint(v, 2, ones({3})); }, {"polyint", "f32[3]", kNear});
  expect_error<ShapeError>([&] { trapezoid_at(x, ones({3})); }, {"trapezoid_at", "4", kNear});
}

TEST(Vectors, Errors) {
  const Array x = counting({3, 4});
  expect_error<ShapeError>([&] { vecdot(x, ones({3})); }, {"vecdot", "size 4", "size 3", kNear});
  expect_error<ShapeError>([&] { matvec(x, ones({3})); }, {"matvec", "f32[3]", kNear});
  expect_error<ShapeError>([&] { matvec(ones({3}), ones({3})); }, {"matvec", "rank 2", kNear});
  expect_error<ShapeError>([&] { vecmat(ones({4}), x); }, {"vecmat", "f32[4]", kNear});
  expect_error<ShapeError>([&] { cross(x, x); }, {"cross", "2 or 3", kNear});
}

}  // namespace
}  // namespace tessera::statistics_tests
