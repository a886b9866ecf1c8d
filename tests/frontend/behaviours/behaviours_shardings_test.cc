// SPDX-License-Identifier: Apache-2.0
// Behaviours 119 to 160 of docs/reference/behaviours.md: shardings of arguments and results of jit
// and pjit.
#include <tessera/control_flow.h>
#include <tessera/jit.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/products.h>
#include <tessera/ops/reductions.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

std::vector<Device> some_devices(std::size_t first, std::size_t count) {
  return {devices().begin() + std::ptrdiff_t(first),
          devices().begin() + std::ptrdiff_t(first + count)};
}
std::vector<float> shard_of(const Array& a, std::size_t i) { return floats(a.addressable_data(i)); }
std::vector<float> cut(const std::vector<float>& v, std::size_t from, std::size_t to) {
  return {v.begin() + std::ptrdiff_t(from), v.begin() + std::ptrdiff_t(to)};
}
Array same(Array x) { return x; }

TEST(JitShardings, Behaviour_119_ReplicatedResults) {
  const Mesh mesh(some_devices(0, 2), "x");
  const MeshScope scope(mesh);
  auto f = pjit([](Array x, Array y) { return x + y; },
                {.in_shardings = tree(P("x"), P("x")), .out_shardings = nullptr});
  const Array x = counting({8, 8});
  const Array z = f(x, x);
  EXPECT_EQ(z.addressable_shards().size(), 2u);
  EXPECT_TRUE(z.is_fully_replicated());
  expect_close(shard_of(z, 1), floats(counting({8, 8}, 2)));
}

TEST(JitShardings, Behaviour_120_MatmulsOfThreeDims) {
  const Mesh mesh(some_devices(0, 4), {2, 2}, {"x", "y"});
  const MeshScope scope(mesh);
  auto f = pjit([](Array x, Array y) { return matmul(x, y); },
                {.in_shardings = tree(P(nullptr, "x", "y"), P("y")), .out_shardings = P("x")});
  const Array x = counting({4, 4, 8}, 0.1f), y = counting({8, 4});
  const Array z = f(x, y);
  const std::vector<float> want = floats(matmul(x, y));
  for (std::size_t d = 0; d < 4; ++d) {
    expect_close(shard_of(z, d), d < 2 ? cut(want, 0, 32) : cut(want, 32, 64));
  }
}

TEST(JitShardings, Behaviour_121_TwoAxesOnOneDim) {
  const Mesh mesh(some_devices(0, 4), {2, 2}, {"x", "y"});
  const NamedSharding both(mesh, P(axes("x", "y")));
  auto f = jit([](Array x) { return x * 2; }, {.in_shardings = both, .out_shardings = both});
  const Array z = f(counting({8, 2}));
  for (std::size_t d = 0; d < 4; ++d) {
    expect_close(shard_of(z, d), cut(floats(counting({8, 2}, 2)), 4 * d, 4 * d + 4));
  }
}

TEST(JitShardings, Behaviour_122_NestedFunctions) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const MeshScope scope(mesh);
  const Array constant = counting({8});
  auto inner = pjit([&](Array x) { return x + constant; },
                    {.in_shardings = P("x"), .out_shardings = nullptr});
  auto middle = pjit([&](Array x) { return inner(x) * 2 + constant; }, {.out_shardings = P("x")});
  auto outer = jit([&](Array x) { return middle(inner(x)) + inner(x); });
  expect_close(floats(outer(counting({8}))), floats(counting({8}, 9)));
}

