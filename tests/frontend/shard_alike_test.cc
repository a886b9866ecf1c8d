// SPDX-License-Identifier: Apache-2.0
// shard_alike.
#include <tessera/sharding/shard_alike.h>

#include <tessera/derivatives.h>
#include <tessera/jit.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/products.h>
#include <tessera/ops/reductions.h>
#include <tessera/shard_map.h>
#include <tessera/vmap.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

/// counting({8, 8}), of no sharding until something states one.
Array counted() {
  const Array rows = broadcast_to(reshape(arange(8), {8, 1}), {8, 8});
  return (rows * 8 + arange(8)).astype(f32);
}

TEST(ShardAlike, Behaviour_207_TiesShardingsBothWays) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  const Array whole = counting({8, 8}, 0.5f);
  const Array x = put(whole, mesh, P("x", "y"));
  const auto like = jit([](Array a) { return shard_alike(a, counted()).second * 2.0f; });
  EXPECT_EQ(like(x).sharding(), x.sharding());
  expect_close(like(x), counting({8, 8}, 2));
  const std::string text = like.lower(x).compile().as_text();
  EXPECT_TRUE(has(text, "f32[4,2]")) << text;
  EXPECT_FALSE(has(text, "all-")) << text;
  // The other way, and from a use of one to the other.
  const auto first = jit([](Array a) { return shard_alike(counted(), a).first; });
  EXPECT_EQ(first(x).sharding(), x.sharding());
  const NamedSharding columns(mesh, P(nullptr, "x"));
  const auto from_use = jit([&](Array a, Array b) {
    const auto [u, v] = shard_alike(a * 2.0f, b * 3.0f);
    return std::pair(with_sharding_constraint(u, columns), v);
  });
  EXPECT_EQ(from_use(whole, whole).second.sharding(), Sharding(columns));
  // In a chain of two; integers alike numbers.
  const auto chain = jit([](Array a, Array b, Array c) {
    const auto [u, v] = shard_alike(a, b + 1.0f);
    const auto [s, t] = shard_alike(v, c + 1);
    return std::tuple(u, s, t);
  });
  const auto [u, s, t] = chain(x, whole, reshape(arange(64), {8, 8}));
  EXPECT_EQ(u.sharding(), x.sharding());
  EXPECT_EQ(s.sharding(), x.sharding());
  EXPECT_EQ(t.sharding(), x.sharding());
  EXPECT_EQ(t.dtype(), s32);
  // Two that differ end up alike.
  const auto both = jit([](Array a, Array b) { return shard_alike(a, b); });
  const auto [a, b] = both(x, put(whole, mesh, P(nullptr, "x")));
  EXPECT_EQ(a.sharding(), b.sharding());
  expect_close(a, whole);
  expect_close(b, whole);
  // What it gave is an argument again.
  const auto [c, d] = both(a, b);
  EXPECT_EQ(c.sharding(), a.sharding());
  EXPECT_EQ(both.cache_size(), 2u);
  EXPECT_EQ(both(c, d).first.sharding(), a.sharding());
  EXPECT_EQ(both.cache_size(), 2u);
}

TEST(ShardAlike, Behaviour_207_BatchesDerivativesAndEagerly) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  const Array whole = counting({8, 8}, 0.5f);
  const Array x = put(whole, mesh, P("x", "y"));
  const auto [e, f] = shard_alike(x, counted());
  EXPECT_EQ(e.sharding(), x.sharding());
  EXPECT_EQ(f.sharding(), x.sharding());
  expect_close(f, counting({8, 8}));
  // On one device.
  expect_close(shard_alike(whole, whole * 2.0f).second, whole * 2.0f);
  // Batches along different dims, or of one of the two.
  const auto batched = jit([](Array a, Array b) {
    return vmap([](Array u, Array v) { return shard_alike(u, v); },
                {.in_axes = axes_tree(0, 1), .out_axes = 0})(a, b);
  });
  const auto [p, q] = batched(x, counted());
  EXPECT_EQ(p.sharding(), x.sharding());
  EXPECT_EQ(q.sharding(), x.sharding());
  expect_close(q, transpose(counting({8, 8})));
  const auto one = jit([](Array a, Array b) {
    return vmap([](Array u, Array v) { return shard_alike(u, v).second; },
                {.in_axes = axes_tree(nullptr, 0)})(a, b);
  });
  const Array row = put(counting({8}), mesh, P("y"));
  EXPECT_EQ(one(row, counted()).sharding(), NamedSharding(mesh, P(nullptr, "y")));
  expect_close(one(row, counted()), counting({8, 8}));

  const auto loss = [=](Array a, Array b) {
    const auto [u, v] = shard_alike(a, b);
    return sum(u * u * v);
  };
  const auto [da, db] = jit(grad<0, 1>(loss))(x, counted());
  expect_close(da, 2.0f * whole * counting({8, 8}));
  expect_close(db, whole * whole);
  EXPECT_EQ(da.sharding(), x.sharding());
  const auto per_device = shard_map([](Array a, Array b) { return shard_alike(a, b).second; },
                                    {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")});
  expect_close(jit(per_device)(whole, whole * 2.0f), whole * 2.0f);
}

TEST(ShardAlike, Behaviour_207_ShapesMustBeEqual) {
  expect_error<ShapeError>(
      [] {
        shard_alike(ones({8, 8}), ones({8}));
      },
      {"shard_alike: the arrays have shapes f32[8,8] and f32[8]", kNear});
  const std::vector<Array> two{ones({2}), ones({3})}, other{ones({2}), ones({4})};
  expect_error<ShapeError>([&] { shard_alike(two, other); }, {"[1]", "f32[3] and f32[4]", kNear});
  expect_error<ValueError>([&] { shard_alike(two, std::vector<Array>{ones({2})}); },
                           {"the trees differ", "2 arrays and the other 1", kNear});
}

}  // namespace
}  // namespace tessera::testing
