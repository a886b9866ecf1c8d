// SPDX-License-Identifier: Apache-2.0
// custom_partitioning: callbacks that take trees, are given by position, capture arrays or see
// uneven shards.
#include <tessera/custom_partitioning.h>

#include <limits>
#include <map>
#include <optional>

#include <tessera/collectives.h>
#include <tessera/jit.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/products.h>
#include <tessera/ops/reductions.h>
#include <tessera/placement.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

template <class T>
struct PartLayer {
  T w, b;
};
template <class T>
struct PartModel {
  std::vector<PartLayer<T>> layers;
  std::map<std::string, T> extra;
  std::optional<T> scale, missing;
};
template <class T>
using PartOutputs = std::pair<T, std::vector<T>>;

PartOutputs<Array> run_model(const PartModel<Array>& m, const Array& x) {
  std::vector<Array> all{x};
  for (const PartLayer<Array>& l : m.layers) all.push_back(matmul(all.back(), l.w) + l.b);
  return {all.back() * *m.scale + m.extra.at("shift"), all};
}

PartModel<Array> some_model() {
  return {{{counting({4, 4}, 0.125f), counting({4})}, {counting({4, 4}, 0.25f), counting({4}, 2)}},
          {{"shift", counting({4}, 3)}},
          Array(0.5f),
          std::nullopt};
}

TEST(CustomPartitioningTrees, CallbacksTakeTheTreesOfArgumentsAndResults) {
  const Mesh mesh = mesh_of({{"x", 8}});
  int partitions = 0;
  auto f =
      custom_partitioning([](PartModel<Array> m, Array x) { return run_model(m, x); }, "model");
  using Args = std::tuple<PartModel<ShapeInfo>, ShapeInfo>;
  f.def_partition(
      {.partition =
           [&](const Mesh& m, const Args& args, const PartOutputs<ShapeInfo>& results) {
             ++partitions;
             const auto& [model, x] = args;
             EXPECT_EQ(model.layers.size(), 2u);
             EXPECT_EQ(model.layers[1].w.shape, (std::vector<std::int64_t>{4, 4}));
             EXPECT_EQ(model.layers[1].b.shape, (std::vector<std::int64_t>{4}));
             EXPECT_EQ(model.extra.at("shift").dtype, f32);
             EXPECT_TRUE(model.scale.has_value());
             EXPECT_FALSE(model.missing.has_value());
             EXPECT_EQ(NamedSharding(x.sharding).spec(), P("x", nullptr));
             EXPECT_EQ(results.second.size(), 3u);
             EXPECT_EQ(results.second[2].shape, (std::vector<std::int64_t>{16, 4}));
             EXPECT_EQ(NamedSharding(results.first.sharding).spec(), P("x", nullptr));
             // The document's jax.tree.map(lambda x: x.sharding, ...).
             const ShardingList suggested = shardings_of(args);
             EXPECT_EQ(suggested.size(), 7u);
             EXPECT_EQ(suggested[6], x.sharding);
             const Sharding whole = NamedSharding(m, P());
             const PartLayer<Sharding> layer{whole, whole};
             return Partition{
                 m,
                 [](PartModel<Array> parameters, Array part) {
                   return run_model(parameters, part);
                 },
                 PartOutputs<Sharding>{x.sharding, {3, x.sharding}},
                 std::tuple(PartModel<Sharding>{{layer, layer}, {{"shift", whole}}, whole, {}},
                            x.sharding)};
           },
       .infer_sharding_from_operands =
           [](const Mesh&, const Args& args, const PartOutputs<ShapeInfo>& results) {
             EXPECT_FALSE(results.first.sharding.valid());
             const Sharding rows = std::get<1>(args).sharding;
             return PartOutputs<Sharding>{rows, std::vector<Sharding>(results.second.size(), rows)};
           },
       .propagate_user_sharding =
           [](const Mesh&, const PartOutputs<ShapeInfo>& results) {
             return shardings_of(results);
           }});
  const PartModel<Array> model = some_model();
  const Array x = counting({16, 4});
  const PartOutputs<Array> want = run_model(model, x);
  const PartOutputs<Array> have =
      jit([&](PartModel<Array> m, Array a) { return f(m, a); })(model, put(x, mesh, P("x")));
  expect_close(have.first, want.first);
  ASSERT_EQ(have.second.size(), 3u);
  expect_close(have.second[2], want.second[2]);
  EXPECT_EQ(have.first.sharding(), NamedSharding(mesh, P("x")));
  EXPECT_EQ(partitions, 1);
}

