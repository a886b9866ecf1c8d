// SPDX-License-Identifier: Apache-2.0
// Arrays: placement, shards, transfers, deletion.
#include <tessera/array.h>
#include <tessera/jit.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/products.h>
#include <tessera/ops/reductions.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

TEST(Array, ScalarsAreWeak) {
  const Array i = 3, f = 2.5f, b = true, d = 1.5;
  EXPECT_EQ(i.dtype(), s32);
  EXPECT_EQ(f.dtype(), f32);
  EXPECT_EQ(b.dtype(), pred);
  EXPECT_EQ(d.dtype(), f32);
  EXPECT_TRUE(i.weak_type() && f.weak_type() && d.weak_type());
  EXPECT_FALSE(b.weak_type());
  EXPECT_EQ(i.item<int>(), 3);
  EXPECT_EQ(f.item<double>(), 2.5);
  EXPECT_EQ(Array(std::int64_t(1) << 40).dtype(), s64);
  EXPECT_EQ(Array(~std::uint64_t(0)).dtype(), u64);
  EXPECT_EQ(Array(~std::uint64_t(0)).item<std::uint64_t>(), ~std::uint64_t(0));
}

TEST(Array, FactsOfAnUncommittedArray) {
  const Array x = counting({2, 3});
  EXPECT_EQ(x.shape(), (Array::Dims{2, 3}));
  EXPECT_EQ(x.shape(-1), 3);
  EXPECT_EQ(x.ndim(), 2);
  EXPECT_EQ(x.size(), 6);
  EXPECT_EQ(x.type_string(), "f32[2,3]");
  EXPECT_FALSE(x.committed());
  EXPECT_EQ(x.devices(), (std::set<Device>{devices()[0]}));
  EXPECT_TRUE(x.is_fully_addressable());
  EXPECT_EQ(x.on_device_size_in_bytes(), 24);
  EXPECT_EQ(to_string(x), "[[0, 1, 2],\n [3, 4, 5]]");
  expect_error<ValueError>([&] { (void)x.shape(2); }, {"shape(2)", "f32[2,3]", kNear, "-2 to 1"});
  expect_error<TypeError>([&] { (void)x.to_vector<int>(); }, {"f32[2,3]", "s32", kNear});
  expect_error<ValueError>([&] { (void)x.item<float>(); }, {"one element", kNear});
  expect_error<ValueError>([] { (void)Array().shape(); }, {"empty Array"});
}

TEST(Array, DevicePutCutsIntoShards) {
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  const Array x = counting({8, 4});
  const Array y = put(x, mesh, P("x", "y"));
  EXPECT_TRUE(y.committed());
  EXPECT_EQ(floats(y), floats(x));
  EXPECT_EQ(y.sharding(), NamedSharding(mesh, P("x", "y")));
  const std::vector<Shard> shards = y.addressable_shards();
  ASSERT_EQ(shards.size(), 8u);
  // Device 5 is at (2, 1): rows 4 and 5, columns 2 and 3.
  EXPECT_EQ(shards[5].device.id, 5);
  EXPECT_EQ(shards[5].index, (Index{{4, 6}, {2, 4}}));
  EXPECT_EQ(shards[5].replica_id, 0);
  EXPECT_EQ(floats(shards[5].data), (std::vector<float>{18, 19, 22, 23}));
  EXPECT_EQ(shards[5].data.sharding(), SingleDeviceSharding(devices()[5]));
  EXPECT_EQ(floats(y.addressable_data(5)), floats(shards[5].data));
  EXPECT_EQ(y.on_device_size_in_bytes(), 128);
  EXPECT_TRUE(put(x, mesh, P()).is_fully_replicated());
  EXPECT_EQ(put(x, mesh, P(nullptr, "y")).addressable_shards()[6].replica_id, 3);
}

