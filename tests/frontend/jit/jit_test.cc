// SPDX-License-Identifier: Apache-2.0
// Functions compiled by jit: arguments, caches, donation, shardings.
#include <tessera/jit.h>

#include <atomic>
#include <thread>

#include <tessera/ops/elementwise.h>
#include <tessera/ops/products.h>
#include <tessera/ops/reductions.h>

#include "src/frontend/jit/jit_cache.h"
#include "src/frontend/run/execute.h"
#include "tests/frontend/frontend_testing.h"

// Compiled apart: includes private headers, whose `internal` others take for testing::internal.
namespace tessera::testing {

struct Layer {
  Array w, b;
};
TESSERA_TREE(Layer, w, b)

struct Model {
  std::vector<Layer> layers;
  std::map<std::string, Array> extra;
  std::optional<Array> scale;
  int power = 1;
};

namespace {

using frontend::compilation_count;

TEST(Jit, OneDevice) {
  auto f = jit([](Array x, Array y) { return x * y + 1; }, {.name = "fma"});
  const Array x = counting({2, 3});
  expect_close(floats(f(x, x)), {1, 2, 5, 10, 17, 26});
  expect_close(floats(f(x, 2)), {1, 3, 5, 7, 9, 11});
  EXPECT_EQ(f.trace_count(), 2);
  const std::string text = f.lower(x, x).as_text();
  EXPECT_TRUE(has(text, "HloModule fma")) << text;
  EXPECT_TRUE(has(text, "source_line=" + std::to_string(__LINE__ - 7))) << text;
  EXPECT_TRUE(has(text, "op_name=\"fma/multiply\"")) << text;
}

TEST(Jit, TreesGoInAndOut) {
  auto f = jit([](Model m, const std::pair<Array, Array>& xs) {
    Array h = xs.first;
    for (Layer& layer : m.layers) h = matmul(h, layer.w) + layer.b;
    for (auto& [name, v] : m.extra) v = v * float(m.power);
    if (m.scale) h = h * *m.scale;
    m.layers.pop_back();
    return std::tuple{m, h, std::array<Array, 2>{xs.second, h}};
  });
  Model m;
  m.layers = {{counting({2, 3}), ones({3})}, {counting({3, 2}), zeros({2})}};
  m.extra = {{"a", counting({2})}, {"b", Array(1.f)}};
  m.power = 3;
  const auto [out, h, both] = f(m, {ones({1, 2}), Array(7)});
  EXPECT_EQ(out.layers.size(), 1u);
  EXPECT_FALSE(out.scale.has_value());
  expect_close(floats(h), {(4 * 0 + 6 * 2 + 8 * 4), (4 + 6 * 3 + 8 * 5)});
  expect_close(floats(out.extra.at("a")), {0, 3});
  EXPECT_EQ(both[0].item<int>(), 7);
  // Static fields, sizes and optionals are part of the type.
  m.power = 2;
  EXPECT_EQ(std::get<0>(f(m, {ones({1, 2}), Array(7)})).extra.at("b").item<float>(), 2);
  EXPECT_EQ(f.trace_count(), 2);
  m.scale = Array(2.f);
  expect_close(floats(std::get<1>(f(m, {ones({1, 2}), Array(7)}))), {88, 124});
  EXPECT_EQ(f.trace_count(), 3);
  (void)f(m, {ones({1, 2}), Array(8)});
  EXPECT_EQ(f.trace_count(), 3);
}

TEST(Jit, ShardedInAndOut) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  auto f = jit([](Array a, Array b) { return matmul(a, b); },
               {.in_shardings = tree(NamedSharding(mesh, P("x", "y")), NamedSharding(mesh, P("y"))),
                .out_shardings = NamedSharding(mesh, P(axes("x", "y")))});
  const Array a = counting({8, 8}), b = counting({8, 4});
  const Array c = f(a, b);
  EXPECT_EQ(c.sharding(), NamedSharding(mesh, P(axes("x", "y"))));
  expect_close(c, matmul(a, b));
  const auto compiled = f.lower(a, b).compile();
  EXPECT_EQ(compiled.input_shardings()[1], NamedSharding(mesh, P("y")));
  EXPECT_EQ(compiled.output_shardings()[0], NamedSharding(mesh, P(axes("x", "y"))));
  // Partial sums over y, scattered over y: no all-reduce, no gather of operands.
  const std::string text = compiled.as_text();
  EXPECT_EQ(count(text, " reduce-scatter("), 1u) << text;
  EXPECT_EQ(count(text, " all-gather("), 0u) << text;
  EXPECT_TRUE(has(text, "f32[4,2]")) << text;
  expect_close(compiled(a, b), c);
}

TEST(Jit, ResultsAreChosenByPropagation) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  const Array x = put(counting({8, 4}), mesh, P("x", "y"));
  auto f = jit([](Array a) { return std::tuple{a * 2, sum(a), sum(a, 1), transpose(a)}; });
  const auto [twice, total, rows, turned] = f(x);
  EXPECT_EQ(twice.sharding(), NamedSharding(mesh, P("x", "y")));
  EXPECT_EQ(total.sharding(), NamedSharding(mesh, P()));
  EXPECT_EQ(rows.sharding(), NamedSharding(mesh, P("x")));
  EXPECT_EQ(turned.sharding(), NamedSharding(mesh, P("y", "x")));
  // The same object again, so that chains of calls compare pointers.
  EXPECT_EQ(&twice.sharding().impl(), &x.sharding().impl());
}

