// SPDX-License-Identifier: Apache-2.0
// Random distributions as programs use them: of batches of keys, on devices, differentiated.
// Compiled alone: so that it joins no unit that is large already.
#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing::random_uses {
namespace {

using Dims = std::vector<std::int64_t>;
using Draw = std::function<Array(Array)>;

std::vector<std::pair<const char*, Draw>> distributions() {
  return {
      {"normal", [](Array k) { return random::normal(k, {6}); }},
      {"truncated_normal", [](Array k) { return random::truncated_normal(k, -1, 2, Dims{6}); }},
      {"exponential", [](Array k) { return random::exponential(k, {6}); }},
      {"gamma", [](Array k) { return random::gamma(k, 0.7, Dims{6}); }},
      {"beta", [](Array k) { return random::beta(k, 0.7, 2.0, Dims{6}); }},
      {"dirichlet", [](Array k) { return random::dirichlet(k, full({3}, 0.6f), Dims{2}); }},
      {"poisson", [](Array k) { return astype(random::poisson(k, 3.5, Dims{6}), DType::f32); }},
      {"binomial", [](Array k) { return random::binomial(k, 20.0, 0.3, Dims{6}); }},
  };
}

TEST(RandomUses, ABatchOfKeysGivesWhatEachKeyGives) {
  const Array keys = random::split(random::key(5), 4);
  for (const auto& [name, draw] : distributions()) {
    SCOPED_TRACE(name);
    const Array all = jit(vmap(draw))(keys);
    for (std::int64_t k = 0; k < 4; ++k) {
      expect_close(index(all, {k}), jit(draw)(index(keys, {k})), 1e-6f);
    }
  }
}

TEST(RandomUses, KeysOnDevicesGiveTheSameNumbers) {
  const Mesh mesh = mesh_of({{"x", 4}});
  const Array keys = random::split(random::key(6), 4);
  for (const auto& [name, draw] : distributions()) {
    SCOPED_TRACE(name);
    const auto f = jit(vmap(draw));
    expect_close(f(put(keys, mesh, P("x"))), f(keys), 1e-6f);
  }
}

TEST(RandomUses, GammaNumbersMoveWithTheirParameter) {
  // jax.grad of the sums of jax.random.gamma and beta of this key.
  const Array a = array({0.3f, 1.0f, 2.5f, 7.0f}), key = random::key(3);
  expect_close(random::gamma(key, a, Dims{4}),
               array({0.0506771f, 0.19266698f, 6.6839275f, 4.485845f}), 1e-4f);
  expect_close(grad([&](Array v) { return sum(random::gamma(key, v, Dims{4})); })(a),
               array({0.4993799f, 0.45008007f, 1.6774789f, 0.8129135f}), 1e-3f);
  expect_close(jit(grad([&](Array v) { return sum(random::beta(key, v, 2.0, Dims{4})); }))(a),
               array({0.006885987f, 0.25560755f, 0.11233675f, 0.0371007f}), 1e-3f);
}

TEST(RandomUses, WrongRequestsAreRefused) {
  const Array key = random::key(0);
  expect_error<ShapeError>([&] { random::gamma(key, ones({3}), Dims{4}); }, {"[3]", "[4]", kNear});
  expect_error<DTypeError>([&] { random::gamma(key, 1.0, Dims{4}, DType::s32); }, {"s32", kNear});
  expect_error<DTypeError>([&] { random::poisson(key, 1.0, Dims{4}, DType::f32); }, {"f32", kNear});
}

}  // namespace
}  // namespace tessera::testing::random_uses
