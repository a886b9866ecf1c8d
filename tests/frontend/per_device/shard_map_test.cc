// SPDX-License-Identifier: Apache-2.0
// shard_map together with other features: inside of jit, loops and branches and around them,
// captured arrays, devices, texts, reports.
#include <tessera/shard_map.h>

#include <fstream>
#include <stdexcept>
#include <thread>

#include <tessera/control_flow.h>
#include <tessera/jit.h>
#include <tessera/load.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/products.h>
#include <tessera/ops/reductions.h>
#include <tessera/ops/sorting.h>
#include <tessera/random.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

Mesh line() { return mesh_of({{"x", 8}}); }
Mesh pair_mesh() { return mesh_of({{"x", 2}, {"y", 4}}); }
auto over_x(auto f, PartitionSpec out = P("x")) {
  return shard_map(f, {.mesh = line(), .in_specs = P("x"), .out_specs = out});
}

TEST(ShardMapUse, LoopsAround) {
  const Array x = counting({8});
  auto shift = over_x([](Array a) {
    return ppermute(a, "x", {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 0}});
  });
  auto f = jit([&](Array a) {
    auto [last, steps] = scan(
        [&](Array c, std::tuple<>) {
          const Array next = shift(c) + 1;
          return std::pair{next, sum(next)};
        },
        a, std::tuple<>(), {.length = 3});
    const Array moved = cond(
        sum(last) > 10.f, [&](Array b) { return shift(b); }, [](Array b) { return b; }, last);
    const Array doubled = while_loop([](Array c) { return sum(c) < 500.f; },
                                     [&](Array c) { return shift(c) * 2; }, moved);
    return std::pair{doubled, steps};
  });
  const auto [have, steps] = f(x);
  std::vector<float> want{0, 1, 2, 3, 4, 5, 6, 7};
  auto rotate = [&](float by, float times) {
    std::rotate(want.begin(), want.end() - 1, want.end());
    for (float& v : want) v = (v + by) * times;
  };
  for (int i = 0; i < 3; ++i) rotate(1, 1);
  rotate(0, 1);
  for (float total = 52; total < 500; total *= 2) rotate(0, 2);
  expect_close(floats(have), want);
  expect_close(floats(steps), {36, 44, 52});
  expect_close(floats(f(put(x, line(), P("x"))).first), want);
}

TEST(ShardMapUse, FunctionsWithin) {
  // One jitted function, per device and for global arrays; its collectives are those of the calling
  // code.
  auto inner = jit([](Array a) { return a * 2; });
  auto total = jit([](Array a) { return psum(sum(a), "x"); });
  auto f = jit([&](Array a) {
    auto body = over_x(
        [&](Array b) {
          const Array once = inner(b), twice = inner(once);
          return total(twice) + total(b);
        },
        P());
    return body(inner(a)) + sum(inner(a));
  });
  EXPECT_EQ(f(counting({8})).item<float>(), 28 * 8 + 28 * 2 + 28 * 2);
  expect_error<ValueError>([&] { jit([&](Array a) { return total(a); })(counting({8})); },
                           {"psum over 'x'", "no mesh axes are bound"});
  // The same function under another mesh is another program.
  auto size = jit([](Array a) { return a + float(axis_size("x")); });
  auto g = jit([&](Array a) {
    auto two = shard_map([&](Array b) { return size(b); },
                         {.mesh = pair_mesh(), .in_specs = P("x"), .out_specs = P("x")});
    return two(a) + over_x([&](Array b) { return size(b); })(a);
  });
  expect_close(g(counting({8})), counting({8}) * 2 + 10);
}

TEST(ShardMapUse, ArraysLikeAVaryingOneVary) {
  // So that they can be what a loop begins with.
  const auto f = over_x([](Array a) {
    for (const Array& like : {zeros_like(a), ones_like(a), full_like(a, 2.0f, DType::s32)}) {
      EXPECT_EQ(varying_axes(like), std::vector<std::string>{"x"});
    }
    EXPECT_EQ(varying_axes(zeros_like(psum(a, "x"))), std::vector<std::string>{});
    return fori_loop(
        0, 3, [&](Array, Array sum) { return sum + a; }, zeros_like(a));
  });
  const Array x = counting({8});
  expect_close(f(x), x * 3);
  expect_close(jit(f)(x), x * 3);
}

