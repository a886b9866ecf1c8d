// SPDX-License-Identifier: Apache-2.0
// vmap with names: collectives over the batch, the batch over mesh axes, rules of custom_vmap.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera {
namespace {

using testing::counting;
using testing::expect_close;
using testing::expect_error;
using testing::floats;
using testing::kNear;

using Function = std::function<Array(Array)>;

/// What f does for the entries of x: f's axis "i" is the batch.
Array over_batch(const Function& f, const Array& x) { return vmap(f, {.axis_name = "i"})(x); }

// ------------------------------------------------------------------ collectives over the batch

TEST(VmapAxis, IsWhatDevicesOfAMeshDo) {
  const Mesh mesh = make_mesh({{"i", 8}});
  const std::vector<std::pair<std::string, Function>> functions = {
      {"psum", [](Array x) { return psum(x, "i"); }},
      {"psum of a number", [](Array x) { return x * psum(2.5, "i"); }},
      {"psum of what all share", [](Array x) { return x + psum(ones({3}), "i"); }},
      {"pmean", [](Array x) { return x - pmean(x, "i"); }},
      {"pmax", [](Array x) { return x - pmax(x, "i"); }},
      {"pmin", [](Array x) { return pmin(sin(x), "i"); }},
      {"axis_index", [](Array x) { return x * (axis_index("i") + 1); }},
      {"axis_size", [](Array x) { return x * float(axis_size("i")); }},
      {"all_gather", [](Array x) { return all_gather(x, "i"); }},
      {"all_gather along the end", [](Array x) { return all_gather(x, "i", {.axis = -1}); }},
      {"all_gather tiled", [](Array x) { return all_gather(x, "i", {.axis = 1, .tiled = true}); }},
      {"psum_scatter", [](Array x) { return psum_scatter(x, "i"); }},
      {"psum_scatter tiled",
       [](Array x) {
         return psum_scatter(concatenate({x, x}), "i", {.tiled = true});
       }},
      {"psum_scatter of what all share",
       [](Array x) { return psum_scatter(counting({8}), "i") + x; }},
      {"all_to_all", [](Array x) { return all_to_all(x, "i", 0, 1); }},
      {"all_to_all tiled", [](Array x) { return all_to_all(x, "i", 0, 1, true); }},
      {"pswapaxes", [](Array x) { return pswapaxes(x, "i", 0); }},
      {"a rotation",
       [](Array x) {
         return ppermute(x, "i", {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 0}});
       }},
      {"a shift with zeros",
       [](Array x) {
         return ppermute(x, "i", {{2, 3}, {3, 4}, {6, 1}});
       }},
      {"pshuffle",
       [](Array x) {
         return pshuffle(x, "i", {3, 1, 4, 0, 5, 2, 7, 6});
       }},
      {"pbroadcast", [](Array x) { return x + pbroadcast(x, "i", 5); }},
      {"in a scan",
       [](Array x) {
         const auto [last, all] = scan(
             [](Array c, Array row) { return std::pair(c + psum(row, "i"), pmax(c * row, "i")); },
             zeros({3}) + index(x, {0}), x);
         return last + sum(all, 0);
       }},
      {"in a loop",
       [](Array x) {
         return fori_loop(
             0, 3, [](Array, Array v) { return v * 0.5f + pmean(v, "i"); }, x);
       }},
  };
  const Array x = counting({8, 8, 3}, 0.25f);
  for (const auto& [name, f] : functions) {
    SCOPED_TRACE(name);
    const auto on_devices =
        shard_map([f = f](Array v) { return expand_dims(f(index(v, {0})), 0); },
                  {.mesh = mesh, .in_specs = {P("i")}, .out_specs = {P("i")}, .check_vma = false});
    expect_close(over_batch(f, x), on_devices(x));
    expect_close(jit([f = f](Array v) { return over_batch(f, v); })(x), over_batch(f, x));
  }
}

