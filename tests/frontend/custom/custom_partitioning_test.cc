// SPDX-License-Identifier: Apache-2.0
// custom_partitioning: rules, callbacks, static arguments.
#include <tessera/custom_partitioning.h>

#include <tessera/collectives.h>
#include <tessera/control_flow.h>
#include <tessera/jit.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/fft.h>
#include <tessera/ops/products.h>
#include <tessera/ops/reductions.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

using Shardings = std::vector<Sharding>;

/// The given spec without that of the last dim.
Sharding last_dim_whole(const ShapeInfo& x) {
  const NamedSharding given(x.sharding);
  std::vector<SpecEntry> entries(given.spec().begin(), given.spec().end());
  entries.resize(x.shape.size());
  if (!entries.empty()) entries.back() = SpecEntry();
  return NamedSharding(given.mesh(), PartitionSpec::from_entries(entries));
}

auto make_fft() {
  auto f = custom_partitioning([](Array x) { return fft(x); }, "my_fft");
  f.def_partition({.partition =
                       [](const Mesh& mesh, const ShapeInfos& args, const ShapeInfos&) {
                         const Sharding s = last_dim_whole(args[0]);
                         return Partition{mesh, [](Array x) { return fft(x); }, {s}, {s}};
                       },
                   .infer_sharding_from_operands =
                       [](const Mesh&, const ShapeInfos& args, const ShapeInfos&) {
                         return Shardings{last_dim_whole(args[0])};
                       }});
  return f;
}

Array complex_counting(const std::vector<std::int64_t>& shape) {
  return counting(shape, 0.25f).astype(c64);
}
void expect_same_complex(const Array& have, const Array& want) {
  const auto a = have.to_vector<std::complex<float>>(), b = want.to_vector<std::complex<float>>();
  ASSERT_EQ(a.size(), b.size());
  float largest = 0;
  for (const auto& v : b) largest = std::max(largest, std::abs(v));
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_LE(std::abs(a[i] - b[i]), 1e-5f * (1 + largest));
}

TEST(CustomPartitioning, Behaviour_253_FftKeepsTheRowsApart) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const auto my_fft = make_fft();
  const Array whole = complex_counting({32, 64});
  const Array x = put(whole, mesh, P("x"));
  const NamedSharding rows(mesh, P("x"));
  auto custom =
      jit([&](Array a) { return my_fft(a); }, {.in_shardings = rows, .out_shardings = rows});
  const std::string text =
      custom.lower(x).compile().runtime_executable().hlo_modules()[0].to_string();
  EXPECT_FALSE(has(text, "all-gather")) << text;
  EXPECT_FALSE(has(text, "dynamic-slice")) << text;
  EXPECT_TRUE(has(text, "c64[4,64]")) << text;
  EXPECT_EQ(count(text, " fft("), 1u) << text;
  expect_same_complex(custom(x), fft(whole));
  EXPECT_EQ(custom(x).sharding(), rows);
}

TEST(CustomPartitioning, Behaviour_254_FftAlongTheSplitDimGathers) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const auto my_fft = make_fft();
  const Array whole = complex_counting({512});
  const NamedSharding split(mesh, P("x"));
  auto f = jit([&](Array a) { return my_fft(a); }, {.in_shardings = split, .out_shardings = split});
  const std::string text = f.lower(whole).compile().as_text();
  EXPECT_TRUE(has(text, "all-gather")) << text;
  expect_same_complex(f(device_put(whole, split)), fft(whole));
}