TEST(ShardMapUse, CapturedArraysAreReplicated) {
  const Array x = counting({8}), w = counting({3}), split = put(counting({8}), line(), P("x"));
  auto f = over_x([&](Array a) {
    EXPECT_EQ(split.shape(), (Array::Dims{8}));
    return a + sum(w) + sum(split);
  });
  expect_close(f(x), x + 31);
  expect_close(jit(f)(x), x + 31);
  auto g = jit([&](Array a, Array b) {
    return over_x([&](Array c) {
      EXPECT_EQ(varying_axes(b), std::vector<std::string>{});
      return c * sum(b);
    })(a);
  });
  expect_close(g(x, split), x * 28);
  expect_close(over_x([&](Array) { return w; }, P())(x), w);
  // A tracer of the body may not leave it.
  Array kept;
  over_x([&](Array a) {
    kept = a;
    return a;
  })(x);
  expect_error<TracerError>([&] { kept + 1; }, {"traced array f32[1]"});
  expect_error<TracerError>([&] { over_x([&](Array a) { return a + kept; })(x); }, {"f32[1]"});
}

TEST(ShardMapUse, Devices) {
  const Array x = counting({8});
  auto f = over_x([](Array a) { return psum(a, "x"); }, P());
  const Array on_one = device_put(x, SingleDeviceSharding(devices()[1]));
  expect_error<ValueError>([&] { f(on_one); },
                           {"incompatible devices for 'shard_map'", "f32[8]", "[1]", kNear});
  std::vector<Device> list = devices();
  std::reverse(list.begin(), list.end());
  const Array reversed = put(x, Mesh(list, "x"), P("x"));
  expect_error<ValueError>([&] { jit(f)(reversed); }, {"incompatible devices", "in another order"});
  // A mesh in its own order of devices.
  auto own = shard_map([](Array a) { return a * 10 + axis_index("x").astype(f32); },
                       {.mesh = Mesh(list, "x"), .in_specs = P("x"), .out_specs = P("x")});
  const Array y = own(reversed);
  expect_close(floats(y), {0, 11, 22, 33, 44, 55, 66, 77});
  EXPECT_EQ(y.sharding(), NamedSharding(Mesh(list, "x"), P("x")));
  EXPECT_EQ(floats(y.addressable_data(0)), std::vector<float>{0});
  EXPECT_EQ(*y.addressable_data(0).devices().begin(), list[0]);
  // Arguments on a mesh of other axes, and one with another sharding.
  const Array other = put(x, mesh_of({{"a", 4}, {"b", 2}}), P("b"));
  expect_close(floats(f(other)), {28});
  // One device.
  const Mesh one({devices()[3]}, "x");
  auto alone = [&](auto body) {
    return shard_map(body, {.mesh = one, .in_specs = P("x"), .out_specs = P("x")});
  };
  expect_close(alone([](Array a) { return psum(a, "x") + all_gather(a, "x", {.tiled = true}); })(x),
               x * 2);
  expect_close(alone([](Array a) {
                 return ppermute(psum_scatter(a, "x", {.tiled = true}), "x", {{0, 0}}) +
                        axis_index("x").astype(f32) + all_to_all(a, "x", 0, 0, true);
               })(x),
               x * 2);
  EXPECT_EQ(alone([](Array a) { return a; })(x).devices(), std::set<Device>{devices()[3]});
  // Devices that are not here.
  std::vector<Device> far = devices();
  for (Device& d : far) d.id += 1000;
  auto away = shard_map([](Array a) { return psum(a, "x"); },
                        {.mesh = Mesh(far, "x"), .in_specs = P("x"), .out_specs = P()});
  expect_error<ValueError>([&] { away(x); }, {"can't run", "1000", kNear});
}

