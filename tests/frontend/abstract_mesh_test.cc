// SPDX-License-Identifier: Apache-2.0
// Programs for meshes without devices.
#include <tessera/collectives.h>
#include <tessera/custom_partitioning.h>
#include <tessera/jit.h>
#include <tessera/ops.h>
#include <tessera/shard_map.h>
#include <tessera/sharding/abstract_mesh.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

const AbstractMesh& pod() {
  static const AbstractMesh mesh({{"data", 64}, {"model", 32}});
  return mesh;
}

Array like(std::vector<std::int64_t> shape, const Mesh& mesh, const PartitionSpec& spec) {
  return shape_dtype_struct(std::move(shape), f32, NamedSharding(mesh, spec));
}

std::size_t collective_count(const std::string& text) {
  std::size_t n = 0;
  for (const char* kind : {" all-gather(", " all-reduce(", " reduce-scatter(", " all-to-all(",
                           " collective-permute(", " collective-broadcast("}) {
    n += count(text, kind);
  }
  return n;
}

Array transformer_block(Array x, Array wq, Array wk, Array wv, Array wo, Array w1, Array w2) {
  const auto heads = [&](const Array& w) { return einsum("bsd,dhk->bhsk", x, w); };
  const Array weights = softmax(einsum("bhsk,bhtk->bhst", heads(wq), heads(wk)));
  const Array mixed = einsum("bhst,bhtk->bshk", weights, heads(wv));
  const Array y = x + einsum("bshk,hkd->bsd", mixed, wo);
  return y + matmul(relu(matmul(y, w1)), w2);
}

/// Batch over the first axis of the mesh, heads and the hidden layer over the second.
std::vector<Array> transformer_arguments(const Mesh& mesh, std::int64_t batch) {
  const std::string data = mesh.axis_names()[0], model = mesh.axis_names()[1];
  std::vector<Array> out{like({batch, 16, 256}, mesh, P(data))};
  for (int k = 0; k < 3; ++k) out.push_back(like({256, 32, 8}, mesh, P(nullptr, model)));
  out.push_back(like({32, 8, 256}, mesh, P(model)));
  out.push_back(like({256, 1024}, mesh, P(nullptr, model)));
  out.push_back(like({1024, 256}, mesh, P(model)));
  return out;
}

Compiled compiled_transformer(const Mesh& mesh, std::int64_t batch) {
  auto f = jit(transformer_block, {.name = "block"});
  const std::vector<Array> a = transformer_arguments(mesh, batch);
  return f.lower(a[0], a[1], a[2], a[3], a[4], a[5], a[6]).compile();
}

TEST(AbstractMeshes, Behaviour_178_LoweredAndCompiledWithoutDevices) {
  auto f = jit([](Array x, Array w) { return matmul(x, w); }, {.name = "product"});
  const Array x = like({4096, 1024}, pod(), P("data")), w = like({1024, 512}, pod(), P("model"));
  const auto lowered = f.lower(x, w);
  EXPECT_TRUE(has(lowered.as_text(), "num_partitions=2048")) << lowered.as_text();
  EXPECT_TRUE(has(lowered.as_text("stablehlo"), "<[\"data\"=64, \"model\"=32]>"));
  const auto compiled = lowered.compile();
  const std::string text = compiled.as_text();
  EXPECT_TRUE(has(text, "num_partitions=2048")) << text;
  EXPECT_TRUE(has(text, "f32[64,1024]")) << text;
  // Nowhere is a list of 2,048 devices.
  EXPECT_LT(text.size(), 8000u) << text;
  EXPECT_EQ(compiled.input_shardings()[0], NamedSharding(pod(), P("data")));
  const NamedSharding out(compiled.output_shardings()[0]);
  EXPECT_TRUE(out.mesh() == pod());
  EXPECT_EQ(out.spec(), P("data"));
  EXPECT_EQ(compiled.out_info()[0].shape, (std::vector<std::int64_t>{4096, 512}));

  expect_error<ValueError>(
      [&] {
        (void)compiled(ones({4096, 1024}), ones({1024, 512}));
      },
      {"'product' can't run", "argument 0 of 'product' (f32[4096,1024])", pod().to_string(),
       "abstract", kNear});
}