TEST(Jit, StaticArguments) {
  auto f = jit(
      [](Array x, int n, const std::string& op) {
        Array y = x;
        for (int i = 1; i < n; ++i) y = op == "add" ? y + x : y * x;
        return y;
      },
      static_argnums<1, 2>, {.name = "repeat"});
  const Array x = counting({3});
  expect_close(floats(f(x, 3, "add")), {0, 3, 6});
  expect_close(floats(f(x, 3, "mul")), {0, 1, 8});
  expect_close(floats(f(x, 2, "mul")), {0, 1, 4});
  (void)f(x, 2, "mul");
  EXPECT_EQ(f.trace_count(), 3);
  EXPECT_EQ(f.cache_size(), 3);
  // A compiled function has its static arguments inside.
  const auto cubed = f.lower(x, 3, "mul").compile();
  expect_close(floats(cubed(x)), {0, 1, 8});
  enum class Mode { plain, negated };
  auto g = jit([](auto m, auto a) { return m == Mode::plain ? a : -a; }, static_argnums<0>);
  expect_close(floats(g(Mode::negated, x)), {0, -1, -2});
}

TEST(Jit, NestedFunctionsAreTracedOnce) {
  std::atomic<int> runs{0};
  auto inner = jit(
      [&](Array x) {
        ++runs;
        return x * x + 1;
      },
      {.name = "inner"});
  auto outer = jit([&](Array x) { return inner(inner(inner(x))) + inner(x); }, {.name = "outer"});
  const Array x = counting({3});
  const Array y = outer(x);
  expect_close(floats(y), {5 + 1, 26 + 2, 677 + 5});
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(inner.trace_count(), 1);
  const std::string text = outer.lower(x).as_text();
  EXPECT_EQ(count(text, " call("), 4u) << text;
  EXPECT_EQ(count(text, "\n%inner") + count(text, "\ninner"), 1u) << text;
  EXPECT_TRUE(has(text, "outer/inner/multiply")) << text;
  // Shardings of an inner jit are constraints.
  const Mesh mesh = mesh_of({{"x", 8}});
  auto split = jit([](Array a) { return a + 1; }, {.in_shardings = NamedSharding(mesh, P("x")),
                                                   .out_shardings = NamedSharding(mesh, P())});
  auto both = jit([&](Array a) { return split(a * 2) * 3; });
  const Array z = both(put(counting({16}), mesh, P()));
  EXPECT_TRUE(z.is_fully_replicated());
  expect_close(floats(z), floats((counting({16}, 2) + 1) * 3));
}