TEST(JitShardings, Behaviour_123_TreesOfShardings) {
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  const NamedSharding rows(mesh, P("x")), columns(mesh, P(nullptr, "y")), whole(mesh, P());
  using Tree = std::map<std::string, std::vector<Array>>;
  auto f = jit(
      [](Tree t) {
        t["b"][0] = t["b"][0] + 1;
        return t;
      },
      {.in_shardings = tree(dict({{"b", whole}, {"a", tree(rows, columns)}})),
       .out_shardings = dict({{"a", tree(columns, rows)}, {"b", rows}})});
  const Array x = counting({8, 8});
  const Tree out = f(Tree{{"a", {x, x}}, {"b", {x}}});
  EXPECT_EQ(out.at("a")[0].sharding(), columns);
  EXPECT_EQ(out.at("a")[1].sharding(), rows);
  EXPECT_EQ(out.at("b")[0].sharding(), rows);
  expect_close(out.at("b")[0], x + 1);
}

TEST(JitShardings, Behaviour_124_OneShardingForAll) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const NamedSharding rows(mesh, P("x"));
  auto f = jit(
      [](Array a, std::pair<Array, Array> b) {
        return std::tuple{a + b.first, b.second};
      },
      {.in_shardings = rows, .out_shardings = rows});
  const auto compiled = f.lower(counting({8}), std::pair{counting({8}), counting({16})}).compile();
  EXPECT_EQ(compiled.input_shardings(), (std::vector<Sharding>{rows, rows, rows}));
  EXPECT_EQ(compiled.output_shardings(), (std::vector<Sharding>{rows, rows}));
}

TEST(JitShardings, Behaviour_125_NumberOfArguments) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const NamedSharding rows(mesh, P("x"));
  auto f = jit([](Array a, Array b) { return a + b; }, {.in_shardings = tree(rows, rows, rows)});
  expect_error<ValueError>([&] { f(counting({8}), counting({8})); },
                           {"in_shardings must be a tree prefix of the positional arguments",
                            "has 2 elements", "has 3", kNear});
}

TEST(JitShardings, Behaviour_126_ATreeForTheOnlyArgument) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const NamedSharding rows(mesh, P("x"));
  using Pair = std::pair<Array, Array>;
  auto f = jit([](Pair p) { return p.first + p.second; }, {.in_shardings = tree(rows, rows)});
  expect_error<ValueError>(
      [&] {
        f(Pair{counting({8}), counting({8})});
      },
      {"tree prefix", "wrap", "tree(tree(...))", kNear});
}

TEST(JitShardings, Behaviour_127_MismatchesOfResults) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const NamedSharding rows(mesh, P("x"));
  auto body = [](Array x) {
    return std::map<std::string, std::vector<Array>>{{"a", {x, x}}, {"b", {x}}};
  };
  expect_error<ValueError>(
      [&] {
        jit(body,
            {.out_shardings = dict({{"a", tree(rows, rows, rows)}, {"b", rows}})})(counting({8}));
      },
      {"out_shardings must be a tree prefix of the result", "['a']", "2 elements", "3", kNear});
  expect_error<ValueError>(
      [&] {
        jit(body, {.out_shardings = dict({{"a", tree(rows)}, {"c", rows}})})(counting({8}));
      },
      {"3 mismatches", "at ['a'] has 2 elements", "['b'] has no entry", "has no 'c'", kNear});
  expect_error<ValueError>([&] { jit(same, {.out_shardings = tree(rows)})(counting({8})); },
                           {"is one array", kNear});
}

TEST(JitShardings, Behaviour_129_SpecsNeedAMesh) {
  expect_error<RuntimeError>(
      [] { pjit(same, {.in_shardings = P("x")})(counting({8})); },
      {"pjit in_shardings of argument 0", "PartitionSpec('x')", "MeshScope", kNear});
  expect_error<RuntimeError>(
      [] { jit(same, {.out_shardings = P("x")})(counting({8})); },
      {"jit out_shardings", "PartitionSpec('x')", "NamedSharding(mesh, spec)", kNear});
  auto f = jit(same, {.in_shardings = tree(P("x")), .out_shardings = P(nullptr)});
  const Mesh mesh = mesh_of({{"x", 8}});
  const MeshScope scope(mesh);
  EXPECT_TRUE(f(counting({8})).is_fully_replicated());
  expect_error<ShardingError>([] { jit(same, {.in_shardings = P("z")})(counting({8})); },
                              {"'z'", "'x'"});
}

