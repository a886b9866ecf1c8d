// SPDX-License-Identifier: Apache-2.0
// Behaviours 161 to 188 of docs/reference/behaviours.md: donation, caches, stages and texts of jit.
#include <tessera/derivatives.h>
#include <tessera/jit.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include <tessera/control_flow.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/products.h>
#include <tessera/ops/reductions.h>

#include "src/base/log.h"
#include "src/frontend/run/execute.h"
#include "tests/frontend/frontend_testing.h"

// Compiled apart: includes private headers, whose `internal` others take for testing::internal.
namespace tessera::testing {
namespace {

using frontend::compilation_count;

/// What is logged while it lives, info included.
class LogCapture {
 public:
  LogCapture() {
    if (const char* level = std::getenv("TESSERA_LOG")) level_ = level;
    setenv("TESSERA_LOG", "info", 1);
    set_log_sink([this](LogLevel, const std::string& line) { text += line + "\n"; });
  }
  ~LogCapture() {
    set_log_sink({});
    if (level_) {
      setenv("TESSERA_LOG", level_->c_str(), 1);
    } else {
      unsetenv("TESSERA_LOG");
    }
  }
  std::string text;

 private:
  std::optional<std::string> level_;
};

TEST(Stages, OtherDevicesOfAnEqualMeshAreNamed) {
  const Mesh mesh = mesh_of({{"x", 4}});
  std::vector<Device> reversed = mesh.devices();
  std::reverse(reversed.begin(), reversed.end());
  const Mesh other(reversed, {4}, {"x"});
  const auto c =
      jit([](Array x) { return x + 1; }).lower(put(counting({8}), mesh, P("x"))).compile();
  try {
    c(put(counting({8}), other, P("x")));
    FAIL() << "nothing was thrown";
  } catch (const ValueError& e) {
    EXPECT_NE(e.message().find("on devices 0 1 2 3 and is sharded as"), std::string::npos)
        << e.message();
    EXPECT_NE(e.message().find("on devices 3 2 1 0"), std::string::npos) << e.message();
  }
}

TEST(Donation, IsInTheTextAndTheMemoryAnalysis) {
  auto f = jit([](Array x, Array y) { return x * 2 + y; }, {.donate_argnums = {0}});
  const Compiled c = f.lower(ones({8, 8}), ones({8, 8})).compile();
  EXPECT_EQ(c.memory_analysis().alias_bytes, 256);
  EXPECT_NE(c.as_text().find("input_output_alias={ {0}: (0, {}, may-alias) }"), std::string::npos)
      << c.as_text();
}

TEST(Donation, Behaviour_161_DonatedArgumentsAreDeleted) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit([](Array x, Array y) { return x * 2 + y; }, {.donate_argnums = {0}});
  const Array x = put(counting({8}), mesh, P("x")), y = put(counting({8}), mesh, P("x"));
  expect_close(floats(f(x, y)), floats(counting({8}, 3)));
  EXPECT_TRUE(x.is_deleted());
  EXPECT_FALSE(y.is_deleted());
  using Tree = std::map<std::string, std::pair<Array, Array>>;
  auto g = jit([](Tree t, Array k) { return tree_map([&](const Array& a) { return a + k; }, t); },
               {.donate_argnums = {0}});
  const Tree t{{"a", {counting({2}), counting({3})}}, {"b", {counting({4}), counting({5})}}};
  const Tree next = g(t, 1);
  for (const Array& leaf : tree_leaves(t)) EXPECT_TRUE(leaf.is_deleted());
  expect_close(floats(next.at("b").second), {1, 2, 3, 4, 5});
}

TEST(Donation, Behaviour_162_UnusableDonationsStayAlive) {
  LogCapture log;
  auto f =
      jit([](Array x) { return matmul(x, transpose(x)); }, {.donate_argnums = {0}, .name = "gram"});
  const Array x = counting({2, 3});
  (void)f(x);
  EXPECT_FALSE(x.is_deleted());
  EXPECT_TRUE(has(log.text, "argument 0 of 'gram' (f32[2,3]) is not usable")) << log.text;
}

TEST(Donation, Behaviour_163_SameBytesInAnotherShape) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  auto f = jit(
      [](Array a, Array b) {
        return std::pair{reshape(a, {4, 16}) + 1, transpose(b)};
      },
      {.out_shardings = tree(NamedSharding(mesh, P("y")), NamedSharding(mesh, P("x"))),
       .donate_argnums = {0, 1}});
  const Array a = put(counting({8, 8}), mesh, P("x", nullptr)),
              b = put(counting({4, 8}), mesh, P("x"));
  const auto [c, d] = f(a, b);
  expect_close(floats(c), floats(counting({64}) + 1));
  expect_close(d, transpose(counting({4, 8})));
  // a has 32 numbers per device and no result has; b's 16 fit a result of 16.
  EXPECT_FALSE(a.is_deleted());
  EXPECT_TRUE(b.is_deleted());
}