TEST(AbstractMeshes, CallingIsAnErrorToo) {
  auto f = jit([](Array x) { return x * 2; },
               {.in_shardings = NamedSharding(pod(), P("data")), .name = "twice"});
  expect_error<ValueError>([&] { (void)f(ones({128})); },
                           {"'twice' can't run", "AbstractMesh('data': 64", kNear});
  auto g =
      jit([](Array x) { return with_sharding_constraint(x * 2, NamedSharding(pod(), P("data"))); },
          {.name = "inner"});
  expect_error<ValueError>([&] { (void)g(ones({128})); },
                           {"'inner' can't run", "the sharding used inside", kNear});
  expect_error<TypeError>([&] { (void)f(like({128}, pod(), P("data"))); },
                          {"shape_dtype_struct", "use lower()", kNear});
}

TEST(AbstractMeshes, ShardingsOfTheJitAndTheMeshInScope) {
  const auto x = shape_dtype_struct({128, 64}, f32);
  auto f = jit([](Array a) { return a + 1; },
               {.in_shardings = NamedSharding(pod(), P("data")),
                .out_shardings = NamedSharding(pod(), P(nullptr, "model"))});
  const auto compiled = f.lower(x).compile();
  EXPECT_EQ(compiled.output_shardings()[0], NamedSharding(pod(), P(nullptr, "model")));
  EXPECT_EQ(collective_count(compiled.as_text()), 1u) << compiled.as_text();

  use_abstract_mesh scope(pod());
  auto g = jit([](Array a) { return with_sharding_constraint(a, P("model")) + 1; },
               {.in_shardings = P("data")});
  const auto with_scope = g.lower(x).compile();
  EXPECT_EQ(with_scope.input_shardings()[0], NamedSharding(pod(), P("data")));
  EXPECT_EQ(NamedSharding(with_scope.output_shardings()[0]).spec(), P("model"));
  const auto spec_only = g.lower(shape_dtype_struct({128, 64}, f32, P("data"))).compile();
  EXPECT_EQ(spec_only.as_text(), with_scope.as_text());
}

TEST(AbstractMeshes, TheSameProgramAsOnDevices) {
  const Mesh mesh = mesh_of({{"data", 2}, {"model", 4}});
  const Compiled real = compiled_transformer(mesh, 8);
  const Compiled abstract = compiled_transformer(mesh.abstract_mesh(), 8);
  EXPECT_EQ(real.as_text(), abstract.as_text());
  EXPECT_EQ(real.explain({.suggest = false}).to_text(),
            abstract.explain({.suggest = false}).to_text());
  EXPECT_EQ(real.cost_analysis().to_text(), abstract.cost_analysis().to_text());
  const MemoryAnalysis have = abstract.memory_analysis(), want = real.memory_analysis();
  EXPECT_EQ(have.argument_bytes, want.argument_bytes);
  EXPECT_EQ(have.output_bytes, want.output_bytes);
  EXPECT_EQ(have.alias_bytes, want.alias_bytes);
  EXPECT_NEAR(double(have.peak_bytes_per_device), double(want.peak_bytes_per_device),
              0.05 * double(want.peak_bytes_per_device));
}

