// SPDX-License-Identifier: Apache-2.0
// Derivatives through shard_map: each collective against the same function of global arrays, loops,
// nests, and how much is communicated.
#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing::shard_map_derivatives {
namespace {

Mesh line() { return mesh_of({{"x", 4}}); }
Mesh square_mesh() { return mesh_of({{"x", 2}, {"y", 4}}); }

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}
/// Collectives of the compiled program, by kind.
struct Collectives {
  std::size_t reductions = 0, all = 0;
};
template <class F, class... A>
Collectives collectives_of(F f, const A&... args) {
  const std::string text = jit(f).lower(args...).compile().as_text();
  Collectives out{count(text, " all-reduce("), 0};
  for (const char* kind : {" all-reduce(", " all-gather(", " reduce-scatter(", " all-to-all(",
                           " collective-permute(", " collective-broadcast("}) {
    out.all += count(text, kind);
  }
  return out;
}

Array numbers(std::vector<std::int64_t> shape, int seed = 1) {
  return random::normal(random::key(std::uint32_t(seed)), std::move(shape));
}

/// Value, gradient, directional derivative and second derivative of both.
template <class F, class G>
void expect_same(F f, G g, const Array& x, float tolerance = 1e-4f) {
  expect_close(f(x), g(x), tolerance);
  const Array dx = numbers(x.shape(), 7);
  expect_close(jvp(f, std::tuple(x), std::tuple(dx)).second,
               jvp(g, std::tuple(x), std::tuple(dx)).second, tolerance);
  const auto loss = [](auto h) {
    return [h](Array v) {
      const Array y = h(v);
      return sum(sin(y) * reshape(linspace(0.5f, 1.5f, y.size()), y.shape()));
    };
  };
  expect_close(grad(loss(f))(x), grad(loss(g))(x), tolerance);
  expect_close(jit(grad(loss(f)))(x), grad(loss(g))(x), tolerance);
  const auto second = [&](auto h) {
    return jit(grad([&, h](Array v) { return sum(grad(loss(h))(v) * dx); }))(x);
  };
  expect_close(second(f), second(g), 10 * tolerance);
}

auto over_x(auto f, PartitionSpec in = P("x"), PartitionSpec out = P("x")) {
  return shard_map(f, {.mesh = line(), .in_specs = in, .out_specs = out});
}

TEST(ShardMapDerivatives, Elementwise) {
  expect_same(
      over_x([](Array a) { return sin(a) * a; }), [](Array a) { return sin(a) * a; },
      numbers({8, 3}));
}

TEST(ShardMapDerivatives, ReplicatedOperandsAndResults) {
  expect_same(
      over_x([](Array a) { return sin(a) * a; }, P(), P()), [](Array a) { return sin(a) * a; },
      numbers({3}));
  // Equal on all devices, and joined.
  expect_same(
      over_x([](Array a) { return sin(a); }, P(), P("x")),
      [](Array a) {
        return concatenate({sin(a), sin(a), sin(a), sin(a)}, 0);
      },
      numbers({3}));
}

TEST(ShardMapDerivatives, Psum) {
  expect_same(
      over_x([](Array a) { return psum(sin(a), "x"); }, P("x"), P()),
      [](Array a) {
        return sum(reshape(sin(a), {4, 2}), {0});
      },
      numbers({8}));
  expect_same(
      over_x([](Array a) { return a * psum(a * a, "x"); }),
      [](Array a) {
        return a * tile(sum(reshape(a, {4, 2}) * reshape(a, {4, 2}), {0}), {4});
      },
      numbers({8}));
  // Of what all devices have: four times.
  expect_same(
      over_x([](Array a) { return psum(sin(a), "x"); }, P(), P()),
      [](Array a) { return 4.0f * sin(a); }, numbers({3}));
}

TEST(ShardMapDerivatives, Pmean) {
  expect_same(
      over_x([](Array a) { return a - pmean(a, "x"); }),
      [](Array a) {
        return a - tile(mean(reshape(a, {4, 2}), {0}), {4});
      },
      numbers({8}));
}

TEST(ShardMapDerivatives, AllGather) {
  expect_same(
      over_x([](Array a) { return sin(all_gather(a, "x", {.tiled = true})); }, P("x"), P("x")),
      [](Array a) { return tile(sin(a), {4}); }, numbers({8}));
  expect_same(
      over_x([](Array a) { return sin(all_gather(a, "x", {.tiled = true, .to = "invarying"})); },
             P("x"), P()),
      [](Array a) { return sin(a); }, numbers({8}));
}