TEST(Donation, Behaviour_164_ResultsChosenByPropagation) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit(
      [](Array a, Array b) {
        return std::pair{a + 1, b + 1};
      },
      {.donate_argnums = {0, 1}});
  const Array split = put(counting({8}), mesh, P("x")), whole = put(counting({8}), mesh, P());
  const auto [a, b] = f(split, whole);
  EXPECT_TRUE(split.is_deleted());
  EXPECT_TRUE(whole.is_deleted());
  EXPECT_EQ(a.sharding(), NamedSharding(mesh, P("x")));
  EXPECT_TRUE(b.is_fully_replicated());
}

TEST(Donation, Behaviour_165_UncommittedArraysThatAreReplicated) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit([](Array a, Array b) { return a + b; },
               {.out_shardings = NamedSharding(mesh, P()), .donate_argnums = {0}});
  const Array a = counting({8});
  expect_close(f(a, put(counting({8}), mesh, P())), counting({8}, 2));
  EXPECT_TRUE(a.is_deleted());
}

TEST(Donation, Behaviour_166_TheArgumentItselfAsResult) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit([](Array a) { return a; }, {.donate_argnums = {0}});
  const Array a = put(counting({8}), mesh, P("x"));
  const Array b = f(a);
  EXPECT_TRUE(a.is_deleted());
  expect_close(b, counting({8}));
  expect_close(b + 1, counting({8}) + 1);
}

TEST(Caching, Behaviour_168_MeshesMadeAgain) {
  int runs = 0;
  auto f = pjit(
      [&](Array x) {
        ++runs;
        return x + 1;
      },
      {.in_shardings = P("x"), .out_shardings = P("x")});
  for (int i = 0; i < 2; ++i) {
    const Mesh mesh(devices(), {4, 2}, {"x", "y"});
    const MeshScope scope(mesh);
    (void)f(counting({8}));
  }
  EXPECT_EQ(runs, 1);
}

// What behaviour 169 says of gradients, for one written by hand: the second call traces and
// compiles nothing, of the functions inside neither.
TEST(Caching, GradientsWrittenByHand) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const MeshScope scope(mesh);
  auto layer = pjit([](Array w, Array x) { return tanh(matmul(x, w)); }, {.name = "layer"});
  auto gradient = pjit(
      [&](Array w, Array x) {
        const Array h = layer(w, x);
        return matmul(transpose(x), (1 - h * h) * (2.f / float(h.size())) * h);
      },
      {.out_shardings = P("x")});
  const Array w = put(counting({8, 8}, 0.01f), mesh, P("x"));
  const Array x = put(counting({16, 8}, 0.01f), mesh, P("x"));
  const Array first = gradient(w, x);
  const std::int64_t compiled = compilation_count();
  const Array second = gradient(w, x);
  EXPECT_EQ(gradient.trace_count(), 1);
  EXPECT_EQ(layer.trace_count(), 1);
  EXPECT_EQ(compilation_count(), compiled);
  expect_close(first, second, 0);
}

