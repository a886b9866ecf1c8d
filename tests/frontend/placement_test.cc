// SPDX-License-Identifier: Apache-2.0
// Sharding constraints, and arrays made of shards.
#include <tessera/jit.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/products.h>
#include <tessera/ops/reductions.h>
#include <tessera/placement.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

TEST(Constraint, FixesAnIntermediate) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  auto f = jit(
      [&](Array x) { return with_sharding_constraint(x * 2, NamedSharding(mesh, P("y"))) + 1; });
  const Array x = put(counting({8, 4}), mesh, P("x"));
  const auto lowered = f.lower(x);
  EXPECT_TRUE(has(lowered.as_text(), "custom_call_target=\"Sharding\"")) << lowered.as_text();
  const Array y = f(x);
  EXPECT_EQ(y.sharding(), NamedSharding(mesh, P("y")));
  expect_close(floats(y), floats(counting({8, 4}, 2) + 1));
}

TEST(Constraint, UnconstrainedDimsAreLeftToPropagation) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  const Array x = put(counting({8, 8}), mesh, P("x", nullptr));
  auto open = jit([&](Array a) {
    return with_sharding_constraint(a * 2, NamedSharding(mesh, P(UNCONSTRAINED, "y")));
  });
  auto closed = jit([&](Array a) {
    return with_sharding_constraint(a * 2, NamedSharding(mesh, P(nullptr, "y")));
  });
  EXPECT_EQ(open(x).sharding(), NamedSharding(mesh, P("x", "y")));
  EXPECT_TRUE(closed(x).sharding().is_equivalent_to(NamedSharding(mesh, P(nullptr, "y")), 2));
  expect_close(open(x), closed(x));
}

TEST(Constraint, UnevenInsideOfJit) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const NamedSharding split(mesh, P("x"));
  for (std::int64_t n : {1, 3, 8, 9, 13, 17}) {
    auto f = jit([&](Array a) {
      const Array even = with_sharding_constraint(a * 2, split);
      const Array total = sum(even);
      return std::tuple{total, even + 1, max(with_sharding_constraint(even - 100, split))};
    });
    const Array x = put(counting({n}), mesh, P());
    const auto [total, shifted, largest] = f(x);
    EXPECT_EQ(total.item<float>(), float(n * (n - 1)));
    EXPECT_EQ(largest.item<float>(), float(2 * (n - 1) - 100));
    expect_close(floats(shifted), floats(counting({n}, 2) + 1));
    // Results are even at jit's boundary: a dim that doesn't divide is returned unsplit.
    EXPECT_EQ(shifted.sharding().shard_shape({n})[0], n % 8 == 0 ? n / 8 : n) << n;
  }
}

TEST(Constraint, UnevenResultsKeepTheAxesThatDivide) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  auto f = jit([&](Array a) {
    return with_sharding_constraint(a + 1, NamedSharding(mesh, P(axes("x", "y"))));
  });
  const Array y = f(put(counting({6}), mesh, P()));
  EXPECT_TRUE(y.sharding().is_equivalent_to(NamedSharding(mesh, P("x")), 1))
      << y.sharding().to_string();
  expect_close(y, counting({6}) + 1);
}

TEST(Constraint, EagerlyItMoves) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const Array x = counting({16});
  const Array y = with_sharding_constraint(x, NamedSharding(mesh, P("x")));
  EXPECT_EQ(y.sharding(), NamedSharding(mesh, P("x")));
  EXPECT_EQ(floats(y), floats(x));
  {
    const MeshScope scope(mesh);
    EXPECT_EQ(with_sharding_constraint(x, P("x")).sharding(), NamedSharding(mesh, P("x")));
  }
  expect_error<IndivisibleError>(
      [&] { with_sharding_constraint(counting({9}), NamedSharding(mesh, P("x"))); },
      {"with_sharding_constraint's argument", "9", "8", kNear});
}

TEST(Constraint, TreesAndErrors) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  auto f = jit([&](std::pair<Array, std::vector<Array>> t) {
    return with_sharding_constraint(
        t, tree(NamedSharding(mesh, P("x")), NamedSharding(mesh, P(nullptr, "y"))));
  });
  const Array a = put(counting({4}), mesh, P()), b = put(counting({4, 4}), mesh, P());
  const auto out = f(std::pair{a, std::vector<Array>{b, b}});
  EXPECT_EQ(out.first.sharding(), NamedSharding(mesh, P("x")));
  EXPECT_TRUE(out.second[1].sharding().is_equivalent_to(NamedSharding(mesh, P(nullptr, "y")), 2));
  auto bad = jit([&](Array x) {
    return with_sharding_constraint(x, NamedSharding(mesh, P(nullptr, nullptr, nullptr)));
  });
  expect_error<ShardingError>([&] { bad(b); },
                              {"with_sharding_constraint's argument", "rank 2",
                               "PartitionSpec(None, None, None)", "rank 3", kNear});
  auto no_mesh = jit([&](Array x) { return with_sharding_constraint(x, P("x")); });
  expect_error<RuntimeError>([&] { no_mesh(b); },
                             {"with_sharding_constraint", "PartitionSpec('x')", "mesh", kNear});
  const MeshScope scope(mesh);
  EXPECT_EQ(no_mesh(b).sharding(), NamedSharding(mesh, P("x")));
}