TEST(VmapAxis, BranchesThatDifferBothSeeAllEntries) {
  const Array x = counting({4});
  const Function f = [](Array v) {
    return cond(
        v > 1.0f, [](Array w) { return psum(w, "i"); }, [](Array w) { return -w; }, v);
  };
  expect_close(floats(over_batch(f, x)), {0, -1, 6, 6});
}

TEST(VmapAxis, ResultsThatAllShareNeedNoBatch) {
  const Array x = counting({4});
  const auto total =
      vmap([](Array v) { return psum(v, "i"); }, {.out_axes = nullptr, .axis_name = "i"});
  EXPECT_EQ(total(x).shape(), std::vector<std::int64_t>{});
  EXPECT_EQ(total(x).item<float>(), 6);
  const auto places = vmap([](Array) { return axis_index("i"); }, {.axis_name = "i"});
  EXPECT_EQ(places(x).to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 1, 2, 3}));
  const auto alone = vmap([] { return axis_index("i"); }, {.axis_name = "i", .axis_size = 3});
  EXPECT_EQ(alone().to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 1, 2}));
}

TEST(VmapAxis, NestsAndTakesSeveralNames) {
  const Array x = counting({2, 3, 6});
  const auto both = [&](const Function& f) {
    return vmap(vmap(f, {.axis_name = "j"}), {.axis_name = "i"})(x);
  };
  const Array over_all = both([](Array v) { return psum(v, {"i", "j"}); });
  expect_close(over_all, broadcast_to(sum(x, {0, 1}), {2, 3, 6}));
  expect_close(both([](Array v) { return psum(v, "i"); }),
               broadcast_to(sum(x, 0, {.keepdims = true}), {2, 3, 6}));
  EXPECT_EQ(both([](Array) {
              return axis_index({"i", "j"});
            }).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5}));
  const Array gathered = both([](Array v) { return all_gather(v, {"i", "j"}); });
  expect_close(index(gathered, {1, 2}), reshape(x, {6, 6}));
  const Array scattered = both([](Array v) { return psum_scatter(v, {"i", "j"}); });
  expect_close(reshape(scattered, {6}), sum(x, {0, 1}));
  // The inner of two axes of one name is meant.
  expect_close(
      vmap(vmap([](Array v) { return psum(v, "i"); }, {.axis_name = "i"}), {.axis_name = "i"})(x),
      broadcast_to(sum(x, 1, {.keepdims = true}), {2, 3, 6}));
}

TEST(VmapAxis, HasDerivatives) {
  const Array x = counting({4}, 1) + 1.0f;
  // As JAX has them: a sum that all share is one of each entry's own.
  const auto each = [&](auto f) { return vmap(grad(f), {.axis_name = "i"})(x); };
  expect_close(floats(each([](Array v) { return psum(v * v, "i"); })), {8, 16, 24, 32});
  expect_close(floats(each([](Array v) { return pmean(v * v, "i"); })), {2, 4, 6, 8});
  expect_close(floats(each([](Array v) { return v * psum(v * v, "i"); })), {50, 70, 90, 110});
  const auto shared = vmap(grad([](Array w, Array v) { return w * psum(w * w, "i") * v; }),
                           {.in_axes = axes_tree(nullptr, 0), .axis_name = "i"});
  expect_close(floats(shared(Array(2.0f), x)), {96, 112, 128, 144});
  // Of the whole, too.
  const Function whole = [](Array v) {
    return sum(vmap(
        [](Array e) {
          return e * pmean(sin(e), "i") + ppermute(e, "i", {{1, 0}});
        },
        {.axis_name = "i"})(v));
  };
  const Array g = grad(whole)(x);
  for (int k = 0; k < 4; ++k) {
    const float h = 1e-2f;
    const Array step = where(arange(4) == k, h, 0.0f);
    const float slope = (whole(x + step).item<float>() - whole(x - step).item<float>()) / (2 * h);
    EXPECT_NEAR(index(g, {k}).item<float>(), slope, 2e-2f);
  }
}