TEST(Caching, Behaviour_169_GradientsOfPjit) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const MeshScope scope(mesh);
  auto loss = pjit([](Array w, Array x) { return sum(tanh(matmul(x, w))); }, {.name = "loss"});
  const Array w = put(counting({8, 8}, 0.01f), mesh, P("x"));
  const Array x = put(counting({16, 8}, 0.01f), mesh, P("x"));
  const auto eager = grad(loss);
  const Array first = eager(w, x);
  auto step = pjit([&](Array w, Array x) { return grad(loss)(w, x); });
  expect_close(step(w, x), first);
  const std::int64_t compiled = compilation_count(), traced = step.trace_count();
  expect_close(eager(w, x), first, 0);
  expect_close(step(w, x), first);
  EXPECT_EQ(compilation_count(), compiled);
  EXPECT_EQ(step.trace_count(), traced);
  EXPECT_EQ(first.sharding(), w.sharding());
}

TEST(Caching, Behaviour_170_WrappingAgain) {
  const Array x = counting({8});
  auto body = [](Array a) { return a * 17 + 4; };
  const std::int64_t before = compilation_count();
  for (int i = 0; i < 10; ++i) (void)jit(body)(x);
  EXPECT_EQ(compilation_count(), before + 1);
  for (int i = 0; i < 10; ++i) (void)jit([i](Array a) { return a * 19 + i; })(x);
  EXPECT_EQ(compilation_count(), before + 11);
}

TEST(Caching, VariablesOfTheCompilerAreInTheKey) {
  const Array x = counting({8});
  const auto compile = [&] { (void)jit([](Array a) { return a * 29 + 1; })(x); };
  compile();
  const std::int64_t before = compilation_count();
  compile();
  EXPECT_EQ(compilation_count(), before);
  setenv("TESSERA_FULL_GATHER", "error", 1);
  compile();
  compile();
  unsetenv("TESSERA_FULL_GATHER");
  EXPECT_EQ(compilation_count(), before + 1);
  setenv("TESSERA_WINDOW_DOTS_FROM", "4096", 1);
  compile();
  unsetenv("TESSERA_WINDOW_DOTS_FROM");
  EXPECT_EQ(compilation_count(), before + 2);
  compile();
  EXPECT_EQ(compilation_count(), before + 2);
}

TEST(Caching, Behaviour_171_OtherDevicesRunTheSameProgram) {
  auto f = jit([](Array a) { return a * 23 + sum(a); });
  const std::vector<Device> all = devices();
  const Mesh low({all.begin(), all.begin() + 4}, "x"), high({all.begin() + 4, all.end()}, "x");
  const Array a = f(put(counting({8}), low, P("x")));
  const std::int64_t before = compilation_count();
  const Array b = f(put(counting({8}), high, P("x")));
  EXPECT_EQ(compilation_count(), before);
  EXPECT_EQ(b.sharding(), NamedSharding(high, P("x")));
  expect_close(a, b);
}