TEST(Jit, CapturedArraysAreHiddenParameters) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const Array w = put(counting({8}), mesh, P("x"));
  auto inner = jit([w](Array x) { return x * w; });
  auto f = jit([w, inner](Array x) { return inner(x) + inner(x + 1) + w; });
  const Array x = counting({8});
  const Array y = f(x);
  expect_close(floats(y), floats(counting({8}) * (2 * counting({8}) + 2)));
  EXPECT_EQ(y.sharding(), NamedSharding(mesh, P("x")));
  EXPECT_EQ(inner.trace_count(), 1);
  const auto lowered = f.lower(x);
  const std::string text = lowered.as_text();
  EXPECT_EQ(count(text, " constant("), 1u) << text;  // the 1, not w
  EXPECT_TRUE(has(text.substr(text.find("ENTRY")), "parameter(1)")) << text;
  expect_close(lowered.compile()(x), y);
}

TEST(Jit, Tracers) {
  std::optional<Array> leaked;
  auto f = jit([&](Array x) {
    leaked = x + 1;
    return x;
  });
  (void)f(counting({2}));
  ASSERT_TRUE(leaked->is_tracer());
  expect_error<TracerError>([&] { (void)leaked->to_vector<float>(); },
                            {"to_vector", "traced array", "f32[2]", kNear});
  expect_error<TracerError>([&] { (void)(*leaked * 2); }, {"f32[2]", "outside", kNear});
  expect_error<TracerError>([&] { jit([&](Array y) { return y + *leaked; })(counting({2})); },
                            {"jit_fn", "f32[2]", kNear});
  expect_error<TracerError>(
      [] {
        jit([](Array x) {
          if (x.item<float>() > 0) return x;
          return -x;
        })(Array(1.f));
      },
      {"item", "f32[]", "where, cond or while_loop", kNear});
  expect_error<TracerError>(
      [] {
        jit([](Array x) {
          (void)x.sharding();
          return x;
        })(Array(1.f));
      },
      {"sharding", "with_sharding_constraint", kNear});
}

TEST(Jit, Donation) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit([](Array x, Array y) { return x + y; }, {.donate_argnums = {0}, .name = "step"});
  const Array x = put(counting({16}), mesh, P("x")), y = put(counting({16}), mesh, P("x"));
  const Array z = f(x, y);
  EXPECT_TRUE(x.is_deleted());
  EXPECT_FALSE(y.is_deleted());
  expect_close(floats(z), floats(counting({16}, 2)));
  expect_error<RuntimeError>([&] { (void)(x + 1); },
                             {"deleted", "donated to 'step'", "jit_test.cc", kNear});
  // No result has the size: it stays alive.
  auto g = jit([](Array a) { return matmul(a, transpose(a)); }, {.donate_argnums = {0}});
  const Array a = counting({2, 3});
  (void)g(a);
  EXPECT_FALSE(a.is_deleted());
  // The same bytes per device, another shape and sharding.
  auto h = jit(
      [](Array b) {
        return reshape(b, {4, 4});
      },
      {.out_shardings = NamedSharding(mesh, P()), .donate_argnums = {0}});
  const Array b = put(counting({16}), mesh, P());
  expect_close(floats(h(b)), floats(counting({4, 4})));
  EXPECT_TRUE(b.is_deleted());
  // The argument itself comes back as a new array.
  auto same = jit([](Array c) { return c; }, {.donate_argnums = {0}});
  const Array c = counting({4});
  const Array d = same(c);
  EXPECT_TRUE(c.is_deleted());
  expect_close(d, counting({4}));
  // Whole trees.
  auto trees = jit(
      [](Layer l, Array k) {
        return Layer{l.w * k, l.b * k};
      },
      {.donate_argnums = {0}});
  const Layer l{counting({2, 2}), counting({2})};
  const Layer next = trees(l, 2);
  EXPECT_TRUE(l.w.is_deleted() && l.b.is_deleted());
  expect_close(floats(next.b), {0, 2});
  // An uncommitted array that is spread over the devices.
  const Array e = counting({16});
  expect_close(f(e, put(counting({16}), mesh, P())), counting({16}, 2));
  EXPECT_TRUE(e.is_deleted());
  expect_error<ValueError>([&] { jit([](Array v) { return v; }, {.donate_argnums = {1}})(y); },
                           {"donate_argnums", "1", kNear});
  expect_error<ValueError>([] { jit([](Array v) { return v; }, {.donate_argnums = {-1}}); },
                           {"donate_argnums", "-1", kNear});
}

