// SPDX-License-Identifier: Apache-2.0
// Results that are left as partial sums: their shards, their values, their text.
#include <tessera/tessera.h>

#include <sstream>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

/// x of [8, 8] times ones, summed over the dim that "y" splits, and left so.
Array partial(const Mesh& mesh, const PartitionSpec& out, float scale = 1) {
  auto f = jit([](Array a, Array b) { return matmul(a, b); },
               {.out_shardings = NamedSharding(mesh, out)});
  return f(put(counting({8, 8}, scale), mesh, P("x", "y")), put(ones({8, 2}), mesh, P("y")));
}

std::vector<float> row_sums() {
  std::vector<float> out;
  for (int i = 0; i < 8; ++i) out.insert(out.end(), 2, float(64 * i + 28));
  return out;
}

TEST(Unreduced, ShardsAreEachDevicesSums) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  const Array s = partial(mesh, P("x").with_unreduced({"y"}));
  const std::vector<Shard> shards = s.addressable_shards();
  ASSERT_EQ(shards.size(), 8u);
  for (int i = 0; i < 8; ++i) {
    const Shard& shard = shards[std::size_t(i)];
    const int x = i / 4, y = i % 4;
    EXPECT_EQ(shard.device, mesh.devices()[std::size_t(i)]);
    EXPECT_EQ(shard.index[0], (IndexSlice{4 * x, 4 * x + 4}));
    EXPECT_EQ(shard.index[1], IndexSlice());
    // No device holds what another holds.
    EXPECT_EQ(shard.replica_id, 0);
    std::vector<float> want;
    for (int r = 4 * x; r < 4 * x + 4; ++r) want.insert(want.end(), 2, float(16 * r + 4 * y + 1));
    EXPECT_EQ(floats(shard.data), want) << i;
    EXPECT_EQ(floats(s.addressable_data(std::size_t(i))), want);
  }
}

TEST(Unreduced, ShardsOfCopiesAreNumbered) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 2}, {"z", 2}});
  const Array s = partial(mesh, P("x").with_unreduced({"y"}));
  std::vector<std::int64_t> ids;
  for (const Shard& shard : s.addressable_shards()) ids.push_back(shard.replica_id);
  EXPECT_EQ(ids, (std::vector<std::int64_t>{0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(floats(s), row_sums());
}

TEST(Unreduced, ValuesAreTheSums) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  for (const PartitionSpec& spec :
       {P("x").with_unreduced({"y"}), P().with_unreduced({"y"}), P().with_unreduced({"x", "y"})}) {
    const Array s = partial(mesh, spec);
    EXPECT_EQ(s.sharding(), NamedSharding(mesh, spec));
    EXPECT_EQ(floats(s), row_sums()) << spec.to_string();
    EXPECT_EQ(floats(copy(s)), row_sums());
    EXPECT_EQ(floats(device_put(s, NamedSharding(mesh, P("y")))), row_sums());
    EXPECT_EQ(floats(device_put(s, devices()[0])), row_sums());
    EXPECT_EQ(floats(device_put(s, devices()[5])), row_sums());
    EXPECT_EQ(floats(jit([](Array a) { return a * 2; })(s))[0], 56);
    EXPECT_EQ(floats(s + 1)[0], 29);
    EXPECT_EQ(sum(s).item<float>(), 2 * (64 * 28 + 28 * 8));
  }
}

TEST(Unreduced, PrintTheirValues) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  const Array whole = partial(mesh, P());
  for (const PartitionSpec& spec : {P("x").with_unreduced({"y"}), P().with_unreduced({"x", "y"})}) {
    EXPECT_EQ(to_string(partial(mesh, spec)), to_string(whole));
  }
  EXPECT_TRUE(has(to_string(whole), "[28, 28]"));
}

TEST(Unreduced, AreMadeFromTheirTerms) {
  const Mesh mesh = mesh_of({{"x", 4}});
  std::vector<Array> terms;
  for (int i = 0; i < 4; ++i) {
    terms.push_back(device_put(full({3}, float(1 << i)), mesh.devices()[std::size_t(i)]));
  }
  const NamedSharding sums(mesh, P().with_unreduced({"x"}));
  const Array s = make_array_from_single_device_arrays({3}, sums, terms);
  EXPECT_EQ(floats(s), (std::vector<float>{15, 15, 15}));
  EXPECT_EQ(floats(s.addressable_data(2)), (std::vector<float>{4, 4, 4}));
  // A callback says what the array holds, which no device does.
  expect_error<NotImplementedError>(
      [&] { make_array_from_callback({3}, sums, [](const Index&) { return ones({3}); }); },
      {"unreduced"});
}

TEST(Unreduced, PlacedAsOneTermAndZeros) {
  for (const AxisType type : {AxisType::Auto, AxisType::Explicit}) {
    const Mesh mesh = make_mesh({2, 4}, {"x", "y"}, {type, type});
    const Array whole = counting({8, 2}), split = put(whole, mesh, P("x"));
    for (const PartitionSpec& spec : {P("x").with_unreduced({"y"}), P().with_unreduced({"x", "y"}),
                                      P(nullptr, "x").with_unreduced({"y"})}) {
      for (const Array& from : {whole, split, device_put(whole, devices()[3]),
                                put(whole, mesh, P().with_unreduced({"x"}))}) {
        const Array s = put(from, mesh, spec);
        EXPECT_EQ(s.sharding(), NamedSharding(mesh, spec));
        EXPECT_EQ(floats(s), floats(whole)) << spec.to_string();
        float held = 0;
        for (const Shard& shard : s.addressable_shards()) held += sum(shard.data).item<float>();
        // All of it once.
        EXPECT_EQ(held, sum(whole).item<float>()) << spec.to_string();
        EXPECT_EQ(put(s, mesh, spec).sharding(), s.sharding());
      }
    }
    EXPECT_EQ(floats(put(Array(3.f), mesh, P().with_unreduced({"x"}))), (std::vector<float>{3}));
    expect_error<IndivisibleError>([&] { put(ones({3}), mesh, P("x").with_unreduced({"y"})); },
                                   {"3"});
  }
}

TEST(Unreduced, OfManyTypes) {
  const Mesh mesh = mesh_of({{"x", 4}});
  const NamedSharding sums(mesh, P().with_unreduced({"x"}));
  for (const DType type : {s32, s64, u8, f64, bf16, f16, c64}) {
    std::vector<Array> terms;
    for (int i = 0; i < 4; ++i) {
      terms.push_back(device_put(full({2}, 1 << i).astype(type), mesh.devices()[std::size_t(i)]));
    }
    const Array s = make_array_from_single_device_arrays({2}, sums, terms);
    EXPECT_EQ(to_string(s), to_string(full({2}, 15).astype(type))) << s.type_string();
  }
}

}  // namespace
}  // namespace tessera::testing