TEST(ShardMapUse, Texts) {
  auto f = jit(
      shard_map([](Array a, Array b) { return psum(matmul(a, b), "y"); },
                {.mesh = pair_mesh(), .in_specs = tree(P("x", "y"), P("y")), .out_specs = P("x")}));
  const auto lowered = f.lower(zeros({8, 8}), zeros({8, 4}));
  const std::string text = lowered.as_text("stablehlo");
  EXPECT_TRUE(has(text, "sdy.manual_computation(")) << text;
  EXPECT_TRUE(has(text, "in_shardings=[<@mesh, [{\"x\"}, {\"y\"}]>, <@mesh, [{\"y\"}, {}]>]"))
      << text;
  EXPECT_TRUE(has(text, "out_shardings=[<@mesh, [{\"x\"}, {}]>] manual_axes={\"x\", \"y\"}"))
      << text;
  EXPECT_TRUE(has(text, "tensor<4x2xf32>")) << text;
  const std::string hlo = lowered.as_text("hlo");
  EXPECT_TRUE(has(hlo, "tessera.ManualComputation")) << hlo;
  // Before it meets `a`, `b` is told to vary over x as well; nothing is left of that on devices.
  EXPECT_TRUE(has(hlo, "custom_call_target=\"tessera.pvary\", manual_axes=[\"x\"]")) << hlo;
  const auto compiled = lowered.compile();
  EXPECT_FALSE(has(compiled.as_text(), "tessera.")) << compiled.as_text();
  ASSERT_EQ(compiled.collectives().size(), 1u);
  EXPECT_EQ(compiled.collectives()[0].kind, "all-reduce");
  EXPECT_TRUE(has(compiled.collectives()[0].location, "shard_map_test.cc"));
  EXPECT_EQ(compiled.output_shardings()[0], NamedSharding(pair_mesh(), P("x")));
  // Automatic axes stand open.
  auto partly = jit(shard_map(
      [](Array a) { return a + 1; },
      {.mesh = pair_mesh(), .in_specs = P("x"), .out_specs = P("x"), .axis_names = {"x"}}));
  EXPECT_TRUE(has(partly.lower(zeros({8, 8})).as_text("stablehlo"),
                  "in_shardings=[<@mesh, [{\"x\", ?}, {?}]>] "
                  "out_shardings=[<@mesh, [{\"x\", ?}, {?}]>] manual_axes={\"x\"}"));
}

TEST(ShardMapUse, TextsComeBack) {
  // What is printed is read again, and does the same: partly manual, another one within.
  const Array x = counting({8, 8});
  auto f = jit(shard_map(
      [](Array a) {
        const Array b = with_sharding_constraint(a * 2, P(nullptr, "y"));
        auto inner = shard_map(
            [](Array c) {
              return c + psum(c, {"x", "y"}) + axis_index("y").astype(f32);
            },
            {.in_specs = P(nullptr, "y"), .out_specs = P(nullptr, "y"), .axis_names = {"y"}});
        return ppermute(inner(b), "x", {{0, 1}, {1, 0}});
      },
      {.mesh = pair_mesh(), .in_specs = P("x"), .out_specs = P("x"), .axis_names = {"x"}}));
  const std::string path = ::testing::TempDir() + "/shard_map_text.mlir";
  std::ofstream(path) << f.lower(x).as_text("stablehlo");
  auto again = load_stablehlo(path);
  expect_close(again(x)[0], f(x));
  const std::string hlo = ::testing::TempDir() + "/shard_map_text.hlo";
  std::ofstream(hlo) << f.lower(x).as_text("hlo");
  expect_close(load_hlo(hlo)(x)[0], f(x));
  expect_error<ValueError>([&] { over_x([&](Array a) { return again(a)[0]; })(x); },
                           {"per-device code", "LoadOptions::shardings"});
}

TEST(ShardMapUse, Wrapped) {
  // A wrapped function has the parameters of what it wraps, static ones too.
  auto times = shard_map([](Array a, int n) { return a * n; }, static_argnums<1>,
                         {.mesh = line(), .in_specs = P("x"), .out_specs = P("x")});
  auto jitted = jit(times, static_argnums<1>);
  expect_close(jitted(counting({8}), 3), counting({8}) * 3);
  auto generic = jit(shard_map([](auto a, auto b) { return a + b; },
                               {.mesh = line(), .in_specs = P("x"), .out_specs = P("x")}));
  expect_close(generic(counting({8}), counting({8})), counting({8}) * 2);
  auto sums = shard_map([](std::pair<Array, Array> p) { return p.first + p.second; },
                        {.mesh = line(), .in_specs = P("x"), .out_specs = P("x")});
  expect_close(jit(sums)({counting({8}), counting({8})}), counting({8}) * 2);
  // After an exception everything is as before.
  auto throws = over_x([](Array a) -> Array {
    if (a.shape(0) == 1) throw std::runtime_error("mine");
    return a;
  });
  EXPECT_THROW(throws(counting({8})), std::runtime_error);
  EXPECT_TRUE(current_mesh().empty());
  expect_close(counting({2}) + 1, array(std::vector<float>{1, 2}));
}