TEST(Jit, UnusedParametersAreLeftOut) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto count_parameters = [](const std::string& text) {
    return count(text.substr(text.find("ENTRY")), " parameter(");
  };
  auto f = [](Array a, Array, Array c, Layer) { return a + c; };
  auto dropped = jit(f);
  auto kept = jit(f, {.keep_unused = true});
  const Array x = counting({8});
  const Array other = device_put(x, devices()[3]);
  const Array a = put(x, mesh, P("x"));
  EXPECT_EQ(count_parameters(dropped.lower(a, x, a, Layer{x, x}).as_text()), 2u);
  EXPECT_EQ(count_parameters(kept.lower(a, x, a, Layer{x, x}).as_text()), 5u);
  expect_close(dropped(a, other, a, {x, x}), counting({8}, 2));
  expect_close(kept(a, x, a, {x, x}), counting({8}, 2));
  expect_error<ValueError>(
      [&] {
        kept(a, other, a, {x, x});
      },
      {"incompatible devices", "argument 1", "devices [3]"});
  const auto compiled = dropped.lower(a, x, a, Layer{x, x}).compile();
  EXPECT_EQ(compiled.input_shardings().size(), 5u);
  expect_close(compiled(a, x, a, {x, x}), counting({8}, 2));
  // Dropped ones are checked all the same.
  expect_error<TypeError>(
      [&] {
        compiled(a, x.astype(s32), a, {x, x});
      },
      {"argument 1", "f32[8]", "s32[8]", kNear});
}

TEST(Jit, NoArgumentsAndNoResults) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto nullary = jit(
      [] {
        return std::pair{arange(16), full({8}, 2.f)};
      },
      {.out_shardings = tree(NamedSharding(mesh, P("x")), UNSPECIFIED)});
  const auto [a, b] = nullary();
  EXPECT_EQ(a.sharding(), NamedSharding(mesh, P("x")));
  EXPECT_EQ(b.devices().size(), 8u);
  EXPECT_EQ(a.to_vector<int>()[15], 15);
  auto none = jit([](Array) { return std::tuple<>(); });
  (void)none(put(counting({8}), mesh, P("x")));
  auto constant = jit([] { return Array(1); });
  EXPECT_EQ(constant().item<int>(), 1);
  const MeshScope scope(mesh);
  EXPECT_EQ(constant().devices().size(), 8u);
}

TEST(Jit, CachesByTypePlacementAndValue) {
  const Mesh mesh = mesh_of({{"x", 8}});
  int runs = 0;
  auto f = jit([&](Array x) {
    ++runs;
    return x + 1;
  });
  const Array x = counting({8});
  (void)f(x), (void)f(x * 2);
  EXPECT_EQ(runs, 1);
  const Array y = put(x, mesh, P("x"));
  (void)f(y);
  EXPECT_EQ(runs, 2);
  // A mesh made again is the same mesh.
  (void)f(put(x, make_mesh({{"x", 8}}), P("x")));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(f.trace_count(), 2);
  EXPECT_EQ(f.cache_size(), 2);
  // Equal programs are compiled once, whoever made them.
  auto one = jit([](Array a) { return a * 5 - 2; });
  auto two = jit([](Array a) { return a * 5 - 2; });
  auto three = jit([](Array a) { return a * 5 - 3; });
  const std::int64_t before = compilation_count();
  (void)one(x), (void)two(x);
  EXPECT_EQ(compilation_count(), before + 1);
  (void)three(x);
  EXPECT_EQ(compilation_count(), before + 2);
  // Eager operations, too; the value of a plain scalar is no part of the program.
  (void)(x + 41);
  const std::int64_t eager = compilation_count();
  (void)(x + 42), (void)(x + 43);
  EXPECT_EQ(compilation_count(), eager);
  // +0.0 and -0.0 are different constants.
  auto plus = jit([](Array a) { return a * 0.0f; });
  auto minus = jit([](Array a) { return a * -0.0f; });
  EXPECT_FALSE(std::signbit(floats(plus(x))[1]));
  EXPECT_TRUE(std::signbit(floats(minus(x))[1]));
}

