// SPDX-License-Identifier: Apache-2.0
// Loops, branches and scans, eagerly and traced.
#include <tessera/control_flow.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <tessera/jit.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/products.h>
#include <tessera/ops/reductions.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

TEST(WhileLoop, CountsOnValues) {
  // Collatz steps.
  auto steps = [](Array n) {
    return while_loop([](std::pair<Array, Array> s) { return s.first != 1; },
                      [](std::pair<Array, Array> s) {
                        const auto [v, k] = s;
                        return std::pair{where(v % 2 == 0, floor_divide(v, 2), 3 * v + 1), k + 1};
                      },
                      std::pair{n, Array(0)})
        .second;
  };
  auto jitted = jit(steps);
  for (int n : {1, 6, 7, 27}) {
    int want = 0;
    for (int v = n; v != 1; ++want) v = v % 2 == 0 ? v / 2 : 3 * v + 1;
    EXPECT_EQ(jitted(n).item<int>(), want);
    EXPECT_EQ(steps(n).item<int>(), want) << "eager";
  }
  EXPECT_EQ(count(jitted.lower(7).as_text(), " while("), 1u);
}

TEST(WhileLoop, PlainScalarsAdoptTheBodysType) {
  const Array x = while_loop([](Array v) { return v < 10; }, [](Array v) { return v * 1.5f; }, 1);
  EXPECT_EQ(x.dtype(), f32);
  EXPECT_FLOAT_EQ(x.item<float>(), 11.390625f);
}

TEST(WhileLoop, Errors) {
  auto wide = [] {
    while_loop([](Array v) { return sum(v) < 3; }, [](Array v) { return v.astype(f64); },
               zeros({2}));
  };
  expect_error<TypeError>(wide, {"while_loop", "carry", "f32[2]", "f64[2]", kNear});
  auto named = [] {
    std::map<std::string, Array> m{{"a", zeros({2})}, {"b", zeros({3})}};
    while_loop([](const auto& v) { return sum(v.at("a")) < 3; },
               [](std::map<std::string, Array> v) {
                 v["b"] = sum(v.at("b"));
                 return v;
               },
               m);
  };
  expect_error<TypeError>(named, {"carry['b']", "f32[3]", "f32[]", kNear});
  auto vector_condition = [] {
    while_loop([](Array v) { return v < 3; }, [](Array v) { return v + 1; }, zeros({2}));
  };
  expect_error<TypeError>(vector_condition, {"condition", "scalar pred", "pred[2]", kNear});
}

TEST(ForiLoop, ValuesAndTripCounts) {
  auto f = jit([](Array x) {
    return fori_loop(
        2, 7, [](Array i, Array v) { return v * 2 + i; }, x);
  });
  std::vector<float> want{0, 1, 2};
  for (float& v : want) {
    for (int i = 2; i < 7; ++i) v = v * 2 + float(i);
  }
  expect_close(floats(f(counting({3}))), want);
  const std::string text = f.lower(counting({3})).as_text();
  EXPECT_TRUE(has(text, "\"known_trip_count\":{\"n\":\"5\"}")) << text;
  // Bounds that are values; no trips at all; captures of the outside.
  auto g = jit([](Array n, Array w) {
    return fori_loop(
        0, n,
        [&](Array i, std::tuple<Array, Array> s) {
          return std::tuple{std::get<0>(s) + w * i.astype(f32), std::get<1>(s) + 1};
        },
        std::tuple{zeros({2}), Array(0)});
  });
  for (int n : {0, 1, 5}) {
    const auto [v, k] = g(n, array<float>({1, 10}));
    expect_close(floats(v), {float(n * (n - 1) / 2), float(10 * n * (n - 1) / 2)});
    EXPECT_EQ(k.item<int>(), n);
  }
  EXPECT_FALSE(has(g.lower(3, ones({2})).as_text(), "known_trip_count"));
  EXPECT_EQ(fori_loop(
                5, 2, [](Array, Array v) { return v + 1; }, 3)
                .item<int>(),
            3);
  EXPECT_EQ(jit([](Array v) {
              return fori_loop(
                  5, 2, [](Array, Array a) { return a + 1; }, v);
            })(3)
                .item<int>(),
            3);
  // Bounds of a small type are what they are in that type.
  EXPECT_EQ(jit([](Array v) {
              return fori_loop(
                  Array(0).astype(u8), 300, [](Array, Array a) { return a + 1; }, v);
            })(0)
                .item<int>(),
            300 - 256);
  expect_error<TypeError>(
      [] {
        fori_loop(
            0.5, 2, [](Array, Array v) { return v; }, 3);
      },
      {"fori_loop", "integer", "f32[]", kNear});
}

