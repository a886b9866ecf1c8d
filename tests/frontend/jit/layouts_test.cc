// SPDX-License-Identifier: Apache-2.0
// The policy of layouts in each interface: jit, pjit, stages, explain, loaded programs,
// environment.
#include <tessera/sharding/layouts.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <tuple>

#include <unistd.h>

#include <tessera/explain.h>
#include <tessera/jit.h>
#include <tessera/load.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/products.h>

#include "src/frontend/run/execute.h"
#include "tests/frontend/frontend_testing.h"

// Compiled apart: includes private headers, whose `internal` others take for testing::internal.
namespace tessera::testing {
namespace {

using frontend::compilation_count;
using Two = std::tuple<Array, Array>;

/// TESSERA_LAYOUTS for the time of one test.
class Variable {
 public:
  explicit Variable(const char* value) { ::setenv("TESSERA_LAYOUTS", value, 1); }
  ~Variable() { ::unsetenv("TESSERA_LAYOUTS"); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
};

/// A hidden layer and the gradient of its weights, which needs the same input whole: propagation
/// alone moves more than a search does.
Two step(const Array& x, const Array& w, const Array& dy) {
  const Array t = tanh(matmul(x, w));
  return {t, einsum("bi,bo->io", x, dy * t)};
}

struct Arguments {
  Mesh mesh = mesh_of({{"m", 8}});
  Array x = put(counting({32, 64}, 0.001f), mesh, P(nullptr, "m"));
  Array w = put(counting({64, 128}, 0.0001f), mesh, P());
  Array dy = put(counting({32, 128}, 0.001f), mesh, P(nullptr, "m"));
  NamedSharding columns = NamedSharding(mesh, P(nullptr, "m"));