TEST(VmapAxis, BindsInsideOfJitRematAndCustomRules) {
  const Array x = counting({4}) + 1.0f;
  const auto inner = jit([](Array v) { return psum(v, "i"); });
  expect_close(floats(vmap(inner, {.axis_name = "i"})(x)), {10, 10, 10, 10});
  // The same function for an axis of another size.
  expect_close(floats(jit([&](Array v) {
                 const Array a = vmap(inner, {.axis_name = "i"})(v);
                 const Array b = vmap(inner, {.axis_name = "i"})(index(v, {Slice{0, 2}}));
                 return concatenate({a, b});
               })(x)),
               {10, 10, 10, 10, 3, 3});
  const auto again = remat([](Array v) { return sin(psum(v, "i")) * v; });
  const auto plain = [](Array v) { return sin(psum(v, "i")) * v; };
  expect_close(vmap(grad(again), {.axis_name = "i"})(x), vmap(grad(plain), {.axis_name = "i"})(x));
  auto custom = custom_vjp([](Array v) { return v * 2.0f; });
  custom.def_vjp([](Array v) { return std::pair(v * 2.0f, v); },
                 [](Array, Array ct) { return psum(ct, "i"); });
  expect_close(floats(vmap(grad([&](Array v) { return custom(v); }), {.axis_name = "i"})(x)),
               {4, 4, 4, 4});
}

TEST(VmapAxis, StandsBesideAxesOfAMesh) {
  const Mesh mesh = make_mesh({{"x", 8}});
  const Array x = counting({3, 16});
  const auto f = shard_map(
      [](Array v) {
        return vmap(
            [](Array e) {
              return e - pmean(psum(e, {"x", "i"}), "i");
            },
            {.axis_name = "i"})(v);
      },
      {.mesh = mesh, .in_specs = {P(nullptr, "x")}, .out_specs = {P(nullptr, "x")}});
  const Array columns = sum(reshape(x, {3, 8, 2}), {0, 1});
  expect_close(f(x), x - broadcast_to(reshape(broadcast_to(columns, {8, 2}), {16}), {3, 16}));
  // A vmap around a shard_map, whose body names the batch.
  const auto around = vmap(
      [&](Array e) {
        return shard_map(
            [](Array v) {
              return v * psum(sum(v), {"x", "i"});
            },
            {.mesh = mesh, .in_specs = {P("x")}, .out_specs = {P("x")}})(e);
      },
      {.axis_name = "i"});
  expect_close(around(x), x * sum(x));
  expect_close(grad([&](Array v) { return sum(around(v)); })(x),
               broadcast_to(2.0f * sum(x), {3, 16}));
}

TEST(VmapAxis, RefusesWhatIsNotBound) {
  const Array x = counting({4});
  const auto call = [&](const Function& f) { over_batch(f, x); };
  expect_error<ValueError>([&] { call([](Array v) { return psum(v, "k"); }); },
                           {"psum over 'k'", "vmaps name 'i' of 4", kNear});
  expect_error<ValueError>([&] { psum(x, "i"); }, {"psum over 'i'", "axis_name of a vmap", kNear});
  expect_error<ValueError>([&] { call([](Array v) {
                                   return psum(v, {"i", "i"});
                                 }); },
                           {"'i' stands twice", kNear});
  expect_error<ValueError>([&] { call([](Array v) { return pvary(v, "i"); }); },
                           {"pvary over 'i'", "a vmap names its batch so", kNear});
  expect_error<NotImplementedError>(
      [&] { call([](Array v) {
              return psum(v, "i", {.axis_index_groups = {{0, 1}, {2, 3}}});
            }); },
      {"psum over 'i'", "axis_index_groups are for axes of a mesh", kNear});
  expect_error<ValueError>([&] { call([](Array v) {
                                   return ppermute(v, "i", {{0, 4}});
                                 }); },
                           {"ppermute over 'i'", "(0, 4) is outside of 0 to 3", kNear});
  expect_error<NotImplementedError>(
      [&] {
        vmap(vmap(
                 [](Array v) {
                   return ppermute(v, {"i", "j"}, {{0, 1}});
                 },
                 {.axis_name = "j"}),
             {.axis_name = "i"})(counting({2, 2}));
      },
      {"ppermute over ('i', 'j')", "valid: one axis", kNear});
  expect_error<ShapeError>(
      [&] {
        over_batch([](Array v) { return psum_scatter(v, "i"); }, counting({4, 3}));
      },
      {"psum_scatter over 'i'", "must be 4", kNear});
}