TEST(ShardMapUse, OddShapesAndTypes) {
  const Array x = counting({8});
  // No arguments, no results, several results.
  auto none = shard_map([]() { return axis_index("x"); },
                        {.mesh = line(), .in_specs = P(), .out_specs = P(), .check_vma = false});
  EXPECT_EQ(none().item<int>(), 0);
  auto nothing = over_x([](Array) { return std::tuple<>(); });
  nothing(x);
  auto two = over_x(
      [](std::map<std::string, Array> m) {
        return std::map<std::string, Array>{{"sum", psum(m["a"], "x")}, {"all", m["a"] + m["b"]}};
      },
      P());
  expect_error<ValueError>([&] { two({{"a", x}, {"b", x}}); }, {"result['all']"});
  auto named = shard_map(
      [](std::map<std::string, Array> m) {
        return std::map<std::string, Array>{{"sum", psum(m["a"], "x")}, {"all", m["a"] + m["b"]}};
      },
      {.mesh = line(), .in_specs = P("x"), .out_specs = dict({{"sum", P()}, {"all", P("x")}})});
  const auto out = named({{"a", x}, {"b", x}});
  expect_close(floats(out.at("sum")), {28});
  expect_close(out.at("all"), x * 2);
  // Other types, and no elements.
  for (DType t : {s8, u16, s64, f16, bf16, f64}) {
    const Array y = over_x([](Array a) { return psum(a, "x"); }, P())(x.astype(t));
    EXPECT_EQ(y.dtype(), t);
    EXPECT_EQ(y.item<float>(), 28) << name(t);
  }
  EXPECT_EQ(over_x([](Array a) { return psum(a > 2, "x"); }, P())(x).item<int>(), 5);
  EXPECT_TRUE(over_x([](Array a) { return pmax(a > 6, "x"); }, P())(x).item<bool>());
  EXPECT_EQ(over_x([](Array a) { return all_gather(a, "x"); })(zeros({0, 3})).shape(),
            (Array::Dims{64, 0, 3}));
  // Weak types stay weak.
  auto weak =
      shard_map([](Array a) { return a * 2; }, {.mesh = line(), .in_specs = P(), .out_specs = P()});
  EXPECT_TRUE(weak(3).weak_type());
  EXPECT_EQ((weak(3) + ones({}, s8)).dtype(), s8);
}