TEST(Caching, Behaviour_173_MissesAreExplained) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit([](Array a, std::vector<Array> b, int n) { return a * n + b[0]; }, static_argnums<2>,
               {.name = "step", .arg_names = {"a", "b"}});
  const Array x = put(counting({8}), mesh, P("x"));
  LogCapture log;
  auto expect = [&](const std::vector<std::string>& parts) {
    for (const std::string& part : parts)
      EXPECT_TRUE(has(log.text, part)) << part << " in\n" << log.text;
    log.text.clear();
  };
  (void)f(x, {x}, 1);
  expect({"tracing 'step'", here(-1), "first call"});
  (void)f(x, {x}, 1);
  EXPECT_EQ(log.text, "");
  (void)f(x, {put(counting({8}).astype(s32), mesh, P("x"))}, 1);
  expect({"b[0] of 'step' is s32[8]", "was f32[8]", "PartitionSpec('x')"});
  (void)f(put(counting({8}), mesh, P()), {x}, 1);
  expect({"a of 'step' is f32[8]", "as PartitionSpec(), was f32[8]", "as PartitionSpec('x')"});
  (void)f(x, {x}, 2);
  expect({"argument 2 of 'step' (static) is 2, was 1"});
  (void)f(counting({8}), {x}, 1);
  expect({"a of 'step' is f32[8], not committed to devices, was f32[8] on Mesh('x': 8"});
  (void)f(3, {x}, 1);
  expect({"a of 'step' is s32[] (a plain number)"});
  (void)f(x, {x, x}, 1);
  expect({"the arrays in the arguments are a, b[0], b[1], were a, b[0]"});
  {
    const MeshScope scope(mesh);
    (void)f(x, {x}, 1);
    expect({"the mesh in scope is Mesh('x': 8", "was none"});
  }
  clear_caches();
  (void)f(x, {x}, 1);
  expect({"first call after clear_caches()"});
}

TEST(Caching, Behaviour_173_WhatAloneDiffersIsShown) {
  const Mesh mesh = mesh_of({{"x", 4}});
  std::vector<Device> reversed = mesh.devices();
  std::reverse(reversed.begin(), reversed.end());
  const Mesh other(reversed, {4}, {"x"});
  const Mesh typed = make_mesh({4}, {"x"}, {AxisType::Explicit});
  auto f = jit([](Array a) { return a + 1; }, {.name = "g", .arg_names = {"a"}});
  (void)f(put(counting({8}), mesh, P("x")));
  LogCapture log;
  (void)f(put(counting({8}), other, P("x")));
  EXPECT_TRUE(has(log.text, "on devices 3 2 1 0, was f32[8] on ")) << log.text;
  EXPECT_TRUE(has(log.text, "on devices 0 1 2 3")) << log.text;
  log.text.clear();
  (void)f(put(counting({8}), typed, P("x")));
  EXPECT_TRUE(has(log.text, "axis_types=(Explicit,)) as")) << log.text;
  log.text.clear();
  // The C++ types of arguments.
  auto generic = jit([](auto tree) { return tree[0] + 1; }, {.name = "h"});
  (void)generic(std::vector<Array>{counting({2})});
  (void)generic(std::array<Array, 1>{counting({2})});
  EXPECT_TRUE(has(log.text, "the C++ types are ")) << log.text;
  EXPECT_TRUE(has(log.text, ", were ")) << log.text;
}

/// A static argument whose values have no text.
struct Opaque {
  std::shared_ptr<int> value;
  bool operator==(const Opaque& other) const { return *value == *other.value; }
};

TEST(Caching, Behaviour_173_StaticValuesWithoutText) {
  auto f = jit([](Opaque o, Array a) { return a + *o.value; }, static_argnames<"offset">,
               arg_names<"offset", "a">, {.name = "f"});
  LogCapture log;
  (void)f(Opaque{std::make_shared<int>(1)}, counting({2}));
  log.text.clear();
  (void)f(Opaque{std::make_shared<int>(1)}, counting({2}));
  EXPECT_EQ(log.text, "");
  (void)f(Opaque{std::make_shared<int>(2)}, counting({2}));
  EXPECT_TRUE(has(log.text, "offset of 'f' (static) isn't equal to that of the earlier call"))
      << log.text;
}