TEST(CustomPartitioning, Behaviour_255_StaticArgumentsComeFirst) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  std::vector<int> seen;
  auto body = [](int scale, Array a, Array b) {
    const Array c = matmul(a, b) * scale;
    return std::pair{c, c + 1};
  };
  auto product = custom_partitioning(body, static_argnums<0>, "product");
  product.def_partition(
      {.partition =
           [&](int scale, const Mesh& m, const ShapeInfos& args, const ShapeInfos& results) {
             seen.push_back(scale);
             EXPECT_EQ(args.size(), 2u);
             EXPECT_EQ(results.size(), 2u);
             EXPECT_EQ(results[1].shape, (std::vector<std::int64_t>{8, 6}));
             EXPECT_EQ(results[1].dtype, f32);
             const NamedSharding a(m, P("x", "y")), b(m, P("y", nullptr)), c(m, P("x", nullptr));
             return Partition{m,
                              [scale](Array l, Array r) {
                                const Array first = where(axis_index("y") == 0, 1.f, 0.f);
                                const Array c = psum(matmul(l, r) * scale, "y");
                                return std::pair{c, c + psum(first, "y")};
                              },
                              {c, c},
                              {a, b}};
           },
       .infer_sharding_from_operands =
           [&](int scale, const Mesh& m, const ShapeInfos& args, const ShapeInfos& results) {
             seen.push_back(scale);
             EXPECT_FALSE(results[0].sharding.valid());
             const NamedSharding a(args[0].sharding);
             const NamedSharding c(m, P(a.spec()[0], nullptr));
             return Shardings{c, c};
           }});
  const Array a = counting({8, 8}), b = counting({8, 6}, 0.5f);
  const auto [want, want_more] = body(3, a, b);
  // Eagerly the plain function runs.
  const auto [eager, eager_more] = product(3, a, b);
  expect_close(eager, want);
  EXPECT_TRUE(seen.empty());
  auto f = jit([&](Array l, Array r) { return product(3, l, r); });
  const auto [c, more] = f(put(a, mesh, P("x", "y")), put(b, mesh, P("y")));
  EXPECT_EQ(seen, (std::vector<int>{3, 3}));
  expect_close(c, want);
  expect_close(more, want_more);
  EXPECT_EQ(c.sharding(), NamedSharding(mesh, P("x")));
  auto g = jit([&](Array l, Array r) { return product(3, l, r); },
               {.in_shardings = tree(NamedSharding(mesh, P("x")), NamedSharding(mesh, P())),
                .out_shardings = NamedSharding(mesh, P("y", nullptr))});
  expect_close(g(a, b).second, want_more);
  EXPECT_EQ(g(a, b).first.sharding(), NamedSharding(mesh, P("y", nullptr)));
}

TEST(CustomPartitioning, Behaviour_256_SuggestionsOfUsers) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  int asked = 0;
  auto twice = custom_partitioning([](Array x) { return x * 2; }, "twice");
  twice.def_partition(
      {.partition =
           [](const Mesh& m, const ShapeInfos&, const ShapeInfos& results) {
             return Partition{
                 m, [](Array x) { return x * 2; }, {results[0].sharding}, {results[0].sharding}};
           },
       .infer_sharding_from_operands =
           [](const Mesh&, const ShapeInfos& args, const ShapeInfos&) {
             return Shardings{args[0].sharding};
           },
       .propagate_user_sharding =
           [&](const Mesh&, const ShapeInfos& results) {
             ++asked;
             EXPECT_TRUE(results[0].sharding.valid());
             return Shardings{results[0].sharding};
           }});
  auto f = jit([&](Array x) {
    return with_sharding_constraint(twice(x + 1), NamedSharding(mesh, P(nullptr, "y")));
  });
  const Array x = counting({8, 8});
  expect_close(f(put(x, mesh, P("x"))), (x + 1) * 2);
  EXPECT_EQ(f(put(x, mesh, P("x"))).sharding(), NamedSharding(mesh, P(nullptr, "y")));
  // Nothing is known of the operand: the user's wish comes through.
  auto g = jit([&](Array k) {
    return with_sharding_constraint(twice(counting({8, 8}) + k), NamedSharding(mesh, P("y")));
  });
  expect_close(g(put(Array(1.f), mesh, P())), (x + 1) * 2);
  EXPECT_GT(asked, 0);
}