TEST(ForiLoop, ShardedCarries) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  const Array w = counting({8, 8}, 0.01f), x = counting({4, 8}, 0.1f);
  auto f = [](Array v, Array m) {
    return fori_loop(
        0, 4, [&](Array, Array s) { return tanh(matmul(s, m)) + s; }, v);
  };
  const Array want = jit(f)(x, w);
  auto sharded = jit(f);
  for (const PartitionSpec& xs : {P("x"), P("x", "y"), P(nullptr, axes("x", "y"))}) {
    for (const PartitionSpec& ws : {P(), P("y"), P(nullptr, "y"), P("y", "x")}) {
      const Array have = sharded(put(x, mesh, xs), put(w, mesh, ws));
      expect_close(have, want, 1e-4f);
    }
  }
  const std::string text =
      sharded.lower(put(x, mesh, P("x")), put(w, mesh, P())).compile().as_text();
  EXPECT_TRUE(has(text, "\"n\":\"4\"")) << text;
  EXPECT_FALSE(has(text, " all-gather(")) << text;
}

TEST(Cond, TakesOneBranch) {
  auto f = jit([](Array p, Array x, Array y) {
    return cond(
        p,
        [](Array a, Array b) {
          return std::pair{a + b, a};
        },
        [](Array a, Array b) {
          return std::pair{a * b, b};
        },
        x, y);
  });
  const Array x = counting({3}), y = full({3}, 2.f);
  expect_close(floats(f(true, x, y).first), {2, 3, 4});
  expect_close(floats(f(false, x, y).first), {0, 2, 4});
  expect_close(floats(f(false, x, y).second), {2, 2, 2});
  const std::string text = f.lower(true, x, y).as_text();
  EXPECT_EQ(count(text, " conditional("), 1u) << text;
  EXPECT_TRUE(has(text, "true_computation=")) << text;
  // Eagerly, numbers as predicates, weak results, captures.
  const Array w = counting({3}, 10);
  const Array r = cond(
      3, [&](Array a) { return a + w; }, [](Array a) { return a; }, x);
  expect_close(floats(r), {0, 11, 22});
  EXPECT_EQ(cond(
                false, [] { return Array(1.5f); }, [] { return Array(2); })
                .dtype(),
            f32);
  EXPECT_EQ(cond(
                false, [] { return Array(1.5f); }, [] { return Array(2); })
                .item<float>(),
            2);
}

TEST(Cond, Errors) {
  expect_error<TypeError>(
      [] {
        cond(
            true, [](Array a) { return a; }, [](Array a) { return sum(a); }, zeros({2}));
      },
      {"cond", "f32[]", "f32[2]", kNear});
  expect_error<TypeError>(
      [] {
        cond(
            zeros({2}), [] { return Array(1); }, [] { return Array(1); });
      },
      {"predicate", "f32[2]", kNear});
  expect_error<TypeError>(
      [] {
        cond(
            true, [] { return std::vector<Array>{1}; },
            [] {
              return std::vector<Array>{1, 2};
            });
      },
      {"cond", "1", "2", kNear});
}

TEST(Switch, ClampsTheIndex) {
  using Branch = std::function<Array(Array)>;
  const std::vector<Branch> branches{[](Array x) { return x; }, [](Array x) { return x * 10; },
                                     [](Array x) { return -x; }};
  auto f = jit([&](Array i, Array x) { return switch_case(i, branches, x); });
  const Array x = counting({2}) + 1;
  expect_close(floats(f(0, x)), {1, 2});
  expect_close(floats(f(1, x)), {10, 20});
  expect_close(floats(f(2, x)), {-1, -2});
  expect_close(floats(f(9, x)), {-1, -2});
  expect_close(floats(f(-9, x)), {1, 2});
  EXPECT_TRUE(has(f.lower(1, x).as_text(), "branch_computations={"));
  expect_error<ValueError>([&] { switch_case(1, std::vector<Branch>{}, x); },
                           {"switch_case", "no branches", kNear});
  expect_error<TypeError>([&] { switch_case(1.5f, branches, x); }, {"index", "f32[]", kNear});
}