TEST(Caching, Behaviour_173_MissesOfCallsWithinPrograms) {
  auto inner = jit([](Array a, int n) { return a * n; }, static_argnames<"n">, arg_names<"a", "n">,
                   {.name = "inner"});
  LogCapture log;
  auto outer = jit(
      [&](Array a, Array b) {
        const Array once = inner(a, 2) + inner(a, 2);
        return std::tuple(once, inner(b, 2), inner(a, 3));
      },
      {.name = "outer"});
  (void)outer(counting({4}), counting({2, 3}));
  EXPECT_EQ(count(log.text, "tracing 'inner' within 'outer'"), 3u) << log.text;
  EXPECT_TRUE(has(log.text, "its first call in this program")) << log.text;
  EXPECT_TRUE(has(log.text, "a of 'inner' is f32[2,3], was f32[4]\n")) << log.text;
  EXPECT_TRUE(has(log.text, "n of 'inner' (static) is 3, was 2\n")) << log.text;
}

TEST(Caching, Behaviour_173_MissesAreExplainedOnRequest) {
  std::string warnings;
  set_log_sink([&](LogLevel level, const std::string& line) {
    if (level == LogLevel::warning) warnings += line + "\n";
  });
  auto f = jit([](Array a) { return a * 37 - 4; }, {.name = "asked"});
  (void)f(counting({3}));
  EXPECT_EQ(warnings, "");
  setenv("TESSERA_EXPLAIN_CACHE_MISSES", "1", 1);
  (void)f(counting({3}));
  EXPECT_EQ(warnings, "");
  (void)f(counting({5}));
  unsetenv("TESSERA_EXPLAIN_CACHE_MISSES");
  set_log_sink({});
  EXPECT_TRUE(has(warnings, "tracing 'asked'")) << warnings;
  EXPECT_TRUE(has(warnings, "argument 0 of 'asked' is f32[5], was f32[3]")) << warnings;
  EXPECT_TRUE(has(warnings, "compiling 'asked': no program with the same text")) << warnings;
}

TEST(Caching, Behaviour_174_InnerFunctionsAreLoweredOnce) {
  auto inner = jit([](Array x) { return sin(x); }, {.name = "inner"});
  auto one = jit([&](Array x) { return inner(inner(inner(inner(x)))); });
  const std::string text = one.lower(counting({3})).as_text();
  EXPECT_EQ(inner.trace_count(), 1);
  EXPECT_EQ(count(text, " sine("), 1u) << text;
  auto left = jit([&](Array x) { return inner(x); }), right = left;
  auto both = jit([&](Array x) { return left(x) + right(x) + inner(x); });
  EXPECT_EQ(count(both.lower(counting({3})).as_text(), " sine("), 1u);
}

TEST(Stages, Behaviour_175_LowerCompileCall) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit([](Array a, Array b) { return a + b; }, {.donate_argnums = {1}});
  const auto lowered =
      f.lower(shape_dtype_struct({8}, f32, NamedSharding(mesh, P("x"))), counting({8}));
  EXPECT_EQ(lowered.args_info()[0].donated, false);
  EXPECT_EQ(lowered.args_info()[1].donated, true);
  const auto compiled = lowered.compile();
  EXPECT_EQ(compiled.args_info()[1].donated, true);
  expect_close(compiled(counting({8}), counting({8})), counting({8}, 2));
  EXPECT_EQ(f.cache_size(), 0);
}

TEST(Stages, Behaviour_176_OtherTreesAndTypes) {
  using Tree = std::map<std::string, Array>;
  auto f = jit([](Tree t, Array, Array c) { return t.at("a") + c; },
               {.name = "f", .arg_names = {"t", "unused", "c"}});
  const Array x = counting({4});
  const auto compiled = f.lower(Tree{{"a", x}}, x, x).compile();
  expect_close(compiled(Tree{{"a", x}}, x, x), x * 2);
  expect_error<TypeError>(
      [&] {
        (void)compiled(Tree{{"b", x}}, x, x);
      },
      {"'f'", "tree", "'a'", "'b'", kNear});
  const std::string text = expect_error<TypeError>(
      [&] {
        (void)compiled(Tree{{"a", x}}, x.astype(s32), counting({5}));
      },
      {"unused of 'f'", "f32[4]", "s32[4]", "c of 'f'", "f32[5]", kNear});
  EXPECT_FALSE(has(text, "t['a'] of")) << text;
}