TEST(CustomPartitioning, Behaviour_257_PartitionOverridesSuggestions) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto cumulate = custom_partitioning([](Array x) { return cumsum(x, 0); }, "cumulate");
  cumulate.def_partition(
      {.partition =
           [](const Mesh& m, const ShapeInfos& args, const ShapeInfos&) {
             EXPECT_EQ(NamedSharding(args[0].sharding).spec(), P("x"));
             const NamedSharding whole(m, P());
             return Partition{m, [](Array x) { return cumsum(x, 0); }, {whole}, {whole}};
           },
       .infer_sharding_from_operands =
           [](const Mesh&, const ShapeInfos& args, const ShapeInfos&) {
             return Shardings{args[0].sharding};
           }});
  const NamedSharding split(mesh, P("x"));
  auto f = jit([&](Array x) { return cumulate(x) * 2; }, {.out_shardings = split});
  const Array x = counting({16});
  const Array y = f(device_put(x, split));
  EXPECT_EQ(y.sharding(), split);
  expect_close(y, cumsum(x, 0) * 2);
  const std::string text = f.lower(device_put(x, split)).compile().as_text();
  EXPECT_EQ(count(text, " all-gather("), 1u) << text;
}

/// x → x, with the sharding of its operand, by this per-device function.
auto identity_with(PerDeviceFunction per_device) {
  auto f = custom_partitioning([](Array x) { return x + 0; }, "identity");
  f.def_partition({.partition =
                       [per_device](const Mesh& m, const ShapeInfos& args, const ShapeInfos&) {
                         return Partition{m, per_device, {args[0].sharding}, {args[0].sharding}};
                       },
                   .infer_sharding_from_operands =
                       [](const Mesh&, const ShapeInfos& args, const ShapeInfos&) {
                         return Shardings{args[0].sharding};
                       }});
  return f;
}

TEST(CustomPartitioning, Behaviour_258_PartsMustHaveTheDeclaredTypes) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const Array x = put(counting({16, 2}), mesh, P("x"));
  auto run = [&](PerDeviceFunction per_device) {
    return [&, per_device] { jit([&](Array a) { return identity_with(per_device)(a); })(x); };
  };
  expect_error<ShapeError>(
      run([](Array a) { return sum(a, 0); }),
      {"'identity'", "f32[2]", "f32[16,2]", "f32[2,2]", "custom_partitioning_test.cc"});
  expect_error<ShapeError>(run([](Array a) { return a.astype(s32); }), {"s32[2,2]", "f32[2,2]"});
  expect_error<TypeError>(run([](Array a) {
                            return std::pair{a, a};
                          }),
                          {"'identity'", "2 arrays", "1"});
  expect_error<TypeError>(
      run([](Array a, Array) { return a; }),
      {"per-device function", "2 arguments", "1", "custom_partitioning_test.cc"});
  expect_error<TypeError>(run([](std::vector<Array> a) { return a[0]; }),
                          {"argument 0", "another type"});
  expect_error<ValueError>(run(PerDeviceFunction()), {"'identity'", "no per-device function"});
}

TEST(CustomPartitioning, Behaviour_259_NestedJitPerDevice) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto helper = jit([](Array a) { return a * 2 - a; });
  auto f = identity_with([helper](Array a) { return helper(helper(a)) + 0 * psum(a, "x"); });
  const Array x = counting({16});
  expect_close(jit([&](Array a) { return f(a); })(put(x, mesh, P("x"))), x);
}

TEST(CustomPartitioning, Behaviour_260_ScanWithCollectivesPerDevice) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f =
      custom_partitioning([](Array x) { return x + 3 * sum(x, 0, {.keepdims = true}); }, "scanned");
  f.def_partition(
      {.partition =
           [](const Mesh& m, const ShapeInfos& args, const ShapeInfos&) {
             auto per_device = [](Array a) {
               return scan(
                          [&](Array c, Array k) {
                            return std::pair{c + psum(sum(a, 0, {.keepdims = true}), "x") * k, k};
                          },
                          a, array<float>({1, 0, 2}))
                   .first;
             };
             return Partition{m, per_device, {args[0].sharding}, {args[0].sharding}};
           },
       .sharding_rule = "i j -> i j"});
  const Array x = counting({8, 3});
  auto g = jit([&](Array a) { return f(a); });
  expect_close(g(put(x, mesh, P("x"))), f(x));
  const std::string text = g.lower(put(x, mesh, P("x"))).compile().as_text();
  EXPECT_TRUE(has(text, " while(")) << text;
  EXPECT_TRUE(has(text, " all-reduce(")) << text;
}