TEST(JitShardings, Behaviour_038_AxesThatTheMeshLacks) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const MeshScope scope(mesh);
  const std::vector<std::string> facts = {"'z'", "PartitionSpec('z')", "'x'", kNear};
  auto with = [&](const std::string& where) {
    std::vector<std::string> parts = facts;
    parts.push_back(where);
    return parts;
  };
  expect_error<ShardingError>([] { jit(same, {.in_shardings = P("z")})(counting({8})); },
                              with("in_shardings of argument 0"));
  expect_error<ShardingError>([] { jit(same, {.out_shardings = P("z")})(counting({8})); },
                              with("out_shardings"));
  expect_error<ShardingError>([] { with_sharding_constraint(counting({8}), P("z")); },
                              with("with_sharding_constraint"));
  expect_error<ShardingError>([] { device_put(counting({8}), P("z")); }, with("device_put"));
}

TEST(JitShardings, Behaviour_037_AnAxisTwice) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const MeshScope scope(mesh);
  const std::vector<std::string> facts = {"'x'", "PartitionSpec('x', 'x')", kNear};
  auto with = [&](const std::string& where) {
    std::vector<std::string> parts = facts;
    parts.push_back(where);
    return parts;
  };
  expect_error<DuplicateSpecError>([] { (void)jit(same, {.in_shardings = P("x", "x")}); },
                                   with("jit in_shardings"));
  expect_error<DuplicateSpecError>([] { (void)jit(same, {.out_shardings = P("x", "x")}); },
                                   with("jit out_shardings"));
  expect_error<DuplicateSpecError>(
      [] {
        with_sharding_constraint(counting({8, 8}), P("x", "x"));
      },
      with("with_sharding_constraint"));
}

TEST(JitShardings, Behaviour_130_EmptyMeshes) {
  expect_error<ValueError>(
      [] { jit(same, {.out_shardings = NamedSharding(Mesh(), P())})(counting({8})); },
      {"out_shardings", "empty mesh"});
}

TEST(JitShardings, Behaviour_131_SizesThatDontDivide) {
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  const NamedSharding split(mesh, P(axes("x", "y")));
  using Tree = std::map<std::string, std::vector<Array>>;
  auto f = jit(
      [](Array a, Tree t) {
        return std::pair{a, t};
      },
      {.in_shardings = tree(nullptr, split), .arg_names = {"a", "weights"}});
  expect_error<IndivisibleError>(
      [&] {
        f(counting({3}), Tree{{"w", {counting({8}), counting({12, 2})}}});
      },
      {"weights['w'][1] of", "PartitionSpec(('x', 'y'))", "dimension 0", "8", "12", "[12,2]",
       kNear});
  auto g = jit(
      [](Array a) {
        return Tree{{"r", {a, concatenate(std::vector<Array>{a, a})}}};
      },
      {.out_shardings = split});
  expect_error<IndivisibleError>(
      [&] { g(counting({4})); },
      {"result['r'][0] of", "PartitionSpec(('x', 'y'))", "8", "4", kNear});
}

TEST(JitShardings, Behaviour_132_SpecsLongerThanTheRank) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const NamedSharding three(mesh, P(nullptr, nullptr, nullptr));
  expect_error<ShardingError>(
      [&] {
        jit(same, {.in_shardings = three})(counting({8, 2}));
      },
      {"argument 0 of", "rank 2", "PartitionSpec(None, None, None)", "rank 3", kNear});
  expect_error<ShardingError>(
      [&] {
        jit(same, {.out_shardings = three})(counting({8, 2}));
      },
      {"result of", "rank 2", "PartitionSpec(None, None, None)", "rank 3", kNear});
  expect_error<ShardingError>(
      [&] {
        jit([&](Array x) { return with_sharding_constraint(x, three); })(counting({8, 2}));
      },
      {"with_sharding_constraint's argument", "rank 2", "rank 3", kNear});
  expect_error<ShardingError>(
      [&] { jit(same, {.in_shardings = NamedSharding(mesh, P("x"))})(1.f); },
      {"argument 0 of", "rank 0", "P()", kNear});
}