TEST(Cond, ShardedBranches) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit([](Array p, Array x) {
    return cond(
        p, [](Array a) { return a - mean(a); }, [](Array a) { return a * 2; }, x);
  });
  const Array x = counting({16, 2});
  const Array split = put(x, mesh, P("x"));
  expect_close(f(true, split), f(true, x));
  expect_close(f(false, split), f(false, x));
  EXPECT_EQ(f(false, split).sharding(), NamedSharding(mesh, P("x")));
}

TEST(Scan, CarriesAndStacks) {
  const Array xs = counting({5, 2});
  auto f = jit([](Array a) {
    return scan([](Array c, Array x) { return std::pair{c + x, c * x}; }, ones({2}), a);
  });
  const auto [last, ys] = f(xs);
  std::vector<float> c{1, 1}, want;
  for (int i = 0; i < 5; ++i) {
    for (int k = 0; k < 2; ++k) {
      want.push_back(c[std::size_t(k)] * float(2 * i + k));
      c[std::size_t(k)] += float(2 * i + k);
    }
  }
  expect_close(floats(last), c);
  EXPECT_EQ(ys.shape(), (Array::Dims{5, 2}));
  expect_close(floats(ys), want);
  EXPECT_TRUE(has(f.lower(xs).as_text(), "\"known_trip_count\":{\"n\":\"5\"}"));
  const auto [back, all] = scan(
      [](Array s, Array x) {
        return std::pair{s * 2 + x, s};
      },
      Array(0.f), counting({3}), {.reverse = true});
  EXPECT_FLOAT_EQ(back.item<float>(), (2 * 2 + 1) * 2 + 0);
  expect_close(floats(all), {5, 2, 0});
}

TEST(Scan, UnrolledOnesAreTheSame) {
  const Array xs = counting({7, 2});
  auto run = [&](ScanUnroll unroll, bool reverse) {
    auto f = jit([=](Array a) {
      return scan(
          [](Array c, Array x) {
            return std::pair{c * 2 + x, c - x};
          },
          ones({2}), a, {.reverse = reverse, .unroll = unroll});
    });
    const auto [last, ys] = f(xs);
    return std::tuple(floats(last), floats(ys), f.lower(xs).as_text());
  };
  const auto loops = [](const std::string& text) { return has(text, " while("); };
  for (const bool reverse : {false, true}) {
    const auto [last, ys, text] = run(1, reverse);
    EXPECT_TRUE(has(text, "\"known_trip_count\":{\"n\":\"7\"}"));
    EXPECT_EQ(std::get<2>(run(false, reverse)), text);
    for (const std::int64_t unroll : {2, 3, 7, 100, 0}) {
      SCOPED_TRACE(unroll);
      const auto [l, y, t] = run(unroll, reverse);
      EXPECT_EQ(l, last);
      EXPECT_EQ(y, ys);
      EXPECT_EQ(loops(t), unroll == 2 || unroll == 3);
    }
    EXPECT_TRUE(has(std::get<2>(run(3, reverse)), "\"known_trip_count\":{\"n\":\"2\"}"));
    const auto [l, y, t] = run(true, reverse);
    EXPECT_EQ(l, last);
    EXPECT_EQ(y, ys);
    EXPECT_FALSE(loops(t));
  }
  auto step = [](Array c, Array x) { return std::pair{c + x, x}; };
  EXPECT_EQ(scan(step, Array(0.f), zeros({0}), {.unroll = true}).second.shape(), (Array::Dims{0}));
  expect_error<ValueError>([&] { scan(step, Array(0.f), zeros({4}), {.unroll = -1}); },
                           {"scan: unroll is -1", "valid", kNear});
}