TEST(AbstractMeshes, TextAndCollectivesDontGrowWithTheDevices) {
  struct Case {
    std::int64_t data, model;
  };
  std::size_t collectives = 0, size = 0;
  for (const Case c : {Case{2, 4}, Case{16, 16}, Case{64, 32}}) {
    const AbstractMesh mesh({{"data", c.data}, {"model", c.model}});
    const Compiled compiled = compiled_transformer(mesh, 2 * c.data);
    const std::string text = compiled.as_text();
    const CostAnalysis cost = compiled.cost_analysis();
    if (size == 0) {
      size = text.size();
      collectives = collective_count(text);
      EXPECT_GT(collectives, 0u);
    }
    EXPECT_EQ(collective_count(text), collectives) << text;
    EXPECT_LT(double(text.size()), 1.1 * double(size)) << mesh.to_string();
    EXPECT_EQ(cost.collectives.size(), collectives);
    // Heads and hidden layer are split: two sums over "model" of [2,16,256] in all, each of them
    // received twice but for a device's own part.
    const double m = double(c.model);
    EXPECT_DOUBLE_EQ(cost.bytes_received, 2 * 2 * 4 * 2 * 16 * 256 * (m - 1) / m);
    for (const CollectiveCost& one : cost.collectives) {
      EXPECT_EQ(one.kind, "all-reduce");
      ASSERT_EQ(one.axes.size(), 1u);
      EXPECT_EQ(one.axes[0], (std::pair<std::string, std::int64_t>("model", c.model)));
      EXPECT_TRUE(has(one.location, "abstract_mesh_test.cc")) << one.location;
    }
    // Products: 2 x batch x (4 of seq x width x width, 2 of seq x seq x width, 2 of seq x width x
    // hidden), of which a device has its 1/model part of 2 rows.
    const double products =
        2.0 * 2 * (4 * 16 * 256 * 256 + 2 * 16 * 16 * 256 + 2 * 16 * 256 * 1024);
    EXPECT_GT(cost.flops, products / m);
    EXPECT_LT(cost.flops, 1.2 * products / m);
    // The softmax of [2, heads, 16, 16].
    EXPECT_DOUBLE_EQ(cost.transcendentals, 2.0 * 32 * 16 * 16 / m);
    const MemoryAnalysis memory = compiled.memory_analysis();
    EXPECT_EQ(memory.argument_bytes,
              4 * (2 * 16 * 256) + 4 * (4 * 256 * 256 + 2 * 256 * 1024) / c.model);
    EXPECT_EQ(memory.output_bytes, 4 * 2 * 16 * 256);
    EXPECT_GE(memory.peak_bytes_per_device, memory.argument_bytes + memory.output_bytes);
  }
}

TEST(AbstractMeshes, TimesOnADescribedNetwork) {
  auto f = jit([](Array x) { return x; }, {.in_shardings = NamedSharding(pod(), P("data")),
                                           .out_shardings = NamedSharding(pod(), P())});
  const auto compiled = f.lower(shape_dtype_struct({64, 1000}, f32)).compile();
  Network network;
  network.axes["data"] = {50e9, 2e-6};
  const CostAnalysis cost = compiled.cost_analysis(network);
  ASSERT_EQ(cost.collectives.size(), 1u);
  EXPECT_EQ(cost.collectives[0].kind, "all-gather");
  EXPECT_EQ(cost.bytes_received, 4.0 * 1000 * 63);
  EXPECT_DOUBLE_EQ(cost.collective_seconds, 63 * 2e-6 + 4.0 * 1000 * 63 / 50e9);
  EXPECT_DOUBLE_EQ(cost.step_seconds(), cost.collective_seconds + cost.compute_seconds);
  EXPECT_EQ(cost.kinds.at("all-gather"),
            (CostAnalysis::Kind{1, cost.bytes_received, cost.collective_seconds}));
  EXPECT_TRUE(has(cost.to_text(), "data=64")) << cost.to_text();
}

TEST(AbstractMeshes, Explained) {
  auto f = jit([](Array x, Array w) { return matmul(x, w); }, {.name = "product"});
  const auto lowered =
      f.lower(like({4096, 1024}, pod(), P("data", "model")), like({1024, 512}, pod(), P("model")));
  const Explanation e = lowered.explain();
  EXPECT_EQ(e.num_devices(), 2048);
  EXPECT_EQ(e.mesh(), "data=64, model=32");
  ASSERT_FALSE(e.entries().empty());
  EXPECT_EQ(e.total_bytes(), lowered.compile().cost_analysis().bytes_received);
}

TEST(AbstractMeshes, Behaviour_179_AnotherNumberOfDevicesThanTheArguments) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const AbstractMesh four({{"x", 4}});
  auto f = jit([&](Array a) { return with_sharding_constraint(a, NamedSharding(four, P("x"))); },
               {.name = "f"});
  const Array x = put(counting({8}), mesh, P("x"));
  const std::vector<std::string> parts = {"incompatible devices for 'f'",
                                          four.to_string() + " of size 4", "argument 0 of 'f'",
                                          mesh.to_string() + " of size 8", kNear};
  expect_error<ValueError>([&] { (void)f(x); }, parts);
  expect_error<ValueError>([&] { (void)f.lower(x); }, parts);
  auto g = jit([](Array a) { return a + 1; },
               {.in_shardings = NamedSharding(four, P("x")), .name = "g"});
  expect_error<ValueError>([&] { (void)g(x); }, {"of size 4", "of size 8", kNear});
}

