// SPDX-License-Identifier: Apache-2.0
// Methods of arrays are the functions of their names, and indices in brackets are numpy's.
#include <gtest/gtest.h>

#include <sstream>

#include <tessera/tessera.h>

namespace tessera {
namespace {

std::vector<float> floats(const Array& x) { return x.to_vector<float>(); }
using Dims = std::vector<std::int64_t>;

TEST(ArrayMethods, AreTheFunctions) {
  const Array x = reshape(arange(24, f32), {2, 3, 4}) - 7;
  EXPECT_EQ(x.reshape({4, -1}).shape(), (Dims{4, 6}));
  EXPECT_EQ(x.T().shape(), (Dims{4, 3, 2}));
  EXPECT_EQ(floats(x.T()), floats(transpose(x)));
  EXPECT_EQ(floats(x.transpose({1, 0, 2})), floats(transpose(x, {1, 0, 2})));
  EXPECT_EQ(x.swapaxes(0, 2).shape(), (Dims{4, 3, 2}));
  EXPECT_EQ(x.flatten().shape(), (Dims{24}));
  EXPECT_EQ(x.ravel().shape(), (Dims{24}));
  EXPECT_EQ(x.reshape({1, 24, 1}).squeeze().shape(), (Dims{24}));
  EXPECT_EQ(x.reshape({1, 24, 1}).squeeze(0).shape(), (Dims{24, 1}));
  EXPECT_EQ(floats(x.sum(1)), floats(sum(x, 1)));
  EXPECT_EQ(x.sum({0, 2}, true).shape(), (Dims{1, 3, 1}));
  EXPECT_EQ(floats(x.prod(2)), floats(prod(x, 2)));
  EXPECT_EQ(x.mean().item<float>(), mean(x).item<float>());
  EXPECT_EQ(floats(x.var(0)), floats(var(x, 0)));
  EXPECT_EQ(floats(x.stddev(0)), floats(stddev(x, 0)));
  EXPECT_EQ(x.max().item<float>(), 16);
  EXPECT_EQ(x.min().item<float>(), -7);
  EXPECT_EQ((x > 15).any().item<bool>(), true);
  EXPECT_EQ((x > 15).all().item<bool>(), false);
  EXPECT_EQ(x.argmax().item<int>(), 23);
  EXPECT_EQ(x.argmin(1).to_vector<int>(), argmin(x, 1).to_vector<int>());
  EXPECT_EQ(floats(x.cumsum(2)), floats(cumsum(x, 2)));
  EXPECT_EQ(floats(x.flatten().dot(x.flatten())), floats(dot(x.flatten(), x.flatten())));
  EXPECT_EQ(floats(x.clip(-1, 2)), floats(clip(x, -1, 2)));
  EXPECT_EQ(floats((x / 3).round(1)), floats(round(x / 3, 1)));
  EXPECT_EQ(floats((-x).sort()), floats(sort(-x)));
  EXPECT_EQ((-x).argsort(0).to_vector<int>(), argsort(-x, 0).to_vector<int>());
  EXPECT_EQ(floats(x.repeat(2, 1)), floats(repeat(x, 2, 1)));
  EXPECT_EQ(floats(x.take(array({1, 0}), 1)), floats(take(x, array({1, 0}), 1)));
  EXPECT_EQ(x.astype(s32).dtype(), s32);
  EXPECT_EQ(x.nbytes(), 96);
  EXPECT_EQ(floats(x.copy()), floats(x));
  EXPECT_EQ(floats(x.at({0}).set(1)), floats(at(x, {0}).set(1)));
}

TEST(ArrayMethods, IndicesInBrackets) {
  const Array x = reshape(arange(24, f32), {2, 3, 4});
  EXPECT_EQ(floats(x[1]), floats(index(x, {1})));
  EXPECT_EQ(floats(x[-1][0]), floats(index(x, {-1, 0})));
  const std::size_t place = 1;
  EXPECT_EQ(floats(x[place]), floats(index(x, {1})));
  EXPECT_EQ(floats(x[{slice(0, 1), 2, ellipsis}]), floats(index(x, {Slice{0, 1}, 2, ellipsis})));
  EXPECT_EQ(floats(x[{ellipsis, slice({}, {}, -2)}]),
            floats(index(x, {ellipsis, Slice{{}, {}, -2}})));
  EXPECT_EQ((x[{newaxis, 0}].shape()), (Dims{1, 3, 4}));
  EXPECT_EQ(floats(x[slice(1, {})]), floats(index(x, {Slice{1}})));
  EXPECT_EQ(floats(x[{0, array({2, 0})}]), floats(index(x, {0, array({2, 0})})));
  EXPECT_EQ(floats(x[x > 20]), (std::vector<float>{21, 22, 23}));
  try {
    (void)x[{0, 9}];
    FAIL();
  } catch (const ValueError& e) {
    EXPECT_EQ(e.location().line, unsigned(__LINE__ - 3)) << e.what();
  }
  const auto f = jit([](Array a) { return a[{slice(0, 1), ellipsis}].sum(); });
  EXPECT_EQ(f(x).item<float>(), 66);
}

TEST(ArrayMethods, LaxDivisions) {
  const Array a = array({-7, 7, -7, 7, 5}), b = array({2, 2, -2, -2, 0});
  EXPECT_EQ(lax::div(a, b).to_vector<int>(), (std::vector<int>{-3, 3, 3, -3, -1}));
  EXPECT_EQ(lax::rem(a, b).to_vector<int>(), (std::vector<int>{-1, 1, -1, 1, 5}));
  EXPECT_EQ(lax::div(a, b).dtype(), s32);
  EXPECT_EQ(lax::div(array({1.0f}), 4).to_vector<float>(), (std::vector<float>{0.25f}));
}

std::string printed(const Array& x, const PrintOptions& options) {
  const PrintScope scope(options);
  return to_string(x);
}

TEST(ArrayMethods, PrintOptions) {
  const Array x = array({1.0f / 3, -2.5f, 0.0f, 1e-9f, 2e10f});
  EXPECT_EQ(printed(x, {.precision = 3}), "[0.333, -2.5, 0, 1.000e-09, 2.000e+10]");
  EXPECT_EQ(printed(x, {.precision = 3, .suppress_small = true}),
            "[0.333, -2.5, 0, 0, 20000000000]");
  EXPECT_EQ(printed(arange(9, s32), {.edgeitems = 2}), "[0, 1, ..., 7, 8]");
  EXPECT_EQ(printed(arange(20, s32), {.threshold = 19, .edgeitems = 1}), "[0, ..., 19]");
  EXPECT_EQ(printed(arange(12, s32), {.threshold = 12}), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]");
  EXPECT_EQ(to_string(arange(9, s32)), "[0, 1, 2, ..., 6, 7, 8]");
  EXPECT_THROW(PrintScope({.precision = -1}), ValueError);
}

}  // namespace
}  // namespace tessera