TEST(Jit, FindsItsProgramsAmongMany) {
  auto f = jit([](Array x, int n) { return x * n; }, static_argnums<1>);
  const Mesh mesh = mesh_of({{"x", 8}});
  for (int round = 0; round < 2; ++round) {
    for (int n = 0; n < 20; ++n) {
      // Shardings made anew are equal to those before.
      const Array x = put(counting({8}), mesh, n % 2 ? P("x") : P());
      expect_close(f(x, n), counting({8}, float(n)));
      expect_close(f(counting({n + 1}), 3), counting({n + 1}, 3));
    }
    EXPECT_EQ(f.trace_count(), 40);
    EXPECT_EQ(f.cache_size(), 40);
  }
}

TEST(Jit, EvictsTheLeastRecentlyCalledProgram) {
  tessera::internal::JitCache cache(10);
  const Mesh mesh = mesh_of({{"x", 8}});
  const auto leaf = [&](int n) { return put(counting({8 * (n + 1)}), mesh, P("x")); };
  const auto call = [](const std::string& signature, const Array& x) {
    tessera::internal::CallInfo info;
    info.signature = signature;
    info.types = tessera::internal::TypeKey::of<Array(Array)>();
    info.leaves = {x};
    return info;
  };
  const auto find = [&](int n) { return cache.find({call("f", leaf(n)), Mesh()}); };
  const auto add = [&](int n) {
    auto entry = std::make_shared<tessera::internal::JitEntry>();
    entry->key = tessera::internal::CallKey::of(call("f", leaf(n)), Mesh());
    return cache.insert(entry);
  };
  std::vector<std::shared_ptr<const tessera::internal::JitEntry>> made;
  for (int n = 0; n < 10; ++n) {
    EXPECT_EQ(find(n), nullptr);
    EXPECT_EQ(add(n), nullptr);
    made.push_back(find(n));
    ASSERT_NE(made.back(), nullptr);
  }
  EXPECT_EQ(find(0), made[0]);  // used: number 1 is the oldest now
  EXPECT_EQ(add(10), made[1]);
  EXPECT_EQ(cache.size(), 10u);
  EXPECT_EQ(find(1), nullptr);
  for (int n : {0, 2, 5, 9}) EXPECT_EQ(find(n), made[std::size_t(n)]) << n;
  // The rest of a call counts too.
  EXPECT_EQ(cache.find({call("g", leaf(0)), Mesh()}), nullptr);
  EXPECT_EQ(cache.find({call("f", leaf(0)), mesh}), nullptr);
  EXPECT_EQ(cache.find({call("f", counting({8})), Mesh()}), nullptr);
  EXPECT_EQ(cache.find({call("f", leaf(0).astype(s32)), Mesh()}), nullptr);
  tessera::internal::CallInfo other = call("f", leaf(0));
  other.types = tessera::internal::TypeKey::of<Array(std::array<Array, 1>)>();
  EXPECT_EQ(cache.find({other, Mesh()}), nullptr);
}