TEST(AbstractMeshes, StandForTheDevicesOfArguments) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  const AbstractMesh axes = mesh.abstract_mesh();
  auto f =
      jit([&](Array a,
              Array b) { return with_sharding_constraint(a, NamedSharding(axes, P("y"))) + b; },
          {.in_shardings = tree(NamedSharding(axes, P("x")), NamedSharding(axes, P())),
           .out_shardings = NamedSharding(axes, P("y", "x"))});
  const Array x = put(counting({8, 2}), mesh, P("x"));
  const Array y = f(x, ones({8, 2}));
  EXPECT_EQ(y.sharding(), NamedSharding(mesh, P("y", "x")));
  expect_close(y, counting({8, 2}) + 1);
  // Another mesh of that shape, the same function.
  std::vector<Device> backwards = devices();
  backwards.resize(8);
  std::reverse(backwards.begin(), backwards.end());
  const Mesh other(backwards, {2, 4}, {"x", "y"});
  const Array z = f(put(counting({8, 2}), other, P("x")), ones({8, 2}));
  EXPECT_EQ(z.sharding(), NamedSharding(other, P("y", "x")));
  expect_close(z, counting({8, 2}) + 1);
  // The mesh in scope, too.
  MeshScope scope(mesh);
  EXPECT_EQ(f(counting({8, 2}), ones({8, 2})).sharding(), NamedSharding(mesh, P("y", "x")));
}

TEST(AbstractMeshes, Behaviour_199_ConstraintsEagerly) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  const NamedSharding wanted(mesh.abstract_mesh(), P("y"));
  const Array x = put(counting({8}), mesh, P("x"));
  const Array moved = with_sharding_constraint(x, wanted);
  EXPECT_EQ(moved.sharding(), NamedSharding(mesh, P("y")));
  expect_close(moved, counting({8}));
  expect_error<ValueError>([&] { (void)with_sharding_constraint(counting({8}), wanted); },
                           {"can't run", wanted.mesh().to_string(), kNear});
  const NamedSharding scalar(mesh.abstract_mesh(), P());
  expect_error<ValueError>([&] { (void)with_sharding_constraint(Array(3.0f), scalar); },
                           {"can't run", wanted.mesh().to_string(), kNear});
  const AbstractMesh line({{"x", 8}});
  expect_error<ValueError>([&] { (void)with_sharding_constraint(x, NamedSharding(line, P("x"))); },
                           {line.to_string(), mesh.to_string(), "a mesh of its own shape", kNear});
}

TEST(AbstractMeshes, DataCantBePlaced) {
  const NamedSharding s(pod(), P("data"));
  expect_error<ValueError>([&] { (void)device_put(ones({128}), s); },
                           {"device_put's argument", "AbstractMesh('data': 64", "abstract", kNear});
  expect_error<ValueError>(
      [&] { (void)make_array_from_callback({128}, s, [](const Index&) { return ones({2}); }); },
      {"make_array_from_callback", "abstract", kNear});
  expect_error<ValueError>(
      [&] { (void)make_array_from_single_device_arrays({128}, s, {ones({2})}); },
      {"abstract", kNear});
  // One with a requested sharding of data.
  expect_error<ValueError>([&] { (void)like({128}, pod(), P("data")).sharding().device_set(); },
                           {"device_set", "abstract", kNear});
}