// ------------------------------------------------------------------ the batch on a mesh

TEST(SpmdAxisName, ShardsTheBatchOfConstraints) {
  const Mesh mesh = make_mesh({{"batch", 4}, {"model", 2}});
  const Array x = counting({8, 6});
  const auto f = jit([&](Array v) {
    return vmap(
        [&](Array e) {
          return with_sharding_constraint(e * 2.0f, NamedSharding(mesh, P("model")));
        },
        {.spmd_axis_name = "batch"})(v);
  });
  const Array y = f(x);
  EXPECT_EQ(y.sharding(), Sharding(NamedSharding(mesh, P("batch", "model"))));
  expect_close(y, x * 2.0f);
}

TEST(SpmdAxisName, ShardsTheBatchOfShardMaps) {
  const Mesh mesh = make_mesh({{"batch", 4}, {"model", 2}});
  const Array x = counting({8, 6});
  const auto body = [](Array e) { return e - pmean(sum(e), "model"); };
  const auto f = [&](const char* axis) {
    return jit([&, axis](Array v) {
      const auto g =
          vmap(shard_map(body, {.mesh = mesh, .in_specs = {P("model")}, .out_specs = {P("model")}}),
               VmapOptions{.spmd_axis_name =
                               axis ? AxisNames(axis) : AxisNames(std::vector<std::string>{})});
      return g(v);
    });
  };
  const Array y = f("batch")(x);
  EXPECT_EQ(y.sharding(), Sharding(NamedSharding(mesh, P("batch", "model"))));
  expect_close(y, f(nullptr)(x));
  const auto text = f("batch").lower(x).as_text();
  EXPECT_NE(text.find("f32[2,3]"), std::string::npos) << text;  // 8 / 4 entries, 6 / 2 each
}

TEST(SpmdAxisName, RefusesAxesThatDontFit) {
  const Mesh mesh = make_mesh({{"batch", 4}, {"model", 2}});
  const auto f = [&](const char* axis) {
    vmap([&](Array e) { return with_sharding_constraint(e, NamedSharding(mesh, P("model"))); },
         {.spmd_axis_name = axis})(counting({8, 6}));
  };
  expect_error<ValueError>([&] { f("rows"); },
                           {"spmd_axis_name 'rows'", "it has 'batch', 'model'", kNear});
  expect_error<ValueError>([&] { f("model"); }, {"names 'model'", "an axis holds one dim", kNear});
  expect_error<ValueError>(
      [&] {
        vmap(shard_map([](Array e) { return e; },
                       {.mesh = mesh, .in_specs = {P("model")}, .out_specs = {P("model")}}),
             {.spmd_axis_name = "batch"})(counting({6, 6}));
      },
      {"6 entries", "'batch', 4 devices", kNear});
}

// ------------------------------------------------------------------ custom_vmap

TEST(CustomVmap, UsesItsRule) {
  std::vector<bool> told;
  std::int64_t size = 0;
  auto f = custom_vmap([](Array a, Array x) { return matmul(a, x); });
  f.def_vmap([&](const BatchInfo& batch, Array a, Array x) {
    told = batch.in_batched;
    size = batch.axis_size;
    return std::pair(matmul(x, transpose(a)) + 1000.0f, true);
  });
  const Array a = counting({2, 3}), xs = counting({5, 3});
  expect_close(f(a, index(xs, {1})), matmul(a, index(xs, {1})));  // no batch, no rule
  const auto each = vmap([&](Array x) { return f(a, x); });
  expect_close(each(xs), matmul(xs, transpose(a)) + 1000.0f);
  EXPECT_EQ(told, (std::vector<bool>{false, true}));
  EXPECT_EQ(size, 5);
  expect_close(jit(each)(xs), each(xs));
}