TEST(JitShardings, Behaviour_133_None) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const Array x = put(counting({8}), mesh, P("x"));
  auto j =
      jit([](Array a) { return a * 2; }, {.in_shardings = tree(nullptr), .out_shardings = nullptr});
  EXPECT_EQ(j(x).sharding(), x.sharding());
  EXPECT_EQ(j(counting({8})).sharding(), SingleDeviceSharding(devices()[0]));
  auto p = pjit([](Array a) { return a * 2; },
                {.in_shardings = tree(nullptr), .out_shardings = nullptr});
  EXPECT_EQ(p(x).sharding(), x.sharding());  // no mesh in scope
  const MeshScope scope(mesh);
  EXPECT_EQ(p(counting({8})).sharding(), NamedSharding(mesh, P()));
  expect_error<ValueError>([&] { p(x); },
                           {"argument 0", "PartitionSpec('x')", "PartitionSpec()", kNear});
}

TEST(JitShardings, Behaviour_134_SomeSpecified) {
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  const NamedSharding rows(mesh, P("x")), columns(mesh, P(nullptr, "y"));
  const Array x = put(counting({8, 8}), mesh, P("y"));
  auto f = jit(
      [](Array a, Array b, Array c, Array d) {
        return std::tuple{a, b, c, d};
      },
      {.in_shardings = tree(rows, nullptr, columns, UNSPECIFIED),
       .out_shardings = tree(rows, nullptr, rows, UNSPECIFIED)});
  const Array plain = counting({8, 8});
  const auto [a, b, c, d] = f(plain, x, plain, x);
  EXPECT_EQ(a.sharding(), rows);
  EXPECT_EQ(b.sharding(), x.sharding());
  EXPECT_EQ(c.sharding(), rows);
  EXPECT_EQ(d.sharding(), x.sharding());
  for (const Array& r : {a, b, c, d}) expect_close(r, plain);
}

TEST(JitShardings, Behaviour_135_CommittedElsewhere) {
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  auto f = jit(same, {.in_shardings = NamedSharding(mesh, P("x")), .arg_names = {"batch"}});
  const Array x = put(counting({8, 2}), mesh, P("y"));
  expect_error<ValueError>([&] { f(x); }, {"batch of", "f32[8,2]", "PartitionSpec('y')",
                                           "PartitionSpec('x')", "device_put", kNear});
  expect_error<ValueError>(
      [&] {
        f(device_put(counting({8, 2}), devices()[2]));
      },
      {"batch of", "SingleDeviceSharding", "PartitionSpec('x')", kNear});
  // Equal placement is enough.
  expect_close(f(put(counting({8, 2}), mesh, P("x", nullptr))), counting({8, 2}));
}

TEST(JitShardings, Behaviour_136_UncommittedArraysArePlaced) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit(same, {.in_shardings = NamedSharding(mesh, P("x"))});
  const Array y = f(counting({16}));
  EXPECT_EQ(y.sharding(), NamedSharding(mesh, P("x")));
  EXPECT_EQ(shard_of(y, 3), (std::vector<float>{6, 7}));
}

TEST(JitShardings, Behaviour_137_UncommittedBesideCommitted) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit([](Array a, Array b) { return std::pair{a + b, b * 2}; });
  const auto [sum, twice] = f(put(counting({8}), mesh, P("x")), counting({8}));
  EXPECT_EQ(sum.addressable_shards().size(), 8u);
  EXPECT_EQ(twice.addressable_shards().size(), 8u);
  const MeshScope scope(mesh);
  EXPECT_EQ(jit(same)(counting({8})).addressable_shards().size(), 8u);
}