TEST(Scan, TreesLengthsAndErrors) {
  const auto [carry, y] = scan(
      [](std::pair<Array, Array> c, std::tuple<>) {
        return std::pair{std::pair{c.second, c.first + c.second}, c.first};
      },
      std::pair{Array(0), Array(1)}, std::tuple<>{}, {.length = 10});
  EXPECT_EQ(carry.first.item<int>(), 55);
  EXPECT_EQ(y.to_vector<int>(), (std::vector<int>{0, 1, 1, 2, 3, 5, 8, 13, 21, 34}));
  auto step = [](Array c, Array x) { return std::pair{c + x, x}; };
  EXPECT_EQ(scan(step, Array(0.f), zeros({0})).second.shape(), (Array::Dims{0}));
  expect_error<ValueError>([&] { scan(step, Array(0.f), zeros({4}), {.length = 3}); },
                           {"scan", "3", "4", kNear});
  expect_error<ValueError>([&] { scan(step, Array(0.f), Array(1.f)); },
                           {"leading dimension", "f32[]", kNear});
  expect_error<TypeError>(
      [&] {
        scan(step, zeros({2}), zeros({4, 3, 2}));
      },
      {"carry", "f32[2]", "f32[3,2]", kNear});
  expect_error<ValueError>(
      [] {
        scan([](Array c, std::tuple<>) { return std::pair{c, c}; }, Array(0), std::tuple<>{});
      },
      {"length", kNear});
}

/// What the compiler is given for a function, as it was traced.
template <class F, class... A>
std::string traced_text(const std::string& name, F f, const A&... args) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / ("tessera_traced_" + name);
  std::filesystem::remove_all(folder);
  ::setenv("TESSERA_DUMP_TO", folder.c_str(), 1);
  jit(f, {.name = name})(args...);
  ::unsetenv("TESSERA_DUMP_TO");
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string file = entry.path().filename();
    if (!has(file, name + ".00.input")) continue;
    std::ifstream in(entry.path());
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  return text;
}

TEST(Scan, IsOneOpUntilItIsCompiled) {
  const Array xs = counting({5, 2});
  auto stacked = [](Array a) {
    return scan([](Array c, Array x) { return std::pair{c + x, c * x}; }, ones({2}), a).second;
  };
  const std::string plain = traced_text("plain_scan", stacked, xs);
  EXPECT_TRUE(has(plain, " scan(")) << plain;
  EXPECT_TRUE(has(plain, "num_carries=1, is_reverse=false, to_apply=scan.step")) << plain;
  EXPECT_FALSE(has(plain, " while(")) << plain;
  // What the step captures is a constant; without slices the length is stated.
  auto powers = [](Array w) {
    return scan(
               [&](Array c, std::tuple<>) {
                 return std::pair{c * w, c};
               },
               Array(1.f), std::tuple<>{}, {.length = 3, .reverse = true})
        .second;
  };
  const std::string captured = traced_text("captured_scan", powers, Array(2.f));
  EXPECT_TRUE(has(captured,
                  "custom_call_target=\"tessera.Scan\", dimensions={0}, length=3, "
                  "num_carries=1, num_constants=1, is_reverse=true"))
      << captured;
  EXPECT_EQ(floats(jit(powers)(Array(2.f))), (std::vector<float>{4, 2, 1}));
  auto counted = [](Array x) {
    return fori_loop(
        2, 7, [](Array i, Array v) { return v * 2 + i; }, x);
  };
  const std::string loop = traced_text("counted", counted, xs);
  EXPECT_TRUE(has(loop, "length=5, num_carries=2, num_constants=0")) << loop;
  // Users of JAX see a loop, in each dialect; one counter is enough.
  const Lowered lowered = jit(counted).lower(xs);
  EXPECT_TRUE(has(lowered.as_text(), "stablehlo.while") || has(lowered.as_text(), " while("));
  const std::string hlo = lowered.as_text("hlo");
  EXPECT_TRUE(has(hlo, "(s32[], f32[5,2]{1,0}) while(")) << hlo;
  EXPECT_FALSE(has(hlo, "tessera.Scan")) << hlo;
}