TEST(CustomPartitioning, Behaviour_261_ScalarResults) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  auto total = custom_partitioning([](Array x) { return sum(x); }, "total");
  total.def_partition({.partition =
                           [](const Mesh& m, const ShapeInfos& args, const ShapeInfos& results) {
                             EXPECT_TRUE(results[0].shape.empty());
                             return Partition{m,
                                              [](Array a) {
                                                return psum(sum(a), {"x", "y"});
                                              },
                                              {NamedSharding(m, P())},
                                              {args[0].sharding}};
                           },
                       .sharding_rule = "i j -> ",
                       .reduction_factors = {"i", "j"}});
  const Array x = put(counting({8, 8}), mesh, P("x", "y"));
  EXPECT_FLOAT_EQ(jit([&](Array a) { return total(a); })(x).item<float>(), 63 * 64 / 2);
}

TEST(CustomPartitioning, Behaviour_262_NoMeshInScope) {
  // The mesh comes from the arguments, with its own order of devices and its names.
  std::vector<Device> reversed = devices();
  std::reverse(reversed.begin(), reversed.end());
  const Mesh mesh(reversed, {4, 2}, {"a", "b"});
  Mesh seen;
  auto f = custom_partitioning([](Array x) { return x * 2; }, "twice");
  f.def_partition(
      {.partition =
           [&](const Mesh& m, const ShapeInfos& args, const ShapeInfos&) {
             seen = m;
             return Partition{
                 m, [](Array a) { return a * 2; }, {args[0].sharding}, {args[0].sharding}};
           },
       .sharding_rule = "i -> i"});
  const Array y = jit([&](Array x) { return f(x); })(put(counting({8}), mesh, P("a")));
  EXPECT_EQ(seen, mesh);
  EXPECT_EQ(y.sharding(), NamedSharding(mesh, P("a")));
  expect_close(y, counting({8}, 2));
}

TEST(CustomPartitioning, Behaviour_263_Trees) {
  using Three = std::tuple<Array, std::vector<Array>>;
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = custom_partitioning(
      [](Three t) {
        return std::map<std::string, Array>{{"sum", std::get<0>(t) + std::get<1>(t)[0]},
                                            {"last", std::get<1>(t)[1]}};
      },
      "three");
  f.def_partition(
      {.partition =
           [](const Mesh& m, const ShapeInfos& args, const ShapeInfos& results) {
             EXPECT_EQ(args.size(), 3u);
             EXPECT_EQ(results.size(), 2u);
             const Sharding s = args[0].sharding;
             return Partition{
                 m,
                 [](Three t) {
                   // Leaves in the order of the map's keys.
                   return std::pair{std::get<1>(t)[1], std::get<0>(t) + std::get<1>(t)[0]};
                 },
                 {s},
                 {s}};
           },
       .sharding_rule = "i j, i j, i j -> i j, i j"});
  const Array x = counting({8, 2});
  auto g = jit([&](Three t) { return f(t); });
  const auto out = g(Three{put(x, mesh, P("x")), {x * 2, x * 3}});
  expect_close(out.at("sum"), x * 3);
  expect_close(out.at("last"), x * 3);
  EXPECT_EQ(out.at("last").sharding(), NamedSharding(mesh, P("x")));
}