TEST(JitShardings, Behaviour_139_ArgumentsOnDifferentDevices) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const Array a = put(counting({8}), mesh, P("x"));
  const Array b = device_put(counting({4, 2}), devices()[3]);
  const std::string all = "devices [0,1,2,3,4,5,6,7] on cpu";
  auto two = jit([](Array x, Array y) { return sum(x) + sum(y); }, {.name = "two"});
  expect_error<ValueError>([&] { two(a, b); }, {"'two'", "argument 0", "f32[8]", all, "argument 1",
                                                "f32[4,2]", "devices [3] on cpu", kNear});
  using Deep = std::map<std::string, std::map<std::string, std::vector<Array>>>;
  auto deep = jit([](std::vector<Array> x,
                     Deep d) { return sum(x[0]) + sum(d["a"]["b"][1]) + sum(d["a"]["b"][0]); },
                  {.name = "deep", .arg_names = {"x", "inp"}});
  expect_error<ValueError>(
      [&] {
        deep({a}, Deep{{"a", {{"b", {a, b}}}}});
      },
      {"x[0] of 'deep'", "inp['a']['b'][1] of 'deep'", "devices [3]", kNear});
  // The same devices in another order.
  std::vector<Device> reversed = devices();
  std::reverse(reversed.begin(), reversed.end());
  const Array r = put(counting({8}), Mesh(reversed, "x"), P("x"));
  expect_error<ValueError>([&] { two(a, r); }, {"another order", "[7,6,5,4,3,2,1,0]", kNear});
}

TEST(JitShardings, Behaviour_140_ArgumentsAndInnerConstraints) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const NamedSharding rows(mesh, P("x"));
  const Array a = device_put(counting({8}), devices()[1]);
  auto constrained = jit([&](Array x) { return with_sharding_constraint(x, rows) * 2; });
  expect_error<ValueError>([&] { constrained(a); },
                           {"argument 0", "f32[8]", "devices [1]", "sharding used inside",
                            "devices [0,1,2,3,4,5,6,7]", kNear});
  auto inner = jit(same, {.in_shardings = rows});
  expect_error<ValueError>([&] { jit([&](Array x) { return inner(x); })(a); },
                           {"argument 0", "devices [1]", "inside", "[0,1,2,3,4,5,6,7]", kNear});
  EXPECT_EQ(constrained(counting({8})).sharding(), rows);
}

TEST(JitShardings, Behaviour_142_CapturedArraysHaveDevices) {
  const Array captured = device_put(counting({4}), devices()[1]);
  auto f = jit([captured](Array x) { return x + captured; }, {.name = "closure"});
  expect_error<ValueError>(
      [&] { f(device_put(counting({4}), devices()[0])); },
      {"'closure'", "argument 0", "devices [0]", "captures", "devices [1]", kNear});
  EXPECT_EQ(f(counting({4})).devices(), (std::set<Device>{devices()[1]}));
}

TEST(JitShardings, Behaviour_143_ResultsOnDifferentDevices) {
  const Mesh low(some_devices(0, 4), "x"), high(some_devices(4, 4), "x");
  auto f = jit(
      [](Array x) {
        return std::pair{x, x * 2};
      },
      {.out_shardings = tree(NamedSharding(low, P("x")), NamedSharding(high, P("x")))});
  expect_error<ValueError>([&] { f(counting({8})); },
                           {"result[0]", "[0,1,2,3]", "result[1]", "[4,5,6,7]", kNear});
  auto g = jit(same, {.in_shardings = NamedSharding(low, P("x")),
                      .out_shardings = NamedSharding(high, P("x"))});
  expect_error<ValueError>([&] { g(counting({8})); },
                           {"argument 0", "[0,1,2,3]", "result of", "[4,5,6,7]", kNear});
}

