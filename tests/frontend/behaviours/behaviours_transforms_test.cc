// SPDX-License-Identifier: Apache-2.0
// Behaviours 189 to 210 of docs/reference/behaviours.md: derivatives and batches of constraints,
// shardings and jitted functions.
#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing::behaviours_transforms {
namespace {

Mesh line() { return mesh_of({{"x", 2}}); }
Mesh square_mesh() { return mesh_of({{"x", 4}, {"y", 2}}); }

template <class F, class... A>
std::string text_of(F f, const A&... args) {
  return jit(f).lower(args...).as_text();
}
template <class F, class... A>
std::string compiled_text(F f, const A&... args) {
  return jit(f).lower(args...).compile().as_text();
}
std::size_t collectives(const std::string& text) {
  std::size_t n = 0;
  for (const char* kind : {" all-reduce(", " all-gather(", " reduce-scatter(", " all-to-all(",
                           " collective-permute(", " collective-broadcast("}) {
    n += count(text, kind);
  }
  return n;
}

TEST(TransformBehaviours, Behaviour_189_ConstraintsShardEagerlyAndWithinJit) {
  const Mesh mesh = line();
  const Array x = counting({8, 2});
  const auto constrained = [&](Array v) {
    return with_sharding_constraint(v, NamedSharding(mesh, P("x")));
  };
  EXPECT_EQ(constrained(x).sharding(), Sharding(NamedSharding(mesh, P("x"))));
  EXPECT_EQ(jit(constrained)(x).sharding(), Sharding(NamedSharding(mesh, P("x"))));
  // In the midst of a function.
  const Array y = jit([&](Array v) { return constrained(v * 2.0f) + 1.0f; })(x);
  expect_close(y, x * 2.0f + 1.0f);
  EXPECT_EQ(
      jit([&](Array v) { return with_sharding_constraint(sum(v), NamedSharding(mesh, P())); })(x)
          .item<float>(),
      sum(x).item<float>());
  expect_error<ValueError>([&] { (void)with_sharding_constraint(x, nullptr); },
                           {"with_sharding_constraint", "None", "P()", kNear});
}

TEST(TransformBehaviours, Behaviour_190_OpenDimensionsOfConstraintsOnTrees) {
  const Mesh mesh = square_mesh();
  const auto f = [&](std::pair<Array, std::vector<Array>> t) {
    return with_sharding_constraint(
        t, tree(NamedSharding(mesh, P(UNCONSTRAINED, "y", nullptr)),
                tree(NamedSharding(mesh, P("x", nullptr, UNCONSTRAINED)),
                     NamedSharding(mesh, P("x", nullptr, UNCONSTRAINED)))));
  };
  const Array x = counting({8, 4, 2});
  const std::string text = jit(f).lower(std::pair(x, std::vector<Array>{x, x})).as_text();
  EXPECT_EQ(count(text, R"([{?}, {\"y\"}, {}])"), 1u) << text;
  EXPECT_EQ(count(text, R"([{\"x\"}, {}, {?}])"), 2u) << text;
}

TEST(TransformBehaviours, Behaviour_191_ABatchLeavesItsDimensionOpen) {
  const Mesh mesh = square_mesh();
  const auto f = vmap([&](Array v) {
    return with_sharding_constraint(v, NamedSharding(mesh, P(UNCONSTRAINED, "y")));
  });
  const std::string text = text_of(f, counting({3, 8, 4}));
  EXPECT_EQ(count(text, R"(@mesh, [{?}, {?}, {\"y\"}])"), 1u) << text;
  // So it may come as it likes.
  const Array y = jit(f)(put(counting({8, 8, 4}), mesh, P("x")));
  EXPECT_EQ(y.sharding(), Sharding(NamedSharding(mesh, P("x", nullptr, "y"))));
}

TEST(TransformBehaviours, Behaviour_192_ABatchOverAnAxisIsSplit) {
  const Mesh mesh = square_mesh();
  const auto f = [&](Array v) {
    return with_sharding_constraint(v, NamedSharding(mesh, P(UNCONSTRAINED)));
  };
  const Array x = counting({8, 4});
  EXPECT_EQ(jit(vmap(f, {.spmd_axis_name = "x"}))(x).sharding(),
            Sharding(NamedSharding(mesh, P("x"))));
  const std::string open = text_of(vmap(f), x);
  EXPECT_EQ(count(open, R"(sharding<@mesh, [{?}, {?}]>)"), 1u) << open;
  const std::string split = text_of(vmap(f, {.spmd_axis_name = "x"}), x);
  EXPECT_EQ(count(split, R"(sharding<@mesh, [{\"x\"}, {?}]>)"), 1u) << split;
}

TEST(TransformBehaviours, Behaviour_193_BatchesOfJittedFunctionsKeepTheirShardings) {
  const Mesh mesh = line();
  const auto f = jit(
      [](Array a, Array b) { return std::pair(a + sum(b), b * 2.0f); },
      {.in_shardings = NamedSharding(mesh, P("x")), .out_shardings = NamedSharding(mesh, P("x"))});
  const auto g = vmap(f, {.in_axes = axes_tree(0, nullptr), .out_axes = axes_tree(0, nullptr)});
  const Array a = counting({3, 4}), b = counting({2});
  const auto [y, twice] = jit(g)(a, b);
  expect_close(y, a + 1.0f);
  EXPECT_EQ(twice.shape(), std::vector<std::int64_t>{2});
  EXPECT_EQ(y.sharding(), Sharding(NamedSharding(mesh, P(nullptr, "x"))));
  EXPECT_EQ(twice.sharding(), Sharding(NamedSharding(mesh, P("x"))));
}

TEST(TransformBehaviours, Behaviour_194_BatchesOfConstraintsWithinJitAndScan) {
  const Mesh mesh = line();
  const auto f =
      jit([&](Array v) { return with_sharding_constraint(v * 2.0f, NamedSharding(mesh, P("x"))); });
  const Array x = counting({4, 6});
  EXPECT_EQ(jit(vmap(f))(x).sharding(), Sharding(NamedSharding(mesh, P(nullptr, "x"))));
  const auto g = jit(
      [&](Array v) { return with_sharding_constraint(v * 2.0f, NamedSharding(mesh, P(nullptr))); });
  EXPECT_EQ(jit(vmap(g, {.spmd_axis_name = "x"}))(x).sharding(),
            Sharding(NamedSharding(mesh, P("x"))));
  const auto steps = [&](Array v) {
    return scan([&](Array c, Array k) { return std::pair(g(c) + k, Array(0.0f)); }, v,
                counting({3}))
        .first;
  };
  const Array y = jit(vmap(steps, {.spmd_axis_name = "x"}))(x);
  expect_close(y, x * 8.0f + 4.0f);
  EXPECT_EQ(y.sharding(), Sharding(NamedSharding(mesh, P("x"))));
}

TEST(TransformBehaviours, Behaviour_195_AnAxisHoldsOneDimension) {
  const Mesh mesh = line();
  const auto f = [&](Array v) { return with_sharding_constraint(v, NamedSharding(mesh, P("x"))); };
  expect_error<ValueError>(
      [&] {
        vmap(f, {.spmd_axis_name = "x"})(counting({4, 6}));
      },
      {"spmd_axis_name", "'x'", kNear});
  expect_error<RuntimeError>([] { with_sharding_constraint(counting({4}), ShardingTree(P("x"))); },
                             {"mesh", kNear});
}

TEST(TransformBehaviours, Behaviour_196_UnevenIntermediates) {
  const Mesh mesh = line();
  const NamedSharding split(mesh, P("x"));
  const auto f = jit([&](Array x) {
    const Array three = with_sharding_constraint(slice(x, {0}, {3}), split);
    return concatenate({three + 1.0f, slice(x, {3}, {8})});
  });
  const Array x = counting({8});
  expect_close(f(x), concatenate({slice(x, {0}, {3}) + 1.0f, slice(x, {3}, {8})}));
  const Array many = sin(counting({113003}, 0.01f));
  EXPECT_EQ(
      jit([&](Array v) { return max(with_sharding_constraint(v, split)); })(many).item<float>(),
      max(many).item<float>());
  const Array uneven =
      jit([&](Array v) { return with_sharding_constraint(slice(v, {0}, {3}), split); })(x);
  expect_close(uneven, counting({3}));
}

TEST(TransformBehaviours, Behaviour_197_ConstraintsThatAreTooLong) {
  const Mesh mesh = line();
  expect_error<ShardingError>(
      [&] { with_sharding_constraint(counting({4}), NamedSharding(mesh, P("x", nullptr))); },
      {"with_sharding_constraint", "rank 1", "('x', None) needs rank 2", kNear});
  expect_error<ShardingError>(
      [&] {
        jit([&](Array v) {
          return with_sharding_constraint(v, NamedSharding(mesh, P("x", nullptr)));
        })(counting({4}));
      },
      {"with_sharding_constraint", "rank 1", "('x', None) needs rank 2", kNear});
}

TEST(TransformBehaviours, Behaviour_198_ConstraintsOnDevicesInAnotherOrder) {
  const Mesh mesh = square_mesh();
  std::vector<Device> reversed(devices().begin(), devices().begin() + mesh.size());
  std::reverse(reversed.begin(), reversed.end());
  const Mesh other(reversed, {2, 4}, mesh.axis_names());
  const NamedSharding target(other, P("x"));
  const Array x = put(counting({8, 8}), mesh, P("x"));
  expect_error<ValueError>([&] { with_sharding_constraint(x, target); },
                           {"incompatible devices for 'with_sharding_constraint'",
                            "the same devices in another order", kNear});
  // Arrays that are on no particular device are placed.
  const Array placed = with_sharding_constraint(counting({8, 8}), target);
  EXPECT_EQ(placed.sharding(), Sharding(target));
  expect_close(placed, counting({8, 8}));
}

TEST(TransformBehaviours, Behaviour_200_GradientsThroughConstraints) {
  const Mesh mesh = line();
  const auto plain = [](Array v) { return sum(sin(v) * v); };
  const auto constrained = [&](Array v) {
    return sum(with_sharding_constraint(sin(v) * v, NamedSharding(mesh, P("x"))));
  };
  const Array x = counting({8, 2}, 0.1f);
  expect_close(jit(grad(constrained))(x), grad(plain)(x));
  EXPECT_EQ(jit(grad(constrained))(x).sharding(), Sharding(NamedSharding(mesh, P("x"))));
}

TEST(TransformBehaviours, Behaviour_201_NestedJittedFunctionsToSecondOrder) {
  const Mesh mesh = line();
  const Array constant = counting({4}, 0.2f);
  const auto inner = jit([&](Array a, Array b) { return sin(a) * b + constant; });
  const auto f = jit([&](Array a, Array b) { return inner(inner(a, b), a) * b; });
  check_grads(f, std::tuple(counting({4}, 0.3f), ones({4})), {.order = 2});
  const auto placed = jit(
      [&](Array a, Array b) { return inner(inner(a, b), a) * b; },
      {.in_shardings = NamedSharding(mesh, P("x")), .out_shardings = NamedSharding(mesh, P("x"))});
  check_grads(placed, std::tuple(counting({4}, 0.3f), ones({4})), {.order = 2});
}

TEST(TransformBehaviours, Behaviour_202_BatchesOfDerivativesOfDeepNests) {
  const Mesh mesh = line();
  const auto nest = [&](bool jitted) {
    std::function<Array(Array)> f = [&](Array v) {
      return sin(with_sharding_constraint(v, NamedSharding(mesh, P("x"))));
    };
    for (int depth = 0; depth < 5; ++depth) {
      const auto step = [f](Array v) { return f(v) * 1.5f; };
      if (jitted) {
        f = jit(step);
      } else {
        f = step;
      }
    }
    return f;
  };
  const Array x = counting({3, 4}, 0.1f), dx = counting({3, 4}, 0.2f);
  const auto batch = [&](bool jitted) {
    return jit([=](Array v, Array dv) {
      const auto one = [=](Array a, Array da) {
        return jvp(nest(jitted), std::tuple(a), std::tuple(da)).second;
      };
      return vmap(one)(v, dv);
    })(x, dx);
  };
  expect_close(batch(true), batch(false));
  EXPECT_EQ(batch(true).sharding(), batch(false).sharding());
  EXPECT_EQ(batch(true).sharding(), Sharding(NamedSharding(mesh, P(nullptr, "x"))));
}

TEST(TransformBehaviours, Behaviour_203_DerivativesOfDonatingFunctions) {
  const auto f =
      jit([](Array a, Array b) { return a * b; }, {.donate_argnums = {0}, .name = "mine"});
  const auto along = [&](Array a, Array b) {
    return jvp(f, std::tuple(a, b), std::tuple(ones({4}), zeros({4}))).second;
  };
  expect_close(along(counting({4}), counting({4})), counting({4}));
  // Zeros of a direction that isn't there aren't computed with.
  const std::string text = text_of(
      [&](Array a, Array b) {
        return jvp([&](Array v) { return f(v, b); }, std::tuple(a), std::tuple(ones({4}))).second;
      },
      counting({4}), counting({4}));
  EXPECT_EQ(count(text, " add("), 0u) << text;
}

TEST(TransformBehaviours, Behaviour_204_GradientsAreShardedAsTheirPrimals) {
  const Mesh mesh = square_mesh();
  const Array x = put(counting({8, 6}, 0.1f), mesh, P("x"));
  const Array w = put(counting({6, 4}, 0.1f), mesh, P(nullptr, "y"));
  const auto loss = [](Array w, Array x) { return sum(tanh(matmul(x, w))); };
  const auto [dw, dx] = jit(grad<0, 1>(loss))(w, x);
  EXPECT_EQ(dw.sharding(), w.sharding());
  EXPECT_EQ(dx.sharding(), x.sharding());
  // Where propagation alone would leave the sum over the batch on all devices.
  const Array split = put(counting({6, 4}, 0.1f), mesh, P("y"));
  const auto by_w = [&](Array w, Array x) { return grad(loss)(w, x); };
  EXPECT_EQ(jit(by_w)(split, x).sharding(), split.sharding());
  EXPECT_EQ(grad(loss)(split, x).sharding(), split.sharding());
  expect_close(grad(loss)(split, x), grad(loss)(counting({6, 4}, 0.1f), counting({8, 6}, 0.1f)));
  const auto pulled = jit([&](Array w, Array x) {
    const auto [y, pull] = vjp(loss, w, x);
    return pull(y);
  });
  EXPECT_EQ(std::get<0>(pulled(split, x)).sharding(), split.sharding());
  EXPECT_EQ(std::get<1>(pulled(split, x)).sharding(), x.sharding());
  // Also where a function that is jitted within gives it.
  const auto nested = [&](Array w, Array x) { return jit(jit(by_w))(w, x); };
  EXPECT_EQ(jit(nested)(split, x).sharding(), split.sharding());
  const auto twice = jit([&](Array w, Array x) {
    const auto g = jit([&](Array w) { return grad(loss)(w, x); });
    return std::pair(g(w), g(w + 1.0f));
  });
  EXPECT_EQ(twice(split, x).first.sharding(), split.sharding());
  // A stated sharding of the result holds.
  const NamedSharding whole(mesh, P());
  EXPECT_EQ(jit(nested, {.out_shardings = whole})(split, x).sharding(), Sharding(whole));
  EXPECT_EQ(jit(by_w, {.out_shardings = whole})(split, x).sharding(), Sharding(whole));
}

TEST(TransformBehaviours, Behaviour_205_ResidualsAreSharded) {
  // What is kept from the forward part isn't gathered: nothing but the loss and the weight's
  // gradient crosses devices.
  const Mesh mesh = line();
  const Array x = put(counting({256, 6}, 0.001f), mesh, P("x"));
  const Array w = put(counting({6, 6}, 0.1f), mesh, P());
  const auto f = jit([](Array x, Array w) {
    const auto [y, back] =
        vjp([](Array x, Array w) { return tanh(matmul(tanh(matmul(x, w)), w)); }, x, w);
    return back(sin(y));
  });
  const std::string text = f.lower(x, w).compile().as_text();
  EXPECT_EQ(collectives(text), 1u) << text;
  EXPECT_EQ(count(text, " all-reduce("), 1u) << text;
}

// ------------------------------------------------------------------ shard_map

TEST(ShardMapBatches, Behaviour_310_BatchesOfShardMap) {
  const Mesh mesh = square_mesh();
  const auto one = shard_map([](Array e) { return e - pmean(e, "y"); },
                             {.mesh = mesh, .in_specs = P("y"), .out_specs = P("y")});
  const Array x = counting({8, 4});
  std::vector<Array> rows;
  for (std::int64_t i = 0; i < 8; ++i) rows.push_back(one(index(x, {i})));
  const Array want = stack(rows, 0);
  expect_close(vmap(one)(x), want);
  // An axis of the batch with the name of a mesh axis is the batch's within.
  expect_close(vmap(one, {.axis_name = "x"})(x), want);
  const auto placed = [&](const AxisNames& axes) {
    return jit(vmap(one, VmapOptions{.spmd_axis_name = axes}))(x);
  };
  expect_close(placed("x"), want);
  EXPECT_EQ(placed("x").sharding(), Sharding(NamedSharding(mesh, P("x", "y"))));
  const Mesh three = mesh_of({{"x", 2}, {"y", 2}, {"z", 2}});
  const auto other = shard_map([](Array e) { return e - pmean(e, "z"); },
                               {.mesh = three, .in_specs = P("z"), .out_specs = P("z")});
  const Array y = jit(vmap(other, VmapOptions{.spmd_axis_name = {"x", "y"}}))(x);
  EXPECT_EQ(y.sharding(), Sharding(NamedSharding(three, P(axes("x", "y"), "z"))));
  expect_error<ValueError>([&] { placed("y"); }, {"'y'", "an axis holds one dim"});
}

TEST(ShardMapBatches, Behaviour_311_GradientsOverAnAxis) {
  const Mesh mesh = square_mesh();
  const auto f = shard_map([](Array e) { return psum(sin(e) * e, "y"); },
                           {.mesh = mesh, .in_specs = P("y"), .out_specs = P()});
  const auto loss = [&](Array e) { return sum(f(e)); };
  const Array x = counting({8, 4}, 0.1f);
  const Array want = jit(vmap(grad(loss)))(x);
  expect_close(jit(vmap(grad(loss), {.spmd_axis_name = "x"}))(x), want);
  expect_close(want, jit(grad([](Array e) { return sum(sin(e) * e); }))(x));
}

TEST(ShardMapBatches, Behaviour_315_ResidualsOfShardMaps) {
  const Mesh mesh = square_mesh();
  // A scalar is kept; an argument is used as it is.
  const auto f =
      shard_map([](Array e) { return e * exp(sum(e)); },
                {.mesh = mesh, .in_specs = P(axes("x", "y")), .out_specs = P(axes("x", "y"))});
  const auto g = [](Array e) {
    const Array parts = reshape(e, {8, 2});
    return reshape(parts * exp(sum(parts, {1}, {.keepdims = true})), {16});
  };
  const Array x = counting({16}, 0.05f);
  expect_close(grad([&](Array e) { return sum(sin(f(e))); })(x),
               grad([&](Array e) { return sum(sin(g(e))); })(x), 1e-4f);
  const auto forward = [&](Array e) { return linearize(f, e).first; };
  const std::string text = text_of([&](Array e) { return vjp(f, e).second(e); }, x);
  // The forward part gives its result and one number per device, the argument is used as it is.
  EXPECT_EQ(count(text, "ROOT tuple.1 = (f32[2]{0}, f32[1]{0}) tuple("), 1u) << text;
  expect_close(forward(x), f(x));
}

TEST(ShardMapBatches, Behaviour_316_RematKeepsNoCollectives) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const auto body = [](Array w, Array v) {
    const Array whole = all_gather(w, "x", {.tiled = true});
    return tanh(matmul(tanh(matmul(v, whole)), whole));
  };
  const auto loss = [&](auto f) {
    const auto mapped =
        shard_map(f, {.mesh = mesh, .in_specs = tree(P("x"), P("x")), .out_specs = P("x")});
    return [=](Array w, Array v) { return sum(mapped(w, v)); };
  };
  const Array w = counting({8, 8}, 0.01f), v = counting({16, 8}, 0.01f);
  expect_close(grad(loss(remat(body)))(w, v), grad(loss(body))(w, v), 1e-4f);
  // Kept, the gathered weights cross once; not kept, they are gathered again.
  const std::string kept = compiled_text(value_and_grad(loss(body)), w, v);
  const std::string again = compiled_text(value_and_grad(loss(remat(body))), w, v);
  EXPECT_EQ(count(kept, " all-gather("), 1u) << kept;
  EXPECT_EQ(count(again, " all-gather("), 2u) << again;
}

}  // namespace
}  // namespace tessera::testing::behaviours_transforms
