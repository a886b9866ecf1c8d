// SPDX-License-Identifier: Apache-2.0
// Those of behaviours 341 to 362 of docs/reference/behaviours.md that hold within one process.
#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing::one_process {
namespace {

TEST(OneProcess, Behaviour_353_NestedPjitsSeeGlobalShapes) {
  const Mesh mesh = mesh_of({{"x", 4}});
  const MeshScope scope(mesh);
  const std::vector<std::int64_t> whole{16};
  std::vector<std::vector<std::int64_t>> seen;
  const JitOptions halves{.in_shardings = P("x"), .out_shardings = P("x")};
  const auto inner = pjit(
      [&](Array x) {
        seen.push_back(x.shape());
        return x + 1;
      },
      halves);
  const auto middle = pjit(
      [&](Array x) {
        seen.push_back(x.shape());
        const Array y = inner(x) * 2;
        seen.push_back(y.shape());
        return y;
      },
      halves);
  const auto outer = pjit([&](Array x) { return middle(middle(x)); }, halves);
  const Array y = outer(counting({16}));
  EXPECT_GE(seen.size(), 3u);
  for (const auto& shape : seen) EXPECT_EQ(shape, whole);
  expect_close(y, (((counting({16}) + 1) * 2) + 1) * 2);
  EXPECT_EQ(y.addressable_data(0).shape(), (std::vector<std::int64_t>{4}));
}

TEST(OneProcess, Behaviour_354_TypesWithoutRunning) {
  const Mesh mesh = mesh_of({{"x", 4}});
  const auto make = jit([] { return std::pair(ones({1 << 20}), arange(8)); },
                        {.out_shardings = tree(NamedSharding(mesh, P("x")), UNSPECIFIED)});
  reset_peak_memory(devices()[0]);
  const std::int64_t before = memory_stats(devices()[0]).peak;
  const auto out = make.lower().out_info();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].shape, (std::vector<std::int64_t>{1 << 20}));
  EXPECT_EQ(out[0].dtype, DType::f32);
  EXPECT_EQ(out[1].dtype, DType::s32);
  EXPECT_EQ(memory_stats(devices()[0]).peak, before);
}

TEST(OneProcess, Behaviour_357_ASecondCallPlacesNothing) {
  const Mesh mesh = mesh_of({{"x", 4}});
  const Array x = put(counting({1 << 16}), mesh, P("x"));
  const auto f = jit([](Array a) { return std::pair(a, sum(a)); },
                     {.in_shardings = tree(NamedSharding(mesh, P("x")))});
  const auto first = f(x);
  // What isn't changed is passed on: the second call holds some numbers more.
  reset_peak_memory(devices()[0]);
  const std::int64_t before = memory_stats(devices()[0]).current;
  const auto second = f(x);
  EXPECT_LE(memory_stats(devices()[0]).peak, before + 64);
  EXPECT_EQ(f.trace_count(), 1);
  EXPECT_EQ(f.cache_size(), 1);
  EXPECT_TRUE(second.first.sharding() == x.sharding());
}

}  // namespace
}  // namespace tessera::testing::one_process
