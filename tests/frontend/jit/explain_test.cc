// SPDX-License-Identifier: Apache-2.0
// explain() of jitted functions: the user's lines, arguments and axes.
#include <tessera/explain.h>

#include <tessera/jit.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/products.h>
#include <tessera/ops/reductions.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

struct Params {
  Array w, b;
};
TESSERA_TREE(Params, w, b)

TEST(ExplainFunction, NamesTheUsersLineArgumentsAndAxes) {
  const Mesh mesh = mesh_of({{"data", 2}, {"model", 4}});
  const int line = __LINE__ + 1;
  auto f = jit([](Array x, Params p) { return tanh(matmul(x, p.w)) + p.b; },
               {.out_shardings = NamedSharding(mesh, P("data", nullptr))});
  const Array x = put(counting({64, 128}), mesh, P("data", nullptr));
  const Params p{put(counting({128, 256}), mesh, P(nullptr, "model")),
                 put(counting({256}), mesh, P())};
  const Explanation e = explain(f, x, p);
  ASSERT_FALSE(e.entries().empty());
  const std::string text = e.to_text();
  EXPECT_TRUE(has(text, "explain_test.cc:" + std::to_string(line))) << text;
  EXPECT_TRUE(has(text, "argument 1.w")) << text;
  EXPECT_TRUE(has(text, "result")) << text;
  EXPECT_TRUE(has(text, "\"model\"")) << text;
  EXPECT_EQ(e.mesh(), "data=2, model=4");
  const Compiled compiled = f.lower(x, p).compile();
  EXPECT_EQ(e.total_bytes(), compiled.cost_analysis().bytes_received);
  EXPECT_EQ(compiled.explain().to_text(), text);
  // Without the wish for the result nothing has to move.
  ASSERT_TRUE(e.entries()[0].suggestion) << text;
  EXPECT_EQ(e.entries()[0].suggestion->target, "result") << text;
  EXPECT_EQ(e.entries()[0].suggestion->spec, "P(\"data\", \"model\")");
  EXPECT_EQ(e.entries()[0].suggestion->total_bytes, 0);
}

TEST(ExplainFunction, OneDeviceHasNoEntries) {
  auto f = jit([](Array x) { return x * 2; });
  const Explanation e = explain(f, counting({8}));
  EXPECT_TRUE(e.entries().empty());
  EXPECT_EQ(e.num_devices(), 1);
  EXPECT_TRUE(has(e.to_text(), "on 1 device: nothing is communicated")) << e.to_text();
}

TEST(ExplainFunction, TheTupleOfResultsIsNoneOfThem) {
  const Mesh mesh = mesh_of({{"data", 8}});
  auto f = jit([](Array x) { return std::pair(sum(x, 0), x * 2); });
  const Explanation e = explain(f, put(counting({64, 128}), mesh, P("data", nullptr)));
  std::size_t results = 0;
  for (const ExplainValue& v : e.values()) {
    results += v.op == "results";
    EXPECT_FALSE(has(v.op, "result[")) << v.name;
  }
  EXPECT_EQ(results, 1u);
}

TEST(ExplainFunction, TakesOptions) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit([](Array a, Array b) { return matmul(a, b); });
  const Array a = put(counting({64, 64}), mesh, P(nullptr, "x"));
  const Array b = put(counting({64, 64}), mesh, P("x", nullptr));
  ExplainOptions options;
  options.suggest = false;
  const Explanation e = f.lower(a, b).explain(options);
  ASSERT_EQ(e.entries().size(), 1u);
  EXPECT_EQ(e.entries()[0].tried, 0);
  EXPECT_TRUE(has(e.entries()[0].from, "unreduced={\"x\"}")) << e.to_text();
  ASSERT_FALSE(e.entries()[0].from_because.empty());
  EXPECT_EQ(e.entries()[0].from_because[0].dim, -1);
}

}  // namespace
}  // namespace tessera::testing
