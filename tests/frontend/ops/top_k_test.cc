// SPDX-License-Identifier: Apache-2.0
// top_k: no sort of whole rows, NaNs first whatever their sign, transformations.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing::top_k_of {
namespace {

TEST(TopK, SortsNoWholeRows) {
  const auto f = jit([](Array x) { return top_k(x, 3).first; });
  const std::string text = f.lower(counting({4, 100})).compile().as_text();
  EXPECT_EQ(count(text, " topk("), 1u) << text;
  EXPECT_EQ(count(text, " sort("), 0u) << text;
}

// 0 / 0 is -NaN on x86.
TEST(TopK, TakesNaNsFirstWhateverTheirSign) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Array x = array<float>({1.0f, -nan, 3.0f, nan, 2.0f});
  const auto [values, places] = top_k(x, 3);
  EXPECT_TRUE(std::isnan(floats(values)[0]) && std::isnan(floats(values)[1]));
  EXPECT_EQ(floats(values)[2], 3.0f);
  EXPECT_EQ(places.to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, 3, 2}));
}

TEST(TopK, GoesThroughTransformations) {
  const Array x = array({{3.0f, 1.0f, 2.0f}, {4.0f, 6.0f, 5.0f}});
  const auto f = [](Array row) { return sum(top_k(row, 2).first * array({1.0f, 10.0f})); };
  expect_close(vmap(grad(f))(x), array({{1.0f, 0.0f, 10.0f}, {0.0f, 1.0f, 10.0f}}));
  const Mesh mesh = mesh_of({{"x", 2}});
  const auto places = jit([](Array v) { return top_k(v, 2).second; });
  EXPECT_EQ(places(put(x, mesh, P("x"))).to_vector<std::int32_t>(),
            places(x).to_vector<std::int32_t>());
}

}  // namespace
}  // namespace tessera::testing::top_k_of