TEST(Map, StacksTheResultsOfSlices) {
  const Array xs = counting({4, 3}), ys = counting({4});
  auto f = [](Array a, Array b) {
    return map(
        [](std::pair<Array, Array> s) {
          return std::pair{s.first * s.second, sum(s.first)};
        },
        std::pair{a, b});
  };
  // One op that carries nothing.
  const std::string text = traced_text("mapped", f, xs, ys);
  EXPECT_TRUE(has(text, "num_carries=0, is_reverse=false, to_apply=map.step")) << text;
  const auto [scaled, sums] = f(xs, ys);
  EXPECT_EQ(scaled.shape(), (Array::Dims{4, 3}));
  expect_close(floats(sums), {3, 12, 21, 30});
  expect_close(floats(scaled), {0, 0, 0, 3, 4, 5, 12, 14, 16, 27, 30, 33});
  const auto [again, sums_again] = jit(f)(xs, ys);
  EXPECT_EQ(floats(again), floats(scaled));
  EXPECT_EQ(floats(sums_again), floats(sums));
  // Split by slices each device would go over its own; by columns nothing moves at all.
  const Mesh mesh = mesh_of({{"x", 8}});
  const Array wide = counting({3, 16}, 0.1f);
  auto rows = jit([](Array a) { return map([](Array r) { return tanh(r) * 2; }, a); });
  const Array split = device_put(wide, NamedSharding(mesh, P(nullptr, "x")));
  EXPECT_EQ(floats(rows(split)), floats(rows(wide)));
  EXPECT_FALSE(has(rows.lower(split).compile().as_text(), "all-gather"));
  auto same = [](Array r) { return r; };
  expect_error<ValueError>(
      [&] { map([](std::vector<Array> r) { return r; }, std::vector<Array>()); },
      {"map", "no arrays", kNear});
  expect_error<ValueError>([&] { map(same, Array(1.f)); },
                           {"map", "leading dimension", "f32[]", kNear});
  expect_error<ValueError>(
      [&] {
        map([](std::vector<Array> r) { return r[0]; }, std::vector{xs, zeros({5})});
      },
      {"map", "4", "5", kNear});
}

TEST(Scan, Sharded) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  const Array xs = counting({6, 8, 4}, 0.05f), w = counting({4, 4}, 0.1f);
  auto f = [](Array a, Array m) {
    return scan(
        [&](Array c, Array x) {
          const Array h = tanh(matmul(c, m) + x);
          return std::pair{h, sum(h, 1)};
        },
        zeros({8, 4}), a);
  };
  const auto [last, ys] = jit(f)(xs, w);
  auto sharded = jit(f);
  for (const PartitionSpec& spec :
       {P(nullptr, "x"), P(nullptr, "y", "x"), P("x"), P(nullptr, nullptr, "y"), P("x", "y")}) {
    const auto [l, y] = sharded(put(xs, mesh, spec), put(w, mesh, P(nullptr, "y")));
    expect_close(l, last, 1e-4f);
    expect_close(y, ys, 1e-4f);
  }
  const std::string text =
      sharded.lower(put(xs, mesh, P(nullptr, "x")), put(w, mesh, P())).compile().as_text();
  EXPECT_TRUE(has(text, "\"n\":\"6\"")) << text;
  EXPECT_FALSE(has(text, "all-")) << text;
}

TEST(ControlFlow, Nests) {
  auto f = jit([](Array x) {
    return fori_loop(
        0, 3,
        [](Array i, Array v) {
          return cond(
              i % 2 == 0,
              [&](Array a) {
                return while_loop([](Array s) { return s < 100; },
                                  [&](Array s) { return s * 2 + i.astype(f32); }, a) -
                       100;
              },
              [](Array a) { return a + 0.5f; }, v);
        },
        x);
  });
  auto plain = [](float v) {
    for (int i = 0; i < 3; ++i) {
      if (i % 2 == 0) {
        while (v < 100) v = v * 2 + float(i);
        v -= 100;
      } else {
        v += 0.5f;
      }
    }
    return v;
  };
  for (float v : {1.f, 3.f, 77.f}) EXPECT_FLOAT_EQ(f(v).item<float>(), plain(v));
  // An inner jit that is called in two bodies.
  auto inner = jit([](Array x) { return x * 3; }, {.name = "triple"});
  auto g = jit([&](Array x) {
    const Array a = fori_loop(
        0, 2, [&](Array, Array v) { return inner(v); }, x);
    return scan(
               [&](Array c, Array y) {
                 return std::pair{inner(c) + y, y};
               },
               a, counting({2}))
        .first;
  });
  EXPECT_FLOAT_EQ(g(1.f).item<float>(), (9 * 3 + 0) * 3 + 1);
  EXPECT_EQ(inner.trace_count(), 1);
}

}  // namespace
}  // namespace tessera::testing