TEST(ShardMapUse, PartlyManualBodies) {
  // Ops whose partitioned form over the automatic axis communicates.
  const Mesh mesh = pair_mesh();
  const Array x = sin(counting({8, 16}));
  const Array split = put(x, mesh, P("x", "y"));
  auto check = [&](const char* what, auto body, bool by_rows = true) {
    SCOPED_TRACE(what);
    auto f = jit(shard_map(
        body, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x"), .axis_names = {"x"}}));
    if (by_rows) {
      expect_close(f(split), body(x), 1e-4f);
    } else {
      const Array top = body(slice(x, {0, 0}, {4, 16})), bottom = body(slice(x, {4, 0}, {8, 16}));
      expect_close(f(split), concatenate({top, bottom}), 1e-4f);
    }
  };
  check("sort", [](Array a) { return sort(a, 1); });
  check("cumsum", [](Array a) { return cumsum(a, 1); });
  check("softmax", [](Array a) {
    const Array e = exp(a - max(a, 1, true));
    return e / sum(e, 1, {.keepdims = true});
  });
  check(
      "matmul", [](Array a) { return matmul(a, matmul(transpose(a), a)); }, false);
  check("slice", [](Array a) { return slice(a, {0, 3}, {a.shape(0), 11}); });
  check("flip", [](Array a) { return flip(a, {1}); });
  check("roll", [](Array a) { return roll(a, 5, {1}); });
  check("gather", [](Array a) { return take(a, array(std::vector<int>{3, 1, 15, 15}), 1); });
  check("reshape", [](Array a) { return reshape(reshape(a, {a.shape(0), 4, 4}) + 1, a.shape()); });
  check("loop", [](Array a) {
    return fori_loop(
        0, 4,
        [](Array i, Array c) { return c * 0.5f + sum(c, 1, {.keepdims = true}) + i.astype(f32); },
        a);
  });
  check("argmax", [](Array a) { return argmax(a, 1).astype(f32); });
  check("update", [](Array a) {
    return dynamic_update_slice(a, ones({a.shape(0), 3}), {Array(0), Array(9)});
  });
  check("random", [](Array a) { return a + random::uniform(random::key(4), {1, 16}); });
}

TEST(ShardMapUse, CompiledOnce) {
  auto f = jit(over_x([](Array a) { return psum(a, "x"); }, P()));
  for (int i = 0; i < 3; ++i) f(counting({8}));
  EXPECT_EQ(f.trace_count(), 1);
  f(counting({16}));
  EXPECT_EQ(f.trace_count(), 2);
}

TEST(ShardMapUse, FromSeveralThreads) {
  std::vector<std::thread> threads;
  std::vector<float> results(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const MeshScope scope(mesh_of({{"x", t % 2 ? 4 : 8}}));
      auto f = shard_map([&](Array a) { return psum(sum(a) + float(axis_size("x")), "x"); },
                         {.in_specs = P("x"), .out_specs = P()});
      for (int i = 0; i < 5; ++i) results[std::size_t(t)] = f(counting({8})).item<float>();
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(results, (std::vector<float>{92, 44, 92, 44}));
}

TEST(ShardMapUse, MisuseOfCollectivesIsExplained) {
  const Array x = counting({8});
  auto run = [&](auto body) { over_x(body)(x); };
  expect_error<ValueError>([&] { run([](Array a) { return psum(a, AxisNames({})); }); },
                           {"psum over no axes", kNear});
  expect_error<ValueError>([&] { run([](Array a) { return pmax(a, "i"); }); },
                           {"pmax over 'i'", "the mesh has no axis 'i'; it has 'x'", kNear});
  expect_error<ValueError>([&] { run([](Array a) {
                                   return psum(a, {"x", "x"});
                                 }); },
                           {"'x' stands twice"});
  auto groups = [&](AxisIndexGroups g) {
    run([=](Array a) { return psum(a, "x", {.axis_index_groups = g}); });
  };
  expect_error<ValueError>([&] { groups({{0, 1, 2}, {3, 4}}); }, {"of one size, got 3 and 2"});
  expect_error<ValueError>(
      [&] {
        groups({{0, 1}, {2, 3}});
      },
      {"must cover all indices exactly once", "4 of the 8"});
  expect_error<ValueError>([&] { groups({{0, 1}, {1, 3}}); }, {"position 1 twice"});
  expect_error<ValueError>([&] { groups({{0, 8}}); }, {"position 8, outside of 0 to 7"});
  groups({{0, 1, 2, 3}, {4, 5, 6, 7}});
  expect_error<ValueError>([&] { run([](Array a) { return pbroadcast(a, "x", 8); }); },
                           {"source 8 is outside of 0 to 7"});
  expect_error<ValueError>(
      [&] { run([](Array a) {
              return pshuffle(a, "x", {0, 1, 2, 3, 4, 5, 6, 6});
            }); },
      {"is no permutation of 0 to 7"});
  auto shuffled = over_x([](Array a) { return pshuffle(a, "x", {7, 6, 5, 4, 3, 2, 1, 0}); });
  expect_close(floats(shuffled(x)), {7, 6, 5, 4, 3, 2, 1, 0});
  expect_close(floats(over_x([](Array a) { return pbroadcast(a, "x", 5); }, P())(x)), {5});
  auto grouped = over_x([](Array a) {
    return pmean(a, "x", {.axis_index_groups = {{0, 7}, {1, 6}, {2, 5}, {3, 4}}});
  });
  expect_close(floats(grouped(x)), std::vector<float>(8, 3.5f));
  expect_error<ShapeError>([&] { run([](Array a) { return psum_scatter(a, "x"); }); },
                           {"psum_scatter", "f32[1]", "must be 8"});
}

}  // namespace
}  // namespace tessera::testing