TEST(JitShardings, Behaviour_144_TheMeshInScopeAndTheArguments) {
  const Mesh low(some_devices(0, 4), "x"), high(some_devices(4, 4), "x");
  const Array x = put(counting({8}), low, P("x"));
  auto f = jit([](Array a) { return a + 1; });
  const MeshScope scope(high);
  expect_error<ValueError>([&] { f(x); },
                           {"argument 0", "[0,1,2,3]", "mesh in scope", "[4,5,6,7]", kNear});
}

TEST(JitShardings, Behaviour_145_EagerOperationsOnDifferentDevices) {
  const Array a = device_put(counting({4}), devices()[1]),
              b = device_put(counting({4}), devices()[2]);
  expect_error<ValueError>(
      [&] {
        concatenate(std::vector<Array>{a, b});
      },
      {"'concatenate'", "f32[4]", "devices [1]", "devices [2]", kNear});
}

TEST(JitShardings, Behaviour_146_TheSameShardingComesBack) {
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  Array x = put(counting({8, 8}), mesh, P("x", nullptr));
  const auto* first = &x.sharding().impl();
  auto f = jit([](Array a) { return a * 2; });
  for (int i = 0; i < 3; ++i) {
    x = f(x);
    EXPECT_EQ(&x.sharding().impl(), first);
  }
  EXPECT_EQ(NamedSharding(x.sharding()).spec(), P("x", nullptr));
}

TEST(JitShardings, Behaviour_147_ShardingsOfResults) {
  for (const auto& [rows, columns] : {std::pair{4, 2}, std::pair{2, 4}, std::pair{8, 1}}) {
    const Mesh mesh = mesh_of({{"x", rows}, {"y", columns}});
    const Array x = put(counting({8, 4}, 0.1f), mesh, P("x", "y"));
    auto f = jit([](Array a) { return std::pair{matmul(a, transpose(a)), sum(a)}; });
    const auto [product, total] = f(x);
    EXPECT_EQ(total.sharding(), NamedSharding(mesh, P()));
    EXPECT_TRUE(NamedSharding::is(product.sharding()));
    EXPECT_EQ(product.sharding().shard_shape({8, 8})[0], 8 / rows)
        << product.sharding().to_string();
    expect_close(product, matmul(counting({8, 4}, 0.1f), transpose(counting({8, 4}, 0.1f))));
  }
}

TEST(JitShardings, Behaviour_148_ConstantResults) {
  std::vector<Device> turned;
  for (int i : {0, 2, 4, 6, 1, 3, 5, 7}) turned.push_back(devices()[std::size_t(i)]);
  for (const Mesh& mesh : {mesh_of({{"x", 4}, {"y", 2}}), Mesh(turned, {4, 2}, {"x", "y"})}) {
    const MeshScope scope(mesh);
    const Array one = jit([] { return Array(1); })();
    EXPECT_EQ(one.item<int>(), 1);
    EXPECT_EQ(one.sharding().device_list(), mesh.devices());
    const Array split = put(counting({8, 2}), mesh, P("x", "y"));
    const Array back = jit([&](Array) { return split; })(2);
    expect_close(back, counting({8, 2}));
    EXPECT_EQ(back.sharding(), split.sharding());
    const Array made = jit([] { return counting({8, 4}); }, {.out_shardings = P("y", "x")})();
    expect_close(made, counting({8, 4}));
    EXPECT_EQ(made.sharding(), NamedSharding(mesh, P("y", "x")));
  }
}

TEST(JitShardings, Behaviour_149_NoInputsNoOutputs) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const MeshScope scope(mesh);
  EXPECT_EQ(jit([] { return zeros({8}); }, {.out_shardings = P("x")})().sharding(),
            NamedSharding(mesh, P("x")));
  (void)jit([](Array) { return std::vector<Array>{}; }, {.in_shardings = P("x")})(counting({8}));
  (void)jit([] { return std::tuple<>(); })();
}