TEST(ShardMapDerivatives, PsumScatter) {
  expect_same(
      over_x([](Array a) { return psum_scatter(a * a, "x", {.tiled = true}); }),
      [](Array a) {
        return sum(reshape((a * a), {4, 4}), {0});
      },
      numbers({16}));
}

TEST(ShardMapDerivatives, Ppermute) {
  expect_same(
      over_x([](Array a) {
        return a * ppermute(a, "x", {{0, 1}, {1, 2}, {2, 0}});
      }),
      [](Array a) {
        const auto part = [&](int k) { return slice_in_dim(a, 2 * k, 2 * k + 2); };
        return a * concatenate({part(2), part(0), part(1), zeros({2})}, 0);
      },
      numbers({8}));
}

TEST(ShardMapDerivatives, AllToAll) {
  expect_same(
      over_x([](Array a) { return sin(all_to_all(a, "x", 1, 0, true)); }, P("x"), P(nullptr, "x")),
      [](Array a) { return sin(a); }, numbers({8, 4}));
}

TEST(ShardMapDerivatives, Pbroadcast) {
  expect_same(
      over_x([](Array a) { return a * pbroadcast(a, "x", 2); }),
      [](Array a) { return a * tile(slice_in_dim(a, 4, 6), {4}); }, numbers({8}));
}

TEST(ShardMapDerivatives, AxisIndex) {
  expect_same(
      over_x([](Array a) { return a * axis_index("x").astype(f32) * a; }, P(), P("x")),
      [](Array a) {
        return concatenate({a * a * 0.0f, a * a, a * a * 2.0f, a * a * 3.0f}, 0);
      },
      numbers({3}));
}

TEST(ShardMapDerivatives, GroupsOfAnAxis) {
  expect_same(
      over_x([](Array a) {
        return a * psum(a, "x", {.axis_index_groups = {{0, 1}, {2, 3}}});
      }),
      [](Array a) {
        const Array s = sum(reshape(a, {2, 2, 2}), {1}, {.keepdims = true});
        return a * reshape((s * ones({2, 2, 2})), {8});
      },
      numbers({8}));
}

TEST(ShardMapDerivatives, Loops) {
  const auto step = [](auto total) {
    return [total](Array c, Array w) {
      const Array next = sin(c) + total(c) * w;
      return std::pair(next, total(next * w));
    };
  };
  expect_same(
      over_x(
          [&](Array a) {
            const auto [last, each] =
                scan(step([](Array v) { return psum(sum(v), "x"); }), a, linspace(0.1f, 0.4f, 3));
            return last * sum(each);
          },
          P("x"), P("x")),
      [&](Array a) {
        const auto [last, each] =
            scan(step([](Array v) { return sum(v); }), a, linspace(0.1f, 0.4f, 3));
        return last * sum(each);
      },
      0.3f * numbers({8}));
  // A carry that starts equal and becomes different.
  expect_same(
      over_x(
          [](Array w) {
            return fori_loop(
                0, 3, [&](Array, Array c) { return c * w + axis_index("x").astype(f32); },
                pvary(w, "x"));
          },
          P(), P("x")),
      [](Array w) {
        std::vector<Array> out;
        for (int k = 0; k < 4; ++k) {
          Array c = w;
          for (int t = 0; t < 3; ++t) c = c * w + float(k);
          out.push_back(c);
        }
        return concatenate(out, 0);
      },
      0.5f * numbers({3}));
}

TEST(ShardMapDerivatives, Branches) {
  expect_same(
      over_x(
          [](Array w) {
            return cond(
                axis_index("x") == 2, [](Array v) { return sin(v); }, [](Array v) { return v * v; },
                pvary(w, "x"));
          },
          P(), P("x")),
      [](Array w) {
        return concatenate({w * w, w * w, sin(w), w * w}, 0);
      },
      numbers({3}));
}

TEST(ShardMapDerivatives, Remat) {
  expect_same(
      over_x([](Array a) { return remat([](Array v) { return sin(v) * psum(sin(v), "x"); })(a); }),
      [](Array a) {
        return sin(a) * tile(sum(reshape(sin(a), {4, 2}), {0}), {4});
      },
      numbers({8}));
}

