// SPDX-License-Identifier: Apache-2.0
// Grids and pieces of arrays where results have shapes that depend on values, and their errors.
#include <gtest/gtest.h>
#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera {
namespace {

using testing::expect_error;
using testing::floats;
using testing::kNear;

template <class T>
std::vector<T> values_of(const Array& x) {
  return x.astype(internal::dtype_of<T>::value).template to_vector<T>();
}
using Ints = std::vector<std::int32_t>;

TEST(Pieces, PositionsThatDependOnValues) {
  const Array x = array({4, 0, 5, 9});
  EXPECT_EQ(values_of<std::int32_t>(delete_(x, array({1, 1, -1}))), (Ints{4, 5}));
  EXPECT_EQ(values_of<std::int32_t>(delete_(x, x > 4)), (Ints{4, 0}));
  EXPECT_EQ(values_of<std::int32_t>(choose(array({1, 0, 1}), {array({1, 2, 3}), 9})),
            (Ints{9, 2, 9}));
  EXPECT_EQ(values_of<std::int32_t>(ravel_multi_index({array({1, 2}), array({3, 0})}, {3, 4})),
            (Ints{7, 8}));
  const std::vector<Array> open = ix_({array({true, false, true}), array({2})});
  EXPECT_EQ(values_of<std::int32_t>(open[0]), (Ints{0, 2}));
  EXPECT_EQ(open[0].shape(), (std::vector<std::int64_t>{2, 1}));
  const auto [rows, columns] = mask_indices(3, triu, 1);
  EXPECT_EQ(values_of<std::int32_t>(rows), (Ints{0, 0, 1}));
  EXPECT_EQ(values_of<std::int32_t>(columns), (Ints{1, 2, 2}));
  const auto by_lambda = mask_indices(
      2, [](Array m, std::int64_t k) { return m * double(k); }, 3);
  EXPECT_EQ(by_lambda.first.size(), 4);
}

TEST(Pieces, ZerosAtTheEnds) {
  const Array x = array({0.f, 0.f, 2.f, 0.f, 3.f, 0.f});
  EXPECT_EQ(floats(trim_zeros(x)), (std::vector<float>{2, 0, 3}));
  EXPECT_EQ(floats(trim_zeros(x, "f")), (std::vector<float>{2, 0, 3, 0}));
  EXPECT_EQ(floats(trim_zeros(x, "b")), (std::vector<float>{0, 0, 2, 0, 3}));
  EXPECT_EQ(trim_zeros(zeros({3})).size(), 0);
  const Array m = pad(ones({2, 1}), {{1, 0}, {0, 2}});
  EXPECT_EQ(trim_zeros(m).shape(), (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(trim_zeros(m, "fb", 1).shape(), (std::vector<std::int64_t>{3, 1}));
}

TEST(Pieces, RootsWithoutLeadingZeros) {
  const Array r = sort_complex(roots(array({0.f, 1.f, -3.f, 2.f})));
  EXPECT_EQ(r.shape(), (std::vector<std::int64_t>{2}));
  testing::expect_close(floats(real(r)), {1, 2});
  EXPECT_EQ(roots(zeros({4})).shape(), (std::vector<std::int64_t>{0}));
  const auto [q, rest] = polydiv(array({1.f, -3.f, 2.f}), array({1.f, -1.f}), true);
  testing::expect_close(floats(q), {1, -2});
  EXPECT_EQ(rest.size(), 0);
}

TEST(Pieces, OtherNames) {
  EXPECT_EQ(asarray(3).dtype(), s32);
  EXPECT_FALSE(asarray(3).weak_type());
  EXPECT_EQ(asarray(ones({2}), f16).dtype(), f16);
  EXPECT_EQ(empty({2, 3}).shape(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(broadcast_shapes({{3, 1}, {}, {4}}), (std::vector<std::int64_t>{3, 4}));
  EXPECT_TRUE(isscalar(1) && !isscalar(ones({1})));
  EXPECT_TRUE(iscomplexobj(zeros({}, c64)) && isrealobj(ones({})));
  EXPECT_TRUE(isdtype(u8, "unsigned integer") && isdtype(u8, "integral") && isdtype(u8, "numeric"));
  EXPECT_FALSE(isdtype(pred, "numeric") || isdtype(f32, "complex floating"));
  expect_error<ValueError>([] { isdtype(f32, "real"); }, {"no kind \"real\"", kNear});
}

TEST(Pieces, Errors) {
  const Array x = ones({3, 4}), v = ones({3}), ids = array({0, 5});
  expect_error<ValueError>([&] { delete_(x, 4, 1); }, {"position 4", "-4 to 3", kNear});
  expect_error<ValueError>([&] { delete_(x, ids, 1); }, {"position 5", "size 4", kNear});
  expect_error<ShapeError>([&] { delete_(x, array({true, false}), 1); }, {"pred[2]", "4", kNear});
  expect_error<DTypeError>([&] { delete_(x, v, 1); }, {"f32[3]", "integers", kNear});
  expect_error<ValueError>([&] { delete_(x, newaxis, 1); },
                           {"a number, a Slice or an array", kNear});
  expect_error<DTypeError>([&] { insert(x, v, 1, 0); }, {"f32[3]", "integers", kNear});
  expect_error<ShapeError>([&] { insert(x, ones({1, 2}, s32), 1, 0); }, {"s32[1,2]", kNear});
  expect_error<ShapeError>([&] { insert(x, 1, ones({3}), 0); }, {"don't broadcast", kNear});
  expect_error<ValueError>([&] { choose(ids, {v, v}); }, {"0 to 1", kNear});
  expect_error<ValueError>([&] { choose(ids, {}); }, {"one or more", kNear});
  expect_error<DTypeError>([&] { choose(v, {v}); }, {"f32[3]", kNear});
  expect_error<ValueError>([&] { block({}); }, {"no arrays", kNear});
  expect_error<ValueError>([&] { block({{x}, {}}); }, {"a row", kNear});
  expect_error<ShapeError>([&] { dsplit(x, 2); }, {"f32[3,4]", "rank 3", kNear});
  expect_error<ValueError>([&] { rollaxis(x, 0, 3); }, {"before 3", "-2 to 2", kNear});
  expect_error<ShapeError>([&] { resize(x, {2, -1}); }, {"negative size", kNear});
  expect_error<DTypeError>([&] { packbits(x); }, {"f32[3,4]", kNear});
  expect_error<DTypeError>([&] { unpackbits(ids); }, {"s32[2]", "u8", kNear});
  expect_error<ValueError>([&] { unpackbits(zeros({2}, u8), 0, -1); }, {"-1 bits", kNear});
  expect_error<ShapeError>([&] { view(v, f64); }, {"12 bytes", "multiple of 8", kNear});
  expect_error<ShapeError>([&] { view(ones({}), u8); }, {"a scalar", kNear});
  expect_error<ValueError>([&] { trim_zeros(v, "x"); }, {"\"x\"", kNear});
  expect_error<ValueError>(
      [&] {
        unravel_index(ids, {2});
        linspace(v, v, -1);
      },
      {"-1 numbers", kNear});
  expect_error<ValueError>([&] { linspace(v, 1, 3, {.axis = 2}); }, {"axis 2", kNear});
  expect_error<ShapeError>([&] { geomspace(v, ones({2}), 3); }, {"don't broadcast", kNear});
  expect_error<ShapeError>([&] { meshgrid({x}, {.sparse = true}); }, {"f32[3,4]", kNear});
  expect_error<ShapeError>([&] { ix_({x}); }, {"f32[3,4]", kNear});
  expect_error<ValueError>([&] { tril_indices(-1); }, {"[-1, -1]", kNear});
  expect_error<ShapeError>([&] { triu_indices_from(v); }, {"f32[3]", "a matrix", kNear});
  expect_error<ShapeError>([&] { diag_indices_from(x); }, {"f32[3,4]", "equal sizes", kNear});
  expect_error<ValueError>([&] { ravel_multi_index({ids}, {3}); },
                           {"dimension 0", "0 to 2", kNear});
  expect_error<ValueError>([&] { ravel_multi_index({ids}, {3, 4}); }, {"1 arrays", "2 dim", kNear});
  expect_error<ValueError>([&] { ravel_multi_index({ids.astype(s8)}, {300}); }, {"s8", kNear});
  expect_error<DTypeError>([&] { unravel_index(v, {3}); }, {"f32[3]", kNear});
  expect_error<ValueError>([&] { hanning(-2); }, {"-2", kNear});
  expect_error<ShapeError>([&] { kaiser(4, v); }, {"f32[3]", kNear});
  expect_error<ShapeError>([&] { poly(x); }, {"f32[3,4]", kNear});
  expect_error<ShapeError>([&] { roots(x); }, {"f32[3,4]", kNear});
  expect_error<ValueError>([&] { polyfit(v, v, -1); }, {"degree -1", kNear});
  expect_error<ShapeError>([&] { polyfit(v, ones({4}), 1); }, {"f32[4]", "[3]", kNear});
  expect_error<ShapeError>([&] { polyfit(v, v, 1, {.w = ones({2})}); }, {"f32[2]", kNear});
  expect_error<ValueError>([&] { polyfit_cov(v, v, 2); }, {"3 samples", "3 coefficients", kNear});
  expect_error<ShapeError>([&] { polydiv(x, v); }, {"f32[3,4]", kNear});
  expect_error<ValueError>([&] { cumulative_sum(x); }, {"needs an axis", kNear});
  expect_error<ShapeError>([&] { fliplr(v); }, {"f32[3]", kNear});
  expect_error<DTypeError>([&] { fabs(zeros({2}, c64)); }, {"c64", kNear});
}

TEST(Pieces, ErrorsOfMargins) {
  const Array x = ones({3, 4});
  const auto mode = [](PadMode m) {
    PadOptions o;
    o.mode = m;
    return o;
  };
  PadOptions o = mode(PadMode::mean);
  o.stat_length = {{0, 1}};
  expect_error<ValueError>([&] { pad(x, {{1, 1}}, o); }, {"(0, 1)", "1 or more", kNear});
  o = mode(PadMode::edge);
  o.stat_length = {{1, 1}};
  expect_error<ValueError>([&] { pad(x, {{1, 1}}, o); }, {"stat_length", "not edge", kNear});
  o = mode(PadMode::mean);
  o.odd = true;
  expect_error<ValueError>([&] { pad(x, {{1, 1}}, o); }, {"reflect", "not mean", kNear});
  o = mode(PadMode::linear_ramp);
  o.values = {{1, x}};
  expect_error<ShapeError>([&] { pad(x, {{1, 1}}, o); }, {"a scalar", "f32[3,4]", kNear});
  o.values = {{1, 1}, {1, 1}, {1, 1}};
  expect_error<ValueError>([&] { pad(x, {{1, 1}}, o); }, {"3 pairs of values", kNear});
  expect_error<ShapeError>(
      [&] {
        pad(ones({0}), {{1, 1}}, mode(PadMode::median));
      },
      {"median", "no elements", kNear});
}

TEST(Pieces, ErrorsOfTraces) {
  const auto traced = [](auto f, Array x) { return jit(f)(x); };
  const Array x = array({0, 1, 2});
  expect_error<TracerError>([&] { traced([](Array v) { return trim_zeros(v); }, x); }, {"s32[3]"});
  expect_error<TracerError>([&] { traced([](Array v) { return delete_(v, v); }, x); },
                            {"assume_unique_indices"});
  expect_error<TracerError>(
      [&] {
        traced([](Array v) { return choose(v, {v, v, v}); }, x);
      },
      {"clip or wrap"});
  expect_error<TracerError>([&] { traced([](Array v) { return roots(v); }, x); },
                            {"strip_zeros = false"});
  expect_error<TracerError>([&] { traced([](Array v) { return ravel_multi_index({v}, {3}); }, x); },
                            {"promise_in_bounds"});
}

TEST(Vectorize, Errors) {
  const auto dot = [](Array a, Array b) { return tessera::dot(a, b); };
  const Array m = ones({3, 4}), v = ones({4}), w = ones({5});
  const auto with = [&](const char* signature) { return vectorize(dot, {.signature = signature}); };
  expect_error<ValueError>([&] { with("(n),(n)")(m, v); }, {"can't be read", kNear});
  expect_error<ValueError>([&] { with("(n,)->()")(m, v); }, {"can't be read", kNear});
  expect_error<ValueError>([&] { with("(n)->()")(m, v); }, {"1 arguments", "2", kNear});
  expect_error<ShapeError>([&] { with("(n),(n)->()")(m, w); }, {"f32[5]", "4 elsewhere", kNear});
  expect_error<ShapeError>([&] { with("(n,m),(n,m)->()")(m, v); }, {"fewer than 2", kNear});
  expect_error<ShapeError>([&] { with("(n),(n)->(n)")(m, v); }, {"result 0", "1 dim", kNear});
  expect_error<ValueError>([&] { with("(n),(n)->(),()")(m, v); },
                           {"2 results", "returns 1", kNear});
  expect_error<ShapeError>([&] { vectorize(dot)(m, w); }, {"broadcast", "5", "4", kNear});
}

/// The pairwise distances of points, by a function of two points; in reverse mode and on devices.
TEST(Vectorize, ComposesWithJitAndGrad) {
  const auto squared =
      vectorize([](Array a, Array b) { return sum(square(a - b)); }, {.signature = "(n),(n)->()"});
  const Array points = testing::counting({8, 3}, 0.5f);
  const auto total = [&](Array p) { return sum(squared(expand_dims(p, 1), p)); };
  const auto direct = [](Array p) { return sum(square(expand_dims(p, 1) - p)); };
  testing::expect_close(grad(total)(points), grad(direct)(points));
  const Mesh mesh = make_mesh({{"d", 8}});
  const Array split = device_put(points, NamedSharding(mesh, P("d")));
  testing::expect_close(jit(total)(split), direct(points));
}

}  // namespace
}  // namespace tessera