TEST(CustomPartitioning, Behaviour_264_RulesMadePerCall) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto body = [](int axis, Array x, Array y) {
    return sum(x, axis, {.keepdims = true}) * 0 + x * y;
  };
  auto f = custom_partitioning(body, static_argnums<0>, "per_call");
  std::vector<int> asked;
  PartitionSpec offered;
  f.def_partition(
      {.partition =
           [&](int, const Mesh& m, const ShapeInfos& args, const ShapeInfos& results) {
             const Sharding s = results[0].sharding;
             offered = NamedSharding(s).spec();
             EXPECT_EQ(NamedSharding(args[0].sharding).spec(), offered);
             return Partition{m, [](Array a, Array b) { return a * b; }, {s}, {s, s}};
           },
       .sharding_rule_fn =
           [&](int axis, const Mesh&, const ShapeInfos& args, const ShapeInfos& results) {
             asked.push_back(axis);
             EXPECT_EQ(args[1].shape, results[0].shape);
             return axis == 0 ? RuleAndOptions{"i j k, i j k -> i j k",
                                               {.need_replication_factors = {"i"}}}
                              : RuleAndOptions{"... k, ... k -> ... k",
                                               {.need_replication_factors = {"k"}}};
           }});
  const Array x = counting({8, 8, 8}, 0.125f);
  for (int axis : {0, 2}) {
    auto g = jit([&](Array a, Array b) { return f(axis, a, b); });
    const Array z = g(put(x, mesh, P(nullptr, nullptr, "x")), x);
    expect_close(z, x * x);
    // A dim that needs replication isn't split in the shardings suggested to partition.
    EXPECT_EQ(offered, axis == 0 ? P(nullptr, nullptr, "x") : P(nullptr, nullptr, nullptr));
  }
  EXPECT_EQ(std::set<int>(asked.begin(), asked.end()), (std::set<int>{0, 2}));
  f.def_partition(
      {.partition =
           [](int, const Mesh& m, const ShapeInfos&, const ShapeInfos&) {
             return Partition{m, [](Array a, Array) { return a; }, {}, {}};
           },
       .sharding_rule_fn = [](int, const Mesh&, const ShapeInfos&,
                              const ShapeInfos&) { return RuleAndOptions{"i j, i -> i"}; }});
  expect_error<ValueError>([&] { jit([&](Array a) { return f(0, a, a); })(put(x, mesh, P("x"))); },
                           {"'i j, i -> i'", "operand 0", "rank 3"});
}

TEST(CustomPartitioning, Behaviour_266_RulesOfReshapes) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  auto body = [](Array a, Array b) { return reshape(a, {16}) + b; };
  auto f = custom_partitioning(body, "merge");
  f.def_partition({.partition =
                       [](const Mesh& m, const ShapeInfos& args, const ShapeInfos& results) {
                         // k is unsplit: only i, the major part of the 4 rows, is split.
                         EXPECT_EQ(NamedSharding(args[0].sharding).spec(), P("x", nullptr));
                         return Partition{m,
                                          [](Array a, Array b) { return reshape(a, {8}) + b; },
                                          {results[0].sharding},
                                          {args[0].sharding, args[1].sharding}};
                       },
                   .sharding_rule = "(i k) j, (i k j) -> (i k j)",
                   .need_replication_factors = {"k"},
                   .factor_sizes = {{"i", 2}, {"k", 2}}});
  const Array a = counting({4, 4}), b = counting({16}, 10);
  auto g = jit([&](Array l, Array r) { return f(l, r); });
  const Array c = g(put(a, mesh, P("x")), put(b, mesh, P("x")));
  EXPECT_EQ(c.sharding(), NamedSharding(mesh, P("x")));
  expect_close(c, body(a, b));
}

TEST(CustomPartitioning, Behaviour_267_PlainInPerDeviceCode) {
  const Mesh mesh = mesh_of({{"x", 8}});
  int partitions = 0;
  auto inner = custom_partitioning([](Array x) { return x * 3; }, "inner");
  inner.def_partition(
      {.partition =
           [&](const Mesh& m, const ShapeInfos& args, const ShapeInfos&) {
             ++partitions;
             return Partition{
                 m, [](Array a) { return a * 3; }, {args[0].sharding}, {args[0].sharding}};
           },
       .sharding_rule = "i -> i"});
  auto outer = identity_with([&](Array a) { return inner(a) - 2 * a; });
  expect_close(jit([&](Array a) { return outer(a); })(put(counting({8}), mesh, P("x"))),
               counting({8}));
  EXPECT_EQ(partitions, 0);
}