TEST(ShardMapDerivatives, PartlyManual) {
  const auto f = shard_map(
      [](Array a) { return sin(a) * psum(sum(a * a, {0}), "x"); },
      {.mesh = square_mesh(), .in_specs = P("x"), .out_specs = P("x"), .axis_names = {"x"}});
  expect_same(
      jit(f), [](Array a) { return sin(a) * sum(a * a, {0}); }, numbers({4, 8}));
}

TEST(ShardMapDerivatives, Nested) {
  const auto f = shard_map(
      [](Array a) {
        const Array w = psum(sum(a, {0}), "x");
        return shard_map(
            [&](Array b) {
              return sin(b) * psum(sum(b * w), {"x", "y"});
            },
            {.in_specs = P(nullptr, "y"), .out_specs = P(nullptr, "y"), .axis_names = {"y"}})(a);
      },
      {.mesh = square_mesh(), .in_specs = P("x"), .out_specs = P("x"), .axis_names = {"x"}});
  // w is whole within, and is cut nowhere: b has its columns only where w has one.
  expect_same(
      f, [](Array a) { return sin(a) * sum(sum(a) * sum(a, {0})) / 1.0f; }, 0.3f * numbers({4, 4}));
}

TEST(ShardMapDerivatives, SeveralArguments) {
  const auto f = shard_map(
      [](Array x, Array w, Array s) {
        return std::pair(tanh(matmul(x, w)) * s, psum(sum(x), "x"));
      },
      {.mesh = line(), .in_specs = tree(P("x"), P(), P()), .out_specs = tree(P("x"), P())});
  const auto loss = [](auto h) {
    return [h](Array x, Array w, Array s) {
      const auto [y, t] = h(x, w, s);
      return sum(y * y) * t;
    };
  };
  const auto plain = [](Array x, Array w, Array s) {
    return std::pair(tanh(matmul(x, w)) * s, sum(x));
  };
  const Array x = numbers({8, 3}), w = numbers({3, 2}, 2), s = Array(0.7f) * 1.0f;
  const auto [a, b, c] = jit(grad<0, 1, 2>(loss(f)))(x, w, s);
  const auto [p, q, r] = grad<0, 1, 2>(loss(plain))(x, w, s);
  expect_close(a, p, 1e-4f);
  expect_close(b, q, 1e-4f);
  expect_close(c, r, 1e-4f);
  const auto [y, pull] = vjp(f, x, w, s);
  const auto [y2, pull2] = vjp(plain, x, w, s);
  const auto ct = std::pair(ones({8, 2}), Array(0.5f) * 1.0f);
  expect_close(std::get<1>(pull(ct)), std::get<1>(pull2(ct)), 1e-4f);
}

TEST(ShardMapDerivatives, Behaviour_323_WrongTypesOfCustomRules) {
  // The rule has cotangents of its own types, and adds up what belongs to the weight.
  const auto make = [](bool adds) {
    auto f = custom_vjp([](Array x, Array w) { return sin(x) * w; });
    f.def_vjp([](Array x, Array w) { return std::pair(sin(x) * w, std::tuple(x, w)); },
              [adds](std::tuple<Array, Array> saved, Array g) {
                const auto [x, w] = saved;
                const Array gw = sin(x) * g;
                return std::tuple(cos(x) * w * g * 2.0f, adds ? psum(gw, "x") : gw);
              });
    return f;
  };
  const auto through = [](auto rule) {
    return shard_map([rule](Array x, Array w) { return rule(x, w); },
                     {.mesh = line(), .in_specs = tree(P("x"), P()), .out_specs = P("x")});
  };
  const auto loss = [](auto f) { return [f](Array x, Array w) { return sum(f(x, w)); }; };
  const Array x = numbers({8}), w = numbers({2}, 2);
  const auto [gx, gw] = jit(grad<0, 1>(loss(through(make(true)))))(x, w);
  expect_close(gx, 2.0f * cos(x) * tile(w, {4}));
  expect_close(gw, sum(reshape(sin(x), {4, 2}), {0}));
  expect_error<TypeError>([&] { grad<0, 1>(loss(through(make(false))))(x, w); },
                          {"cotangent 1", "varies over 'x'", "psum it over 'x' in the rule"});
  const ShardMapOptions unchecked{
      .mesh = line(), .in_specs = P("x"), .out_specs = P(), .check_vma = false};
  // Its result is one value: its cotangent is whole.
  auto total = custom_vjp([](Array v) { return psum(v, "x"); });
  total.def_vjp([](Array v) { return std::pair(psum(v, "x"), v); },
                [](Array, Array g) { return pvary(3.0f * g, "x"); });
  const auto f = shard_map([&](Array a) { return total(a); }, unchecked);
  expect_close(grad([&](Array a) { return sum(f(a)); })(numbers({8})), full({8}, 3.0f));
  auto twice = custom_jvp([](Array a) { return 2.0f * psum(a, "x"); });
  twice.def_jvp([](std::tuple<Array> a, std::tuple<Array> da) {
    return std::pair(2.0f * psum(std::get<0>(a), "x"), 5.0f * psum(std::get<0>(da), "x"));
  });
  const auto g = shard_map([&](Array a) { return twice(a); }, unchecked);
  expect_close(grad([&](Array a) { return sum(g(a)); })(numbers({8})), full({8}, 5.0f));
  expect_close(jvp(g, std::tuple(numbers({8})), std::tuple(ones({8}))).second, full({2}, 20.0f));
}