TEST(Stages, Behaviour_177_OtherShardings) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit([](Array a, Array b, Array c) { return a + b + c; });
  const Array split = put(counting({8}), mesh, P("x")), whole = put(counting({8}), mesh, P());
  const auto compiled = f.lower(split, split, split).compile();
  const std::string text = expect_error<ValueError>(
      [&] { (void)compiled(whole, split, whole); },
      {"argument 0", "argument 2", "PartitionSpec('x')", "PartitionSpec()", kNear});
  EXPECT_FALSE(has(text, "argument 1")) << text;
  expect_close(compiled(split, counting({8}), split), counting({8}, 3));
}

TEST(Stages, Behaviour_181_UnusedArgumentsHaveShardings) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit([](Array, Array b) { return b; });
  const auto compiled = f.lower(counting({4}), put(counting({8}), mesh, P("x"))).compile();
  ASSERT_EQ(compiled.input_shardings().size(), 2u);
  EXPECT_EQ(compiled.input_shardings()[1], NamedSharding(mesh, P("x")));
}

TEST(Stages, Behaviour_182_Analyses) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit([](Array a) { return matmul(a, transpose(a)); },
               {.out_shardings = NamedSharding(mesh, P())});
  const auto compiled = f.lower(put(counting({8, 16}), mesh, P("x"))).compile();
  EXPECT_GE(compiled.cost_analysis().flops, 2.0 * 8 * 8 * 16 / 8);
  EXPECT_GT(compiled.cost_analysis().bytes_received, 0);
  EXPECT_EQ(compiled.memory_analysis().argument_bytes, 4 * 16);
  EXPECT_EQ(compiled.memory_analysis().output_bytes, 4 * 64);
  ASSERT_FALSE(compiled.collectives().empty());
  EXPECT_TRUE(has(compiled.collectives()[0].location, "behaviours_stages_test.cc"));
}

TEST(Stages, Behaviour_184_CompilingInThreads) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const Array x = put(counting({8}), mesh, P("x"));
  auto f = jit([](Array a) { return cumsum(a) * 31; });
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 5; ++t) {
    threads.emplace_back([&] { right += floats(f.lower(x).compile()(x))[7] == 28 * 31; });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, 5);
}

TEST(Stages, Behaviour_185_MeshScopesOfThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 10; ++t) {
    threads.emplace_back([&, t] {
      const Mesh mesh = t % 2 ? mesh_of({{"x", 8}}) : mesh_of({{"x", 2}, {"y", 4}});
      const MeshScope scope(mesh);
      auto f =
          pjit([t](Array a) { return a * t; }, {.in_shardings = P("x"), .out_shardings = P("x")});
      for (int k = 0; k < 2; ++k) {
        const Array y = f(counting({8}));
        right += floats(y)[5] == float(5 * t) && y.sharding() == NamedSharding(mesh, P("x"));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, 20);
}

TEST(Stages, Behaviour_188_TextsShowShardings) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  auto f = jit(
      [&](Array a) {
        return with_sharding_constraint(a * 2, NamedSharding(mesh, P(UNCONSTRAINED, nullptr)));
      },
      {.in_shardings = NamedSharding(mesh, P("x", "y")),
       .out_shardings = NamedSharding(mesh, P(nullptr, "x"))});
  const std::string text = f.lower(counting({8, 8})).as_text();
  EXPECT_TRUE(has(text, "num_partitions=8")) << text;
  EXPECT_TRUE(has(text, "sharding={devices=[2,4]<=[8]}")) << text;
  EXPECT_TRUE(has(text, "custom_call_target=\"Sharding\"")) << text;
  EXPECT_TRUE(has(text, "{?}")) << text;
  EXPECT_TRUE(has(text, "[1,2,4]<=[8] last_tile_dim_replicate")) << text;
}

}  // namespace
}  // namespace tessera::testing