TEST(CustomPartitioning, Behaviour_268_PlainOnOneDeviceAndEagerly) {
  const Mesh mesh = mesh_of({{"x", 8}});
  int called = 0;
  auto f = custom_partitioning([](Array x) { return x * 2; }, "twice");
  f.def_partition(
      {.partition =
           [&](const Mesh& m, const ShapeInfos& args, const ShapeInfos&) {
             ++called;
             return Partition{
                 m, [](Array a) { return a * 2; }, {args[0].sharding}, {args[0].sharding}};
           },
       .sharding_rule = "i -> i"});
  const Array x = counting({8});
  expect_close(f(x), x * 2);
  expect_close(jit([&](Array a) { return f(a); })(x), x * 2);
  expect_close(f(put(x, mesh, P("x"))), x * 2);
  EXPECT_EQ(called, 0);
  expect_close(jit([&](Array a) { return f(a); })(put(x, mesh, P("x"))), x * 2);
  EXPECT_EQ(called, 1);
}

TEST(CustomPartitioning, Behaviour_269_CallbacksReturnShardings) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const Mesh other = mesh_of({{"x", 4}});
  const Array x = put(counting({8}), mesh, P("x"));
  auto run = [&](Shardings inferred, Shardings results) {
    return [=] {
      auto f = custom_partitioning([](Array a) { return a; }, "bad");
      f.def_partition(
          {.partition =
               [results](const Mesh& m, const ShapeInfos& args, const ShapeInfos&) {
                 return Partition{m, [](Array a) { return a; }, results, {args[0].sharding}};
               },
           .infer_sharding_from_operands = [inferred](const Mesh&, const ShapeInfos&,
                                                      const ShapeInfos&) { return inferred; }});
      jit([&](Array a) { return f(a); })(x);
    };
  };
  const NamedSharding good(mesh, P("x"));
  expect_error<ValueError>(run({Sharding()}, {good}),
                           {"infer_sharding_from_operands of 'bad'", "no sharding", kNear});
  expect_error<ValueError>(run({good}, {Sharding()}),
                           {"partition of 'bad'", "results", "no sharding"});
  expect_error<ValueError>(run({good, good, good}, {good}), {"3 shardings for 1 results"});
  expect_error<ValueError>(run({NamedSharding(other, P("x"))}, {good}), {"other devices"});
  expect_error<ShardingError>(
      run({NamedSharding(mesh, P(nullptr, "x"))}, {good}),
      {"infer_sharding_from_operands of 'bad'", "rank 1", "PartitionSpec(None, 'x')"});
}

TEST(CustomPartitioning, Behaviour_270_DefinitionsAreChecked) {
  auto f = custom_partitioning([](Array x) { return x; }, "undefined");
  expect_error<ValueError>([&] { f(Array(1)); }, {"'undefined'", "def_partition", kNear});
  expect_error<ValueError>([&] { f.def_partition({}); },
                           {"'undefined'", "partition callback", kNear});
  auto partition = [](const Mesh&, const ShapeInfos&, const ShapeInfos&) { return Partition{}; };
  expect_error<ValueError>(
      [&] {
        f.def_partition({.partition = partition, .factor_sizes = {{"i", 2}}});
      },
      {"'undefined'", "no sharding_rule", kNear});
  expect_error<ValueError>(
      [&] { f.def_partition({.partition = partition, .sharding_rule = "i -> i -> i"}); },
      {"'i -> i -> i'", kNear});
  // The callback comes back, and a second definition replaces the first.
  auto back = f.def_partition({.partition = partition, .sharding_rule = "i -> i"});
  EXPECT_FALSE(back(Mesh(), {}, {}).lower_fn);
}

TEST(CustomPartitioning, Behaviour_271_DecodedShardingsHaveFullRank) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  std::vector<PartitionSpec> specs;
  std::vector<bool> named;
  auto make = [&](bool decode) {
    auto f = custom_partitioning([](Array a) { return a * 1; }, "seen");
    f.def_partition({.partition =
                         [&](const Mesh& m, const ShapeInfos& args, const ShapeInfos&) {
                           const Sharding s = args[0].sharding;
                           named.push_back(NamedSharding::is(s));
                           if (named.back()) specs.push_back(NamedSharding(s).spec());
                           return Partition{m, [](Array a) { return a * 1; }, {s}, {s}};
                         },
                     .infer_sharding_from_operands =
                         [](const Mesh&, const ShapeInfos& args, const ShapeInfos&) {
                           return Shardings{args[0].sharding};
                         },
                     .decode_shardings = decode});
    return f;
  };
  const Array x = counting({8, 8, 8});
  auto decoded = make(true), raw = make(false);
  auto f = jit([&](Array a) { return decoded(a); });
  expect_close(f(put(x, mesh, P(axes("y", "x")))), x);
  expect_close(f(put(x, mesh, P(nullptr, "x"))), x);
  EXPECT_EQ(specs, (std::vector<PartitionSpec>{P(axes("y", "x"), nullptr, nullptr),
                                               P(nullptr, "x", nullptr)}));
  named.clear();
  expect_close(jit([&](Array a) { return raw(a); })(put(x, mesh, P("y"))), x);
  EXPECT_EQ(named, (std::vector<bool>{false}));
  // Without a mesh there is nothing to decode to.
  named.clear();
  const PositionalSharding blocks = PositionalSharding(devices()).reshape({2, 4, 1});
  expect_close(f(device_put(x, ShardingTree(blocks))), x);
  EXPECT_EQ(named, (std::vector<bool>{false}));
}