TEST(JitShardings, Behaviour_150_PartlyGivenResults) {
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  const NamedSharding rows(mesh, P("x"));
  auto f = jit(
      [] {
        return std::tuple{zeros({8}), ones({8, 2}), Array(3)};
      },
      {.out_shardings = tree(rows, UNSPECIFIED, nullptr)});
  const auto [a, b, c] = f();
  EXPECT_EQ(a.sharding(), rows);
  for (const Array& r : {a, b, c}) {
    ASSERT_TRUE(NamedSharding::is(r.sharding()));
    EXPECT_EQ(NamedSharding(r.sharding()).mesh(), mesh);
  }
}

TEST(JitShardings, Behaviour_151_UnconstrainedIsForConstraints) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const NamedSharding open(mesh, P(UNCONSTRAINED, "x"));
  expect_error<ValueError>(
      [&] { jit(same, {.in_shardings = tree(open)}); },
      {"jit in_shardings[0]", "UNCONSTRAINED", "with_sharding_constraint", kNear});
  expect_error<ValueError>(
      [&] {
        pjit(same, {.out_shardings = dict({{"a", open}})});
      },
      {"pjit out_shardings['a']", "UNCONSTRAINED", kNear});
  expect_error<DuplicateSpecError>([&] { jit(same, {.in_shardings = P("x", "x")}); },
                                   {"jit in_shardings", "PartitionSpec('x', 'x')", "'x'", kNear});
}

TEST(JitShardings, Behaviour_159_WithoutJit) {
  int calls = 0;
  std::vector<float> seen;
  auto f = jit([&](Array a) {
    ++calls;
    if (!a.is_tracer()) seen.push_back((a + 1).item<float>());
    return std::pair{a * 2, a};
  });
  EXPECT_EQ(f(3.f).first.item<float>(), 6);
  EXPECT_EQ(f(4.f).first.item<float>(), 8);
  EXPECT_EQ(calls, 1);
  {
    const DisableJit scope;
    EXPECT_EQ(f(5.f).first.item<float>(), 10);
    EXPECT_EQ(f(6.f).second.item<float>(), 6);
    EXPECT_EQ(calls, 3);
    EXPECT_EQ(seen, (std::vector<float>{6, 7}));
    const Mesh mesh = mesh_of({{"x", 8}});
    const Array x = put(counting({8}), mesh, P("x"));
    EXPECT_EQ(jit([](Array a) { return a * 2; })(x).sharding(), x.sharding());
  }
  EXPECT_EQ(f(7.f).first.item<float>(), 14);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(f.trace_count(), 1);
}

TEST(JitShardings, Behaviour_160_UpdatesInPlace) {
  const Mesh mesh = mesh_of({{"data", 8}});
  const Array w = zeros({8, 16});
  const Array ids = array<std::int32_t>({3, 1, 4, 1, 5, 2, 6, 5, 3, 5, 0, 7, 7, 2, 2, 0});
  auto f = jit(
      [](Array a, Array i) {
        // One column at a time: a[i[k], k] = 1.
        return fori_loop(
            0, 16,
            [&](Array k, Array v) {
              return dynamic_update_slice(v, ones({1, 1}),
                                          {dynamic_index_in_dim(i, k, 0, false), k});
            },
            a);
      },
      {.in_shardings = NamedSharding(mesh, P()),
       .out_shardings = NamedSharding(mesh, P(nullptr, "data"))});
  std::vector<float> want(8 * 16, 0);
  const auto list = ids.to_vector<std::int32_t>();
  for (std::size_t k = 0; k < 16; ++k) want[std::size_t(list[k]) * 16 + k] = 1;
  expect_close(floats(f(w, ids)), want);
}

}  // namespace
}  // namespace tessera::testing