TEST(Array, DevicePutBetweenShardings) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  const Array x = counting({8, 8, 4});
  const std::vector<PartitionSpec> specs = {P(),
                                            P("x"),
                                            P("y"),
                                            P(nullptr, "y"),
                                            P(axes("x", "y")),
                                            P(nullptr, axes("y", "x")),
                                            P("y", "x"),
                                            P("x", nullptr, "y"),
                                            P(nullptr, nullptr, "y")};
  for (const PartitionSpec& from : specs) {
    const Array a = put(x, mesh, from);
    for (const PartitionSpec& to : specs) {
      const Array b = put(a, mesh, to);
      EXPECT_EQ(b.sharding(), NamedSharding(mesh, to));
      EXPECT_EQ(floats(b), floats(x)) << from.to_string() << " to " << to.to_string();
      EXPECT_FALSE(a.is_deleted());
    }
  }
  // Another order of the devices, and other classes.
  std::vector<Device> reversed = devices();
  std::reverse(reversed.begin(), reversed.end());
  const Array r = device_put(put(x, mesh, P("x")), NamedSharding(Mesh(reversed, "z"), P("z")));
  EXPECT_EQ(floats(r), floats(x));
  EXPECT_EQ(floats(r.addressable_data(0))[1], 1);
  EXPECT_EQ(r.addressable_shards()[0].device.id, 7);
  const Array p = device_put(r, ShardingTree(PositionalSharding(devices()).reshape({4, 2, 1})));
  EXPECT_EQ(floats(p), floats(x));
  const Array s = device_put(p, devices()[3]);
  EXPECT_EQ(s.devices(), (std::set<Device>{devices()[3]}));
  EXPECT_EQ(floats(s), floats(x));
}

TEST(Array, DevicePutOfTreesAndDonation) {
  const Mesh mesh = mesh_of({{"x", 8}});
  std::map<std::string, std::vector<Array>> all{{"a", {counting({8}), counting({2, 16})}},
                                                {"b", {counting({3})}}};
  const auto put_all = device_put(
      all, dict({{"a", tree(NamedSharding(mesh, P("x")), NamedSharding(mesh, P(nullptr, "x")))},
                 {"b", NamedSharding(mesh, P())}}));
  EXPECT_EQ(floats(put_all.at("a")[1]), floats(all.at("a")[1]));
  EXPECT_EQ(put_all.at("a")[1].sharding(), NamedSharding(mesh, P(nullptr, "x")));
  EXPECT_TRUE(put_all.at("b")[0].is_fully_replicated());
  const Array x = counting({8});
  const Array y = device_put(x, NamedSharding(mesh, P("x")), {.donate = true});
  EXPECT_TRUE(x.is_deleted());
  EXPECT_EQ(floats(y), floats(counting({8})));
  expect_error<RuntimeError>([&] { (void)floats(x); }, {"f32[8]", "deleted", "device_put"});
}

TEST(Array, DevicePutErrorsNameTheLeaf) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const std::map<std::string, Array> all{{"a", counting({8})}, {"b", counting({12})}};
  expect_error<IndivisibleError>([&] { device_put(all, NamedSharding(mesh, P("x"))); },
                                 {"argument['b']", "12", "8", "PartitionSpec('x')", kNear});
  expect_error<ShardingError>([&] { put(counting({8}), mesh, P(nullptr, "x")); },
                              {"rank 1", "PartitionSpec(None, 'x')", "rank 2"});
  expect_error<RuntimeError>([&] { device_put(counting({8}), P("x")); },
                             {"PartitionSpec('x')", "mesh", kNear});
  const MeshScope scope(mesh);
  EXPECT_EQ(device_put(counting({8}), P("x")).sharding(), NamedSharding(mesh, P("x")));
}