TEST(CustomVmap, TellsWhichResultsHoldTheBatch) {
  auto f = custom_vmap([](Array x, Array y) { return std::pair(x * 2.0f, y + 1.0f); });
  f.def_vmap([](const BatchInfo&, Array x, Array y) {
    return std::pair(std::pair(x * 2.0f, y + 1.0f), std::vector<bool>{true, false});
  });
  const auto g =
      vmap([&](Array x) { return f(x, Array(3.0f)); }, {.out_axes = axes_tree(0, nullptr)});
  const auto [a, b] = g(counting({4}));
  expect_close(floats(a), {0, 2, 4, 6});
  EXPECT_EQ(b.shape(), std::vector<std::int64_t>{});
  EXPECT_EQ(b.item<float>(), 4);
}

TEST(CustomVmap, NestsAndHasDerivatives) {
  auto f = custom_vmap([](Array x) { return sin(x); });
  f.def_vmap([](const BatchInfo&, Array x) { return sin(x); });
  const Array x = counting({2, 3}, 0.3f);
  expect_close(vmap(vmap(f))(x), sin(x));
  expect_close(grad([&](Array v) { return sum(vmap(f)(v)); })(x), cos(x));
  expect_close(vmap(vmap(grad(f)))(x), cos(x));
  const auto [y, dy] = jvp(f, std::tuple(x), std::tuple(ones({2, 3})));
  expect_close(dy, cos(x));
}

TEST(CustomVmap, OneEntryAfterTheOther) {
  const auto f = sequential_vmap([](Array a, Array x) { return tanh(matmul(a, x)); });
  const Array a = counting({3, 3}, 0.1f), xs = counting({4, 3}, 0.2f);
  const auto each = vmap([&](Array x) { return f(a, x); });
  expect_close(each(xs), tanh(matmul(xs, transpose(a))));
  const std::string text = jit(each).lower(xs).as_text();
  EXPECT_NE(text.find(" while("), std::string::npos) << text;
}

TEST(CustomVmap, RefusesWrongRules) {
  const Array x = counting({4});
  const auto with = [&](auto rule) {
    auto f = custom_vmap([](Array v) { return v * 2.0f; }, "twice");
    f.def_vmap(rule);
    vmap(f)(x);
  };
  expect_error<TypeError>([&] { with([](const BatchInfo&, Array v) { return sum(v); }); },
                          {"result 0 of the rule of twice", "holds the batch of 4 entries",
                           "is f32[] and must be f32[4]", kNear});
  expect_error<TypeError>(
      [&] { with([](const BatchInfo&, Array v) { return std::pair(v, false); }); },
      {"doesn't hold the batch", "is f32[4] and must be f32[]", kNear});
  expect_error<TypeError>(
      [&] {
        with([](const BatchInfo&, Array v) { return std::pair(v, std::vector<bool>{true, true}); });
      },
      {"says of 2 arrays", "gives 1", kNear});
  auto none = custom_vmap([](Array v) { return v; });
  expect_error<TypeError>([&] { none(x); }, {"custom_vmap", "def_vmap", kNear});
  expect_error<ValueError>(
      [&] {
        vmap([](Array v) {
          auto f = custom_vmap([v](Array w) { return v * w; }, "captor");
          f.def_vmap([](const BatchInfo&, Array w) { return w; });
          return f(v);
        })(x);
      },
      {"captor captures an array, f32[]", "pass it as an argument", kNear});
}

}  // namespace
}  // namespace tessera