TEST(CustomPartitioningTrees, TheOnlyArgumentAndResultAreTakenThemselves) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const Array x = counting({8, 2});
  // One array, one sharding: no lists.
  auto twice = custom_partitioning([](Array a) { return a * 2; }, "twice");
  twice.def_partition(
      {.partition =
           [](const Mesh& m, const ShapeInfo& arg, const ShapeInfo& result) {
             EXPECT_EQ(arg.shape, result.shape);
             return Partition{m, [](Array a) { return a * 2; }, result.sharding, arg.sharding};
           },
       .infer_sharding_from_operands = [](const Mesh&, ShapeInfo arg,
                                          ShapeInfo) { return arg.sharding; },
       .propagate_user_sharding = [](const Mesh&,
                                     const ShapeInfo& result) { return result.sharding; }});
  expect_close(jit([&](Array a) { return twice(a); })(put(x, mesh, P("x"))), x * 2);
  // So also of a generic function.
  auto generic = custom_partitioning([](auto a) { return a * 3; }, "thrice");
  generic.def_partition(
      {.partition =
           [](const Mesh& m, const ShapeInfo& arg, const ShapeInfos& results) {
             return Partition{m, [](Array a) { return a * 3; }, results[0].sharding, arg.sharding};
           },
       .sharding_rule_fn = [](const Mesh&, auto, auto) { return "i j -> i j"; }});
  expect_close(jit([&](Array a) { return generic(a); })(put(x, mesh, P("x"))), x * 3);
  // A struct, without the tuple around it.
  auto layer = custom_partitioning([](PartLayer<Array> l) { return l.w * l.b; }, "layer");
  layer.def_partition(
      {.partition =
           [](const Mesh& m, const PartLayer<ShapeInfo>& l, const ShapeInfo& result) {
             return Partition{m, [](PartLayer<Array> p) { return p.w * p.b; }, result.sharding,
                              PartLayer<Sharding>{l.w.sharding, l.b.sharding}};
           },
       .sharding_rule = "i j, i j -> i j"});
  expect_close(jit([&](Array a) {
                 return layer(PartLayer<Array>{a, a});
               })(put(x, mesh, P("x"))),
               x * x);
}

TEST(CustomPartitioningTrees, OneShapeInfoOfSeveralIsAnError) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = custom_partitioning([](auto a, auto b) { return a + b; }, "pair");
  f.def_partition({.partition =
                       [](const Mesh& m, const ShapeInfo& arg, const ShapeInfos&) {
                         return Partition{m, [](Array a, Array b) { return a + b; }, arg.sharding,
                                          arg.sharding};
                       },
                   .sharding_rule = "i, i -> i"});
  const Array x = put(counting({8}), mesh, P("x"));
  expect_error<TypeError>([&] { jit([&](Array a) { return f(a, a); })(x); },
                          {"'pair'", "one ShapeInfo", "2", "ShapeInfos", kNear});
}

/// A callable static argument.
struct StatedPower {
  int n = 1;
  std::vector<std::string> notes;
  bool operator==(const StatedPower&) const = default;
};

TEST(CustomPartitioningTrees, StaticArgumentsAreAnyComparableValues) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto body = [](StatedPower p, Array x, std::optional<double> shift) {
    Array y = x;
    for (int i = 1; i < p.n; ++i) y = y * x;
    return shift ? y + *shift : y;
  };
  std::vector<int> seen;
  auto f = custom_partitioning(body, static_argnums<0, 2>, "power");
  f.def_partition({.partition =
                       [&, body](const StatedPower& p, std::optional<double> shift, const Mesh& m,
                                 const ShapeInfo& arg, const ShapeInfo& result) {
                         seen.push_back(p.n);
                         return Partition{m, [=](Array a) { return body(p, a, shift); },
                                          result.sharding, arg.sharding};
                       },
                   .infer_sharding_from_operands = [](const StatedPower&, std::optional<double>,
                                                      const Mesh&, const ShapeInfo& arg,
                                                      const ShapeInfo&) { return arg.sharding; }});
  auto g = jit([&](Array a, StatedPower p) { return f(p, a, 0.5); }, static_argnums<1>);
  const Array x = counting({8}, 0.5f), parts = put(x, mesh, P("x"));
  expect_close(g(parts, StatedPower{2, {"a"}}), x * x + 0.5);
  expect_close(g(parts, StatedPower{3, {"a"}}), x * x * x + 0.5);
  expect_close(g(parts, StatedPower{2, {"a"}}), x * x + 0.5);
  EXPECT_EQ(seen, (std::vector<int>{2, 3}));
}