TEST(ShardMapDerivatives, Behaviour_313_GradientsWithoutChecks) {
  const auto f =
      shard_map([](Array a) { return all_gather(sin(a), "x", {.tiled = true}); },
                {.mesh = line(), .in_specs = P("x"), .out_specs = P(), .check_vma = false});
  expect_same(
      f, [](Array a) { return sin(a); }, numbers({8}));
}

TEST(ShardMapDerivatives, Linearized) {
  const auto f = over_x([](Array a) { return sin(a) * psum(sum(cos(a)), "x"); });
  const Array x = numbers({8}), dx = numbers({8}, 3);
  const auto [y, push] = linearize(f, x);
  expect_close(y, sin(x) * sum(cos(x)));
  expect_close(push(dx), jvp(f, std::tuple(x), std::tuple(dx)).second);
}

TEST(ShardMapDerivatives, RematAround) {
  const auto f = over_x([](Array a) { return sin(a) * psum(sum(cos(a)), "x"); });
  expect_same([&](Array a) { return remat([&](Array v) { return f(v) * v; })(a); },
              [](Array a) { return sin(a) * sum(cos(a)) * a; }, numbers({8}));
}

TEST(ShardMapDerivatives, MaximaHaveNone) {
  expect_error<NotImplementedError>(
      [] {
        grad(over_x([](Array a) { return pmax(reshape(a, {}), "x"); }, P("x"), P()))(ones({4}));
      },
      {"can't differentiate", "only sums over devices have a derivative"});
}

TEST(ShardMapDerivatives, Behaviour_312_TransposesReduceOnce) {
  const Array x = put(numbers({8, 4}), line(), P("x"));
  const Array w = put(numbers({4, 2}), line(), P());
  // Fan-out: one sum.
  const auto fan = shard_map([](Array a, Array b) { return matmul(a, b); },
                             {.mesh = line(), .in_specs = tree(P("x"), P()), .out_specs = P("x")});
  const Array ct = put(ones({8, 2}), line(), P("x"));
  const auto by_w = [&](Array a, Array b, Array g) {
    return vjp([&](Array v) { return fan(a, v); }, b).second(g);
  };
  EXPECT_EQ(collectives_of(by_w, x, w, ct).reductions, 1u);
  EXPECT_EQ(collectives_of(by_w, x, w, ct).all, 1u);
  // A sum passes its cotangent on: nothing.
  const auto total = over_x([](Array a) { return psum(a, "x"); }, P("x"), P());
  const auto of_total = [&](Array a, Array g) { return vjp(total, a).second(g); };
  EXPECT_EQ(collectives_of(of_total, x, put(ones({2, 4}), line(), P())).all, 0u);
  // A sum that is given out on each device: one.
  const auto spread = over_x([](Array a) { return psum(a, "x"); });
  const auto of_spread = [&](Array a, Array g) { return vjp(spread, a).second(g); };
  EXPECT_EQ(collectives_of(of_spread, x, x).all, 1u);
  // The identity, and its derivative's derivative.
  for (const PartitionSpec& spec : {P("x"), P()}) {
    const auto same = over_x([](Array a) { return a * 1.0f; }, spec, spec);
    const Array at = put(numbers({8, 4}), line(), spec);
    const auto once = [&](Array a, Array g) { return vjp(same, a).second(g); };
    EXPECT_EQ(collectives_of(once, at, at).all, 0u);
    const auto twice = [&](Array a, Array g) {
      return vjp([&](Array h) { return once(a, h); }, g).second(a);
    };
    EXPECT_EQ(collectives_of(twice, at, at).all, 0u);
  }
}

}  // namespace
}  // namespace tessera::testing::shard_map_derivatives