TEST(Jit, Stages) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  auto f = jit(
      [](Layer l, Array x) {
        return std::pair{matmul(x, l.w) + l.b, sum(x)};
      },
      {.donate_argnums = {1}, .name = "dense", .arg_names = {"layer", "x"}});
  const NamedSharding rows(mesh, P("x"));
  const Layer abstract{shape_dtype_struct({4, 8}, f32, NamedSharding(mesh, P(nullptr, "y"))),
                       shape_dtype_struct({8}, f32)};
  const auto lowered = f.lower(abstract, shape_dtype_struct({8, 4}, f32, rows));
  const auto info = lowered.args_info();
  ASSERT_EQ(info.size(), 3u);
  EXPECT_EQ(info[0].path, "layer.w");
  EXPECT_EQ(info[2].path, "x");
  EXPECT_FALSE(info[0].donated);
  EXPECT_TRUE(info[2].donated);
  EXPECT_EQ(info[2].shape, (std::vector<std::int64_t>{8, 4}));
  EXPECT_EQ(lowered.out_info()[0].shape, (std::vector<std::int64_t>{8, 8}));
  EXPECT_FALSE(lowered.out_info()[0].sharding.valid());
  expect_error<ValueError>([&] { (void)lowered.as_text("mhlo"); }, {"mhlo", "hlo", kNear});
  const auto compiled = lowered.compile();
  EXPECT_EQ(compiled.out_info()[0].sharding, NamedSharding(mesh, P("x", "y")));
  EXPECT_EQ(compiled.out_info()[1].path, "[1]");
  EXPECT_TRUE(compiled.args_info()[2].donated);
  EXPECT_EQ(compiled.input_shardings()[2], rows);
  EXPECT_GT(compiled.cost_analysis().flops, 0);
  EXPECT_GE(compiled.memory_analysis().argument_bytes, 4 * (4 * 2 + 8 + 4 * 4));
  EXPECT_EQ(compiled.runtime_executable().hlo_modules()[0].to_string(), compiled.as_text());
  // Compiled twice from one lowering.
  EXPECT_EQ(lowered.compile().as_text(), compiled.as_text());

  const Layer l{put(counting({4, 8}), mesh, P(nullptr, "y")), counting({8})};
  const Array x = put(counting({8, 4}), mesh, P("x"));
  const auto [h, total] = compiled(l, x);
  expect_close(h, matmul(counting({8, 4}), counting({4, 8})) + counting({8}));
  EXPECT_TRUE(total.is_fully_replicated());
  const Array whole = put(counting({8, 4}), mesh, P());
  expect_error<ValueError>([&] { (void)compiled(l, whole); },
                           {"'dense'", "x of", "PartitionSpec('x')", "PartitionSpec()", kNear});
  expect_error<TypeError>(
      [&] {
        (void)compiled({counting({4, 4}), l.b}, x);
      },
      {"'dense'", "layer.w", "f32[4,8]", "f32[4,4]", kNear});
  // Uncommitted arrays are moved.
  expect_close(compiled(Layer{counting({4, 8}), counting({8})}, counting({8, 4})).first, h);

  auto lists = jit([](const std::vector<Array>& v) { return v[0]; });
  const auto two = lists.lower(std::vector<Array>{x, x}).compile();
  expect_error<TypeError>([&] { (void)two({x}); }, {"tree", kNear});
  expect_error<TypeError>([&] { (void)f(abstract, x); }, {"layer.w of 'dense'", "lower()", kNear});
}

TEST(Jit, SeveralThreads) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const Array x = put(counting({16}), mesh, P("x"));
  auto f = jit([](Array a) { return sum(a * a); });
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 5; ++t) {
    threads.emplace_back([&, t] {
      const MeshScope scope(mesh);
      auto own = jit([t](Array a) { return with_sharding_constraint(a, P("x")) + t; });
      for (int k = 0; k < 3; ++k) {
        right += f(x).item<float>() == 1240;
        right += floats(own(x))[3] == float(3 + t);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, 30);
}

TEST(Jit, ResultsMayBeOnAnotherMeshThanTheArguments) {
  const Mesh m = mesh_of({{"x", 8}}), n = mesh_of({{"a", 2}, {"b", 4}});
  const Array x = put(counting({4096}), m, P("x"));
  for (const P& spec : {P("a"), P("b"), P(axes("b", "a"))}) {
    auto f = jit([&](Array v) { return with_sharding_constraint(v * 2, NamedSharding(n, spec)); });
    const Array y = f(x);
    EXPECT_EQ(y.sharding(), NamedSharding(n, spec));
    EXPECT_EQ(floats(y), floats(put(counting({4096}), m, P()) * 2));
    // No device comes to hold everything.
    const std::string text = f.lower(x).compile().as_text();
    EXPECT_EQ(text.find("[4096]"), std::string::npos) << text;
  }
}

TEST(Jit, AcceptsFunctionPointersStdFunctionsAndJittedFunctions) {
  auto f = jit(tessera::sin);
  EXPECT_NEAR(f(Array(1.f)).item<float>(), std::sin(1.f), 1e-6);
  std::function<Array(Array)> g = [](Array x) { return x * 2; };
  EXPECT_EQ(jit(g)(3).item<int>(), 6);
  auto nested = jit(jit([](Array x) { return x - 1; }));
  EXPECT_EQ(nested(3).item<int>(), 2);
}

}  // namespace
}  // namespace tessera::testing