TEST(AbstractMeshes, Behaviour_306_ShardMap) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto dot = shard_map(
      [](Array a, Array b) { return psum(sum(a * b), "x"); },
      {.mesh = mesh.abstract_mesh(), .in_specs = P("x"), .out_specs = P(), .name = "dot"});
  const Array a = put(counting({16}), mesh, P("x"));
  const float want = 15 * 16 * 31 / 6;
  EXPECT_EQ(dot(a, a).item<float>(), want);
  EXPECT_EQ(jit([&](Array v) { return dot(v, v); })(a).item<float>(), want);
  expect_error<ValueError>([&] { (void)dot(ones({16}), ones({16})); },
                           {"'dot' can't run", "AbstractMesh('x': 8", kNear});
  const Mesh square = mesh_of({{"x", 4}, {"y", 2}});
  const Array b = put(counting({16}), square, P("x"));
  expect_error<ValueError>([&] { (void)dot(b, b); },
                           {"AbstractMesh('x': 8", square.to_string(), kNear});
}

TEST(AbstractMeshes, Behaviour_307_OnSeveralSetsOfDevices) {
  std::vector<Device> first = devices(), last = devices();
  first.resize(4);
  last.erase(last.begin(), last.begin() + 4);
  const Mesh a(first, {4}, {"x"}), b(last, {4}, {"x"});
  auto mean = jit(shard_map([](Array v) { return v * 3 - pmean(v, "x"); },
                            {.mesh = a.abstract_mesh(), .in_specs = P("x"), .out_specs = P("x")}));
  const Array want = counting({4}, 3) - 1.5f;
  for (const Mesh& mesh : {a, b}) {
    const Array y = mean(put(counting({4}), mesh, P("x")));
    EXPECT_EQ(y.sharding(), NamedSharding(mesh, P("x")));
    expect_close(floats(y), floats(want));
  }
}

TEST(AbstractMeshes, ShardMapWithoutDevices) {
  auto step = shard_map(
      [](Array x, Array w) {
        const Array mine = matmul(x, w);
        return psum(mine, "model") + axis_index("data").astype(f32);
      },
      {.mesh = pod(), .in_specs = tree(P("data", "model"), P("model")), .out_specs = P("data")});
  auto f = jit([&](Array x, Array w) { return step(x, w); }, {.name = "step"});
  const auto compiled =
      f.lower(shape_dtype_struct({128, 64}, f32), shape_dtype_struct({64, 16}, f32)).compile();
  const std::string text = compiled.as_text();
  EXPECT_TRUE(has(text, "num_partitions=2048")) << text;
  EXPECT_EQ(count(text, " all-reduce("), 1u) << text;
  EXPECT_EQ(compiled.cost_analysis().kinds.at("all-reduce").bytes, 2 * 4.0 * 2 * 16 * 31 / 32);
  EXPECT_EQ(NamedSharding(compiled.output_shardings()[0]).spec(), P("data"));

  // Partly manual: "model" stays automatic.
  auto partly = shard_map(
      [](Array x) { return x - pmean(x, "data"); },
      {.mesh = pod(), .in_specs = P("data"), .out_specs = P("data"), .axis_names = {"data"}});
  auto g = jit([&](Array x) { return partly(x); });
  const auto part = g.lower(like({128, 64}, pod(), P("data", "model"))).compile();
  EXPECT_EQ(part.cost_analysis().collectives.size(), 1u);
  EXPECT_EQ(part.cost_analysis().collectives[0].axes,
            (std::vector<std::pair<std::string, std::int64_t>>{{"data", 64}}));
  EXPECT_EQ(part.cost_analysis().bytes_received, 2 * 4.0 * 2 * 2 * 63 / 64) << part.as_text();
}

TEST(AbstractMeshes, TooLargeToCompileFor) {
  const AbstractMesh huge({{"x", std::int64_t(1) << 21}});
  auto f = jit([](Array x) { return x + 1; }, {.name = "f"});
  const Array x = like({std::int64_t(1) << 21}, huge, P("x"));
  expect_error<RuntimeError>([&] { (void)f.lower(x); }, {"2097152", "1048576 at most", kNear});
}

TEST(AbstractMeshes, CompilesOnce) {
  auto f = jit([](Array x) { return x + 1; }, {.name = "f"});
  const Array x = like({128}, pod(), P("data"));
  const auto first = f.lower(x).compile();
  const auto second = f.lower(x).compile();
  EXPECT_EQ(first.as_text(), second.as_text());
  EXPECT_EQ(first.memory_analysis().peak_bytes_per_device, 2 * 2 * 4);
}

}  // namespace
}  // namespace tessera::testing