  JitOptions options(std::optional<Layouts> layouts) const {
    return {.out_shardings = columns, .layouts = layouts};
  }
  CompiledFunction<Two, std::tuple<Array, Array, Array>> compile(
      std::optional<Layouts> layouts) const {
    return jit(step, options(layouts)).lower(x, w, dy).compile();
  }
};

TEST(Layouts, JitTakesThePolicy) {
  const Arguments a;
  const auto solved = a.compile(Layouts::solved), propagated = a.compile(Layouts::propagated);
  EXPECT_EQ(solved.layouts(), Layouts::solved);
  EXPECT_EQ(propagated.layouts(), Layouts::propagated);
  EXPECT_LT(solved.cost_analysis().bytes_received, propagated.cost_analysis().bytes_received);
  // A search is what there is without a word.
  const auto usual = a.compile(std::nullopt);
  EXPECT_EQ(usual.layouts(), Layouts::solved);
  EXPECT_EQ(usual.as_text(), solved.as_text());
  const auto [t, g] = propagated(a.x, a.w, a.dy);
  const auto [u, h] = solved(a.x, a.w, a.dy);
  expect_close(t, u);
  expect_close(g, h);
  EXPECT_TRUE(t.sharding().is_equivalent_to(a.columns, 2));
}

TEST(Layouts, EachPolicyHasItsOwnPrograms) {
  const Arguments a;
  clear_caches();
  const std::int64_t before = compilation_count();
  auto solved = jit(step, a.options(Layouts::solved));
  auto propagated = jit(step, a.options(Layouts::propagated));
  auto again = pjit(step, a.options(Layouts::propagated));
  const auto [t, g] = solved(a.x, a.w, a.dy);
  EXPECT_EQ(compilation_count(), before + 1);
  const auto [u, h] = propagated(a.x, a.w, a.dy);
  EXPECT_EQ(compilation_count(), before + 2);
  (void)again(a.x, a.w, a.dy);
  EXPECT_EQ(compilation_count(), before + 2);
  EXPECT_EQ(again.lower(a.x, a.w, a.dy).compile().layouts(), Layouts::propagated);
  expect_close(t, u);
  expect_close(g, h);
}

TEST(Layouts, ExplanationsDescribeTheCompiledProgram) {
  const Arguments a;
  for (const Layouts layouts : {Layouts::solved, Layouts::propagated}) {
    auto f = jit(step, a.options(layouts));
    const Explanation e = explain(f, a.x, a.w, a.dy);
    const auto compiled = f.lower(a.x, a.w, a.dy).compile();
    EXPECT_EQ(e.layouts(), layouts);
    EXPECT_EQ(e.total_bytes(), compiled.cost_analysis().bytes_received);
    EXPECT_EQ(compiled.explain().to_text(), e.to_text());
    EXPECT_TRUE(has(e.to_text(), "layouts " + to_string(layouts))) << e.to_text();
    EXPECT_TRUE(has(e.to_json(), "\"layouts\":\"" + to_string(layouts) + "\"")) << e.to_json();
  }
}

TEST(Layouts, TheOuterFunctionsPolicyApplies) {
  const Arguments a;
  auto inner = jit(step, a.options(Layouts::solved));
  auto outer = jit([&](Array x, Array w, Array dy) { return inner(x, w, dy); },
                   a.options(Layouts::propagated));
  const auto compiled = outer.lower(a.x, a.w, a.dy).compile();
  EXPECT_EQ(compiled.layouts(), Layouts::propagated);
  EXPECT_EQ(compiled.cost_analysis().bytes_received,
            a.compile(Layouts::propagated).cost_analysis().bytes_received);
}

TEST(Layouts, TheVariableAppliesIfTheProgramStatesNothing) {
  const Arguments a;
  auto kept = jit(step, a.options(std::nullopt));
  (void)kept(a.x, a.w, a.dy);
  {
    const Variable v("propagated");
    EXPECT_EQ(a.compile(std::nullopt).layouts(), Layouts::propagated);
    EXPECT_EQ(a.compile(Layouts::solved).layouts(), Layouts::solved);
    EXPECT_EQ(explain(jit(step, a.options(std::nullopt)), a.x, a.w, a.dy).layouts(),
              Layouts::propagated);
    // What is compiled already stays as it is.
    const std::int64_t before = compilation_count();
    (void)kept(a.x, a.w, a.dy);
    EXPECT_EQ(compilation_count(), before);
  }
  const Variable bad("fast");
  expect_error<ValueError>([&] { (void)a.compile(std::nullopt); },
                           {"TESSERA_LAYOUTS", "'fast'", "propagated, solved"});
  EXPECT_EQ(a.compile(Layouts::propagated).layouts(), Layouts::propagated);
}

TEST(Layouts, MemoryIsBounded) {
  const Arguments a;
  const auto bytes = [&](std::optional<std::int64_t> budget) {
    JitOptions options = a.options(Layouts::solved);
    options.memory_budget = budget;
    return jit(step, options).lower(a.x, a.w, a.dy).compile().cost_analysis().bytes_received;
  };
  const double propagated = a.compile(Layouts::propagated).cost_analysis().bytes_received;
  // There is no program for so little: the propagated one stays.
  EXPECT_EQ(bytes(1), propagated);
  EXPECT_LT(bytes(1 << 30), propagated);
  expect_error<ValueError>([] { (void)jit(step, {.memory_budget = 0}); },
                           {"memory_budget is 0", "at least 1", kNear});
}

TEST(Layouts, NamesAreReadAndRefused) {
  for (const Layouts layouts : {Layouts::solved, Layouts::propagated}) {
    EXPECT_EQ(parse_layouts(to_string(layouts)), layouts);
  }
  expect_error<ValueError>([] { (void)parse_layouts("fast"); },
                           {"layouts is 'fast'", "valid: propagated, solved", kNear});
  expect_error<ValueError>([] { (void)jit(step, {.layouts = static_cast<Layouts>(7)}); },
                           {"layouts is 7", "valid: propagated, solved", kNear});
}

TEST(Layouts, LoadedProgramsTakeThePolicy) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("tessera_layouts_" + std::to_string(getpid())))
          .string();
  std::ofstream(path) << R"(HloModule step, num_partitions=8
ENTRY main {
  x = f32[32,64] parameter(0), sharding={devices=[1,8]<=[8]}
  w = f32[64,128] parameter(1), sharding={replicated}
  dy = f32[32,128] parameter(2), sharding={devices=[1,8]<=[8]}
  h = f32[32,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[32,128] tanh(h)
  dh = f32[32,128] multiply(dy, t)
  g = f32[64,128] dot(x, dh), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT r = (f32[32,128], f32[64,128]) tuple(t, g),
    sharding={{devices=[1,8]<=[8]}, {devices=[1,8]<=[8]}}
})";
  const Arguments a;
  const std::vector<Array> args{a.x, a.w, a.dy};
  const auto solved = load_hlo(path, {.layouts = Layouts::solved});
  const auto propagated = load_hlo(path, {.layouts = Layouts::propagated});
  clear_caches();
  const std::int64_t before = compilation_count();
  const std::vector<Array> s = solved(args), p = propagated(args);
  EXPECT_EQ(compilation_count(), before + 2);
  for (std::size_t k = 0; k < s.size(); ++k) expect_close(s[k], p[k]);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tessera::testing