TEST(CustomPartitioningTrees, CallbacksByPosition) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  int inferred = 0, suggested = 0, named = 0;
  const auto partition = [&](const Mesh& m, const ShapeInfo& arg, const ShapeInfo& result) {
    named += NamedSharding::is(arg.sharding);
    return Partition{m, [](Array a) { return a * 2; }, result.sharding, result.sharding};
  };
  const auto infer = [&](const Mesh&, const ShapeInfos& args, const ShapeInfos&) {
    ++inferred;
    return args[0].sharding;
  };
  const auto propagate = [&](const Mesh&, const ShapeInfo& result) {
    ++suggested;
    return result.sharding;
  };
  const Array x = counting({8, 8});
  const auto check = [&](auto define, int want_inferred, int want_named) {
    inferred = suggested = named = 0;
    auto f = custom_partitioning([](Array a) { return a * 2; }, "placed");
    define(f);
    auto forward = jit([&](Array a) { return f(a); });
    expect_close(forward(put(x, mesh, P("x"))), x * 2);
    auto backward = jit([&](Array k) {
      return with_sharding_constraint(f(counting({8, 8}) + k), NamedSharding(mesh, P("y")));
    });
    expect_close(backward(put(Array(1.f), mesh, P())), (x + 1) * 2);
    EXPECT_EQ(inferred > 0, want_inferred > 0);
    EXPECT_EQ(named > 0, want_named > 0);
  };
  // The order of the document's summary, and that of JAX's signature.
  check([&](auto& f) { f.def_partition(partition, propagate, infer); }, 1, 1);
  EXPECT_GT(suggested, 0);
  check([&](auto& f) { f.def_partition(partition, infer, propagate); }, 1, 1);
  EXPECT_GT(suggested, 0);
  check([&](auto& f) { f.def_partition(partition, infer); }, 1, 1);
  EXPECT_EQ(suggested, 0);
  check([&](auto& f) { f.def_partition(partition, infer, propagate, false); }, 1, 0);
  // The returned callback is the one that was given.
  auto f = custom_partitioning([](Array a) { return a * 2; }, "placed");
  const ShapeInfo info{{8}, f32, NamedSharding(mesh, P("x"))};
  EXPECT_EQ(f.def_partition(partition)(mesh, {info}, {info}).arg_shardings.size(), 1u);
}

TEST(CustomPartitioningTrees, CapturedArraysAreConstantsOnEachDevice) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const Array x = counting({16}), parts = put(x, mesh, P("x"));
  const auto with = [&](PerDeviceFunction per_device) {
    auto f = custom_partitioning([](Array a) { return a + 1; }, "capturing_parts");
    f.def_partition({.partition =
                         [per_device](const Mesh& m, const ShapeInfo& arg, const ShapeInfo&) {
                           return Partition{m, per_device, arg.sharding, arg.sharding};
                         },
                     .sharding_rule = "i -> i"});
    return jit([f](Array a) { return f(a); })(parts);
  };
  const Array w = put(counting({16}, 0.5f), mesh, P("x")), k = put(Array(3.f), mesh, P());
  const Array elsewhere = device_put(Array(5.f), devices()[3]);
  expect_close(with([k](Array a) { return a + k; }), x + 3);
  expect_close(with([elsewhere](Array a) { return a + elsewhere; }), x + 5);
  // A sharded one is whole, as it is everywhere outside of per-device code.
  expect_close(with([w](Array a) { return a + sum(w); }), x + sum(w));
  expect_close(with([w](Array a) { return jit([w](Array b) { return b * sum(w); })(a); }),
               x * sum(w));
  expect_error<ShapeError>([&] { with([w](Array a) { return a + w; }); }, {"[2]", "[16]", kNear});
}

/// The sum over a dim of uneven shards, the padding of which holds `value`.
Array sum_uneven(const Array& x, const Mesh& mesh, std::vector<std::optional<double>> padding,
                 bool largest = false) {
  const auto reduce = [largest](Array a) { return largest ? max(a) : sum(a); };
  auto total = custom_partitioning(reduce, "total");
  total.def_partition({.partition =
                           [=](const Mesh& m, const ShapeInfo& arg, const ShapeInfo&) {
                             EXPECT_EQ(NamedSharding(arg.sharding).spec(), P("x"));
                             return Partition{
                                 m,
                                 [=](Array a) {
                                   EXPECT_EQ(a.shape(), (std::vector<std::int64_t>{2}));
                                   return largest ? pmax(max(a), "x") : psum(sum(a), "x");
                                 },
                                 NamedSharding(m, P()), arg.sharding, padding};
                           },
                       .sharding_rule = "i ->",
                       .reduction_factors = {"i"}});
  return jit([&](Array a) {
    // Values that the padding has before: those that computing the constraint leaves there.
    return total(with_sharding_constraint(a + 1, NamedSharding(mesh, P("x"))));
  })(device_put(x, NamedSharding(mesh, P())));
}

TEST(CustomPartitioningTrees, PaddingOfUnevenShardsIsOverwrittenOnRequest) {
  const Mesh mesh = mesh_of({{"x", 8}});
  for (int n : {9, 11, 15}) {
    const Array x = counting({n});
    const int padded = 16 - n;
    expect_close(sum_uneven(x, mesh, {0.0}), sum(x + 1));
    expect_close(sum_uneven(x, mesh, {100.0}), sum(x + 1) + 100 * padded);
    const Array low = Array(0) - x.astype(s32) - 5;
    const double none = -std::numeric_limits<double>::infinity();
    EXPECT_EQ(sum_uneven(low, mesh, {none}, true).to_vector<std::int32_t>()[0], -4);
    EXPECT_EQ(sum_uneven(low, mesh, {-none}, true).to_vector<std::int32_t>()[0],
              std::numeric_limits<std::int32_t>::max());
    expect_close(sum_uneven(0 - x - 5, mesh, {none}, true), Array(-4.f));
  }
  expect_error<ValueError>(
      [&] {
        sum_uneven(counting({9}), mesh, {0.0, 1.0, 2.0});
      },
      {"'total'", "3 values of arg_padding", "1 arguments"});
}

}  // namespace
}  // namespace tessera::testing