TEST(Array, UnconstrainedDimsStayAsTheyAre) {
  const PartitionSpec open = P(UNCONSTRAINED, "y");
  const Mesh plain = mesh_of({{"x", 4}, {"y", 2}});
  const Mesh mixed = make_mesh({4, 2}, {"x", "y"}, {AxisType::Explicit, AxisType::Auto});
  for (const Mesh& mesh : {plain, mixed}) {
    const Array x = put(counting({8, 4}), mesh, P("x", nullptr));
    const Array y = with_sharding_constraint(x, NamedSharding(mesh, open));
    EXPECT_EQ(y.sharding(), NamedSharding(mesh, P("x", "y")));
    expect_close(y, x);
  }
  // With the Explicit axes of its type the array would be split too far.
  const Array short_one = put(counting({4}), mixed, P("x"));
  expect_error<IndivisibleError>(
      [&] { (void)with_sharding_constraint(short_one, NamedSharding(mixed, P("y"))); },
      {"PartitionSpec(('x', 'y'))", "size is 4", kNear});
  // An axis that the constraint takes is not left for it.
  const Array z = with_sharding_constraint(put(counting({8, 4}), plain, P("y", "x")),
                                           NamedSharding(plain, open));
  EXPECT_EQ(z.sharding(), NamedSharding(plain, P(nullptr, "y")));
  expect_close(z, counting({8, 4}));
}

TEST(Array, ComputationFollowsData) {
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  const Array x = put(counting({8, 4}), mesh, P("x", "y"));
  // Uncommitted arrays and scalars go where the others are.
  const Array y = x + counting({8, 4}) * 2;
  EXPECT_EQ(y.sharding(), NamedSharding(mesh, P("x", "y")));
  EXPECT_TRUE(y.committed());
  expect_close(y, counting({8, 4}, 3));
  const Array s = sum(x);
  EXPECT_TRUE(s.is_fully_replicated());
  EXPECT_EQ(s.devices().size(), 8u);
  EXPECT_EQ(s.item<float>(), 31 * 32 / 2);
  const Array rows = sum(x, 1);
  EXPECT_EQ(rows.sharding(), NamedSharding(mesh, P("x")));
  const Array product = matmul(x, transpose(x));
  expect_close(product, matmul(counting({8, 4}), transpose(counting({8, 4}))));
  // On another single device.
  const Array z = device_put(counting({4}), devices()[5]) + 1;
  EXPECT_EQ(z.devices(), (std::set<Device>{devices()[5]}));
  EXPECT_FALSE((counting({4}) + 1).committed());
}

TEST(Array, DevicesMustAgree) {
  const Array a = device_put(counting({4}), devices()[1]);
  const Array b = device_put(counting({4}), devices()[2]);
  expect_error<ValueError>([&] { (void)(a + b); },
                           {"incompatible devices", "add", "operand 0", "f32[4]", "devices [1]",
                            "operand 1", "devices [2]", kNear});
}

TEST(Array, DeleteFreesAndIsFinal) {
  Array x = counting({4});
  const Array same = x;
  x.delete_();
  x.delete_();
  EXPECT_TRUE(same.is_deleted());
  expect_error<RuntimeError>([&] { (void)(same + 1); }, {"deleted", "f32[4]", kNear});
  EXPECT_EQ(to_string(x), "Array(f32[4], deleted)");
}

TEST(Array, EveryDtypeSurvivesTheTrip) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const Array ones8 = put(array<std::int8_t>({-1, 2, -3, 4, 5, 6, 7, -8}), mesh, P("x"));
  EXPECT_EQ(ones8.to_vector<std::int8_t>(), (std::vector<std::int8_t>{-1, 2, -3, 4, 5, 6, 7, -8}));
  const Array flags =
      put(array<bool>({true, false, true, true, false, false, true, false}), mesh, P("x"));
  EXPECT_EQ(flags.to_vector<bool>(),
            (std::vector<bool>{true, false, true, true, false, false, true, false}));
  const Array halves = put(counting({8}).astype(bf16), mesh, P("x"));
  EXPECT_EQ(halves.dtype(), bf16);
  EXPECT_EQ(floats(halves), floats(counting({8})));
  const Array z = put(array<std::complex<double>>({{1, 2}, {3, 4}}), mesh, P());
  EXPECT_EQ(z.to_vector<std::complex<double>>()[1], (std::complex<double>(3, 4)));
  const Array none = put(zeros({0, 8}), mesh, P(nullptr, "x"));
  EXPECT_EQ(none.to_vector<float>().size(), 0u);
}

}  // namespace
}  // namespace tessera::testing