TEST(CustomPartitioning, Behaviour_288_CallbacksLiveAsLongAsPrograms) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const Array x = put(counting({8}), mesh, P("x"));
  auto make = [&] {
    auto tag = std::make_shared<std::vector<float>>(1, 5.f);
    auto f = custom_partitioning([](Array a) { return a + 5; }, "tagged");
    f.def_partition({.partition =
                         [tag](const Mesh& m, const ShapeInfos& args, const ShapeInfos&) {
                           return Partition{m,
                                            [tag](Array a) { return a + tag->at(0); },
                                            {args[0].sharding},
                                            {args[0].sharding}};
                         },
                     .sharding_rule = "i -> i"});
    return jit([f](Array a) { return f(a); }).lower(x);
  };
  const auto lowered = make();
  const std::string text = lowered.as_text();
  EXPECT_EQ(text, make().as_text());
  EXPECT_TRUE(has(text, "custom_call_target=\"CustomSPMDPartitioning\"")) << text;
  EXPECT_TRUE(has(text, "tagged")) << text;
  const auto compiled = lowered.compile();
  EXPECT_EQ(compiled.as_text(), make().compile().as_text());
  expect_close(compiled(x), counting({8}) + 5);
}

TEST(CustomPartitioning, CapturesAreRefusedAndValuesAreConstants) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const Array x = put(counting({8}), mesh, P("x"));
  auto capturing = [&](const Array& w) {
    auto f = custom_partitioning([w](Array a) { return a + w; }, "capturing");
    f.def_partition(
        {.partition =
             [](const Mesh& m, const ShapeInfos& args, const ShapeInfos&) {
               return Partition{
                   m, [](Array a) { return a; }, {args[0].sharding}, {args[0].sharding}};
             },
         .sharding_rule = "i -> i"});
    return [f, x] { return jit([&](Array a) { return f(a); })(x); };
  };
  expect_error<TracerError>(capturing(x), {"'capturing'", "f32[8]", "argument", kNear});
  (void)capturing(counting({8}))();
  auto per_device = [&](const Array& w) {
    auto f = identity_with([w](Array a) { return a + w; });
    return [f, x] { return jit([&](Array a) { return f(a); })(x); };
  };
  expect_close(per_device(put(Array(2.f), mesh, P()))(), counting({8}) + 2);
  expect_close(per_device(array<float>({10}))(), counting({8}) + 10);
  // A tracer of the program around it.
  auto leaking = jit([&](Array a) {
    auto f = identity_with([a](Array b) { return b + a; });
    return f(a);
  });
  expect_error<TracerError>([&] { leaking(x); }, {"traced array", "f32[8]"});
}

TEST(CustomPartitioning, ExceptionsOfCallbacksArriveUnchanged) {
  struct Mine {};
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = custom_partitioning([](Array a) { return a; }, "throws");
  f.def_partition({.partition = [](const Mesh&, const ShapeInfos&, const ShapeInfos&) -> Partition {
                     throw Mine();
                   },
                   .sharding_rule = "i -> i"});
  EXPECT_THROW(jit([&](Array a) { return f(a); })(put(counting({8}), mesh, P("x"))), Mine);
}

}  // namespace
}  // namespace tessera::testing