TEST(MakeArray, Behaviour_094_CallbacksRunOncePerPart) {
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  int calls = 0;
  const Array whole = counting({8, 3});
  const std::vector<float> all = floats(whole);
  auto part = [&](const Index& index) {
    ++calls;
    const std::int64_t begin = index[0].start.value_or(0), end = index[0].stop.value_or(8);
    return array(std::vector<float>(all.begin() + begin * 3, all.begin() + end * 3),
                 {end - begin, 3});
  };
  const Array x = make_array_from_callback({8, 3}, NamedSharding(mesh, P("x")), part);
  EXPECT_EQ(calls, 4);  // once per distinct index
  EXPECT_EQ(floats(x), all);
  EXPECT_TRUE(x.committed());
  calls = 0;
  EXPECT_EQ(floats(make_array_from_callback({8, 3}, NamedSharding(mesh, P()), part)), all);
  EXPECT_EQ(calls, 1);
}

TEST(MakeArray, Behaviour_092_PartsOfAnotherShape) {
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  expect_error<ShapeError>(
      [&] {
        make_array_from_callback({8, 3}, NamedSharding(mesh, P("x")), [](const Index&) {
          return zeros({3, 3});
        });
      },
      {"[2,3]", "f32[3,3]", "[8,3]", kNear});
  expect_error<ShapeError>(
      [&] {
        make_array_from_callback({8}, NamedSharding(mesh, P("x")), [](const Index& index) {
          return index[0].start.value_or(0) == 0 ? zeros({2}) : zeros({2}, s32);
        });
      },
      {"dtype", "f32", "s32"});
  auto none = [](const Index&) { return zeros({1}); };
  expect_error<IndivisibleError>(
      [&] { make_array_from_callback({9}, NamedSharding(mesh, P("x")), none); },
      {"9", "4", "PartitionSpec('x')", kNear});
}

/// Parts of 0, 1, ..., 15 on eight devices, the last device's first.
std::vector<Array> parts_from_the_last() {
  std::vector<Array> parts;
  for (int i = 7; i >= 0; --i) {
    parts.push_back(device_put(array<float>({float(2 * i), float(2 * i + 1)}), devices()[i]));
  }
  return parts;
}
Array made_of(const std::vector<Array>& parts, Location location = Location::current()) {
  return make_array_from_single_device_arrays({16}, NamedSharding(mesh_of({{"x", 8}}), P("x")),
                                              parts, location);
}

TEST(MakeArray, Behaviour_101_PartsInAnyOrder) {
  const Array x = made_of(parts_from_the_last());
  EXPECT_EQ(floats(x), floats(counting({16})));
  expect_close(x * 2, counting({16}, 2));
}

TEST(MakeArray, Behaviour_096_AsManyPartsAsDevices) {
  const std::vector<Array> parts = parts_from_the_last();
  expect_error<ValueError>(
      [&] {
        made_of({parts.begin(), parts.end() - 1});
      },
      {"8", "7 arrays", kNear});
}

TEST(MakeArray, Behaviour_097_PartsOnDevicesOfTheSharding) {
  const std::vector<Array> parts = parts_from_the_last();
  const Mesh four(std::vector<Device>(devices().begin(), devices().begin() + 4), "x");
  expect_error<ValueError>(
      [&] {
        make_array_from_single_device_arrays({8}, NamedSharding(four, P("x")),
                                             {parts[0], parts[5], parts[6], parts[7]});
      },
      {"[3]", "[7]", kNear});
}

TEST(MakeArray, Behaviour_098_OnePartPerDevice) {
  const std::vector<Array> parts = parts_from_the_last();
  auto twice = parts;
  twice[0] = parts[1];
  expect_error<ValueError>([&] { made_of(twice); }, {"two arrays", "6", kNear});
  auto spread = parts;
  spread[2] = put(zeros({8}), mesh_of({{"x", 8}}), P("x"));
  expect_error<ValueError>([&] { made_of(spread); }, {"one device", "8 shards", kNear});
}

TEST(MakeArray, Behaviour_099_PartsOfOneShapeAndDtype) {
  const std::vector<Array> parts = parts_from_the_last();
  auto wide = parts;
  wide[3] = device_put(zeros({3}), devices()[4]);
  expect_error<ShapeError>([&] { made_of(wide); }, {"[2]", "f32[3]", kNear});
  auto other = parts;
  other[3] = device_put(zeros({2}, s32), devices()[4]);
  expect_error<DTypeError>([&] { made_of(other); }, {"s32[2]", "f32[2]", kNear});
}

}  // namespace
}  // namespace tessera::testing
