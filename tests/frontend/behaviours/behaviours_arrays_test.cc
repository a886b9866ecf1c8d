// SPDX-License-Identifier: Apache-2.0
// Behaviours 79 to 118 of docs/reference/behaviours.md: arrays and their placement.
#include <tessera/array.h>
#include <tessera/jit.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/products.h>
#include <tessera/ops/reductions.h>
#include <tessera/random.h>

#include <map>

#include "src/frontend/arrays/array_impl.h"
#include "tests/frontend/frontend_testing.h"

// Compiled apart: includes private headers, whose `internal` others take for testing::internal.
namespace tessera::testing {
namespace {

const void* storage_of(const Array& a, std::size_t i) {
  return a.impl()->memory.share().value()[i].memory.get();
}
Mesh shuffled_mesh(const std::vector<int>& order, const Mesh::Shape& shape) {
  std::vector<Device> list;
  for (int i : order) list.push_back(devices()[std::size_t(i)]);
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  for (const auto& [name, size] : shape) {
    names.push_back(name);
    sizes.push_back(size);
  }
  return Mesh(list, sizes, names);
}

TEST(Arrays, Behaviour_079_OnOneDevice) {
  const Array x = device_put(counting({4, 2}), devices()[2]);
  EXPECT_TRUE(x.committed());
  EXPECT_EQ(x.sharding(), SingleDeviceSharding(devices()[2]));
  const std::vector<Shard> shards = x.addressable_shards();
  ASSERT_EQ(shards.size(), 1u);
  EXPECT_EQ(shards[0].device, devices()[2]);
  EXPECT_EQ(shards[0].index, (Index{{}, {}}));
  EXPECT_EQ(shards[0].replica_id, 0);
}

TEST(Arrays, Behaviour_080_UncommittedStaysUncommitted) {
  const Array x = counting({4});
  EXPECT_FALSE(x.committed());
  EXPECT_EQ(x.devices(), (std::set<Device>{devices()[0]}));
  EXPECT_FALSE(jit([](Array a) { return a * 2; })(x).committed());
  EXPECT_FALSE((x + 1).committed());
  EXPECT_TRUE((x + device_put(x, devices()[0])).committed());
}

TEST(Arrays, Behaviour_081_ShardsShareCommitment) {
  EXPECT_FALSE(counting({4}).addressable_data(0).committed());
  EXPECT_TRUE(put(counting({8}), mesh_of({{"x", 8}}), P("x")).addressable_data(3).committed());
}

TEST(Arrays, Behaviour_082_PutAgain) {
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  const Array x = put(counting({8, 8}), mesh, P("x", "y"));
  const Array y = put(x, mesh, P("y"));
  EXPECT_EQ(y.sharding(), NamedSharding(mesh, P("y")));
  expect_close(x, y);
}

TEST(Arrays, Behaviour_083_SpecsNeedAMesh) {
  expect_error<RuntimeError>([] { device_put(counting({8}), P("x")); },
                             {"device_put's argument", "PartitionSpec('x')", "MeshScope", kNear});
  const Mesh mesh = mesh_of({{"x", 8}});
  const MeshScope scope(mesh);
  EXPECT_EQ(device_put(counting({8}), P("x")).sharding(), NamedSharding(mesh, P("x")));
}

TEST(Arrays, Behaviour_084_ScalarsOnAllDevices) {
  const Array x = put(Array(2.5f), mesh_of({{"x", 8}}), P());
  EXPECT_EQ(x.addressable_shards().size(), 8u);
  EXPECT_EQ(x.item<float>(), 2.5f);
}

TEST(Arrays, Behaviour_085_SizesThatDontDivide) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const std::vector<Array> all{counting({8}), counting({9})};
  expect_error<IndivisibleError>([&] { device_put(all, NamedSharding(mesh, P("x"))); },
                                 {"argument[1]", "size is 9", "8", "PartitionSpec('x')", kNear});
}

TEST(Arrays, Behaviour_086_OtherOrdersOfDevicesShareMemory) {
  const Mesh one = mesh_of({{"x", 4}, {"y", 2}});
  const Mesh two = shuffled_mesh({5, 0, 3, 6, 1, 7, 4, 2}, {{"x", 4}, {"y", 2}});
  const Array x = put(counting({8, 8}), one, P("x", "y"));
  const Array y = put(x, two, P("x", "y"));
  EXPECT_EQ(y.sharding().device_list(), two.devices());
  expect_close(x, y);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(storage_of(x, i), storage_of(y, i));
  for (const PartitionSpec& spec : {P("y", "x"), P(nullptr, axes("y", "x")), P("x"), P()}) {
    expect_close(put(x, two, spec), x);
  }
}

TEST(Arrays, Behaviour_087_DonationOfSomeLeaves) {
  const Array a = counting({8}), b = counting({8});
  const NamedSharding there(mesh_of({{"x", 8}}), P("x"));
  const auto [c, d] = device_put(std::pair(a, b), there, {.donate_leaves = {true, false}});
  EXPECT_TRUE(a.is_deleted());
  EXPECT_FALSE(b.is_deleted());
  EXPECT_EQ(floats(c), floats(d));
  expect_error<ValueError>(
      [&] { (void)device_put(std::pair(b, d), there, {.donate_leaves = {true}}); },
      {"donate_leaves", "1 entry", "2 arrays", kNear});
  EXPECT_FALSE(b.is_deleted());
}

TEST(Arrays, Behaviour_088_CopiesOutliveDonatedSources) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const Array x = put(counting({8}), mesh, P("x"));
  const Array y = put(x, mesh, P("x"));
  auto f = jit([](Array a) { return a * 2; }, {.donate_argnums = {0}});
  const Array z = f(x);
  EXPECT_TRUE(x.is_deleted());
  expect_close(y, counting({8}));
  expect_close(z, counting({8}, 2));
}

TEST(Arrays, Behaviour_089_BetweenDisjointMeshes) {
  const std::vector<Device> all = devices();
  const Mesh low({all.begin(), all.begin() + 4}, "x"), high({all.begin() + 4, all.end()}, "x");
  const Array x = put(counting({8, 4}), low, P("x"));
  const Array y = put(x, high, P(nullptr, "x"));
  EXPECT_EQ(y.devices(), (std::set<Device>{all.begin() + 4, all.end()}));
  expect_close(x, y);
  expect_close(put(y * 2, low, P()), counting({8, 4}, 2));
}

TEST(Arrays, Behaviour_090_PutInsideOfJit) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit([&](Array a) { return device_put(a, NamedSharding(mesh, P("x"))) + 1; });
  EXPECT_FALSE(has(f.lower(counting({8})).as_text(), "Sharding"));
}

TEST(Arrays, Behaviour_091_PartsFromACallback) {
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  const Array whole = counting({8, 8});
  const std::vector<float> all = floats(whole);
  for (const PartitionSpec& spec :
       {P("x", "y"), P("x"), P("y"), P(nullptr, "y"), P(axes("x", "y")), P()}) {
    const Array x =
        make_array_from_callback({8, 8}, NamedSharding(mesh, spec), [&](const Index& i) {
          return index(whole, {Slice{i[0].start, i[0].stop}, Slice{i[1].start, i[1].stop}});
        });
    for (const Shard& shard : x.addressable_shards()) {
      std::vector<float> want;
      for (std::int64_t r = shard.index[0].start.value_or(0); r < shard.index[0].stop.value_or(8);
           ++r) {
        for (std::int64_t c = shard.index[1].start.value_or(0); c < shard.index[1].stop.value_or(8);
             ++c) {
          want.push_back(all[std::size_t(r * 8 + c)]);
        }
      }
      EXPECT_EQ(floats(shard.data), want);
    }
  }
}

TEST(Arrays, Behaviour_093_CallbacksWhileTracing) {
  const Mesh mesh = mesh_of({{"x", 8}});
  expect_error<TracerError>(
      [&] {
        jit([&](Array a) {
          return a + make_array_from_callback({8}, NamedSharding(mesh, P("x")),
                                              [](const Index&) { return zeros({1}); });
        })(counting({8}));
      },
      {"make_array_from_callback", "traced", kNear});
  expect_error<TracerError>(
      [&] {
        Array leaked;
        jit([&](Array a) { return leaked = a; })(counting({1}));
        make_array_from_callback({8}, NamedSharding(mesh, P("x")),
                                 [&](const Index&) { return leaked; });
      },
      {"traced array", "f32[1]", kNear});
}

TEST(Arrays, Behaviour_095_CallbacksThatReadShardedArrays) {
  const Mesh mesh = mesh_of({{"x", 8}});
  for (const PartitionSpec& spec : {P("x"), P()}) {
    const Array source = put(counting({16}), mesh, spec);
    const Array x =
        make_array_from_callback({16}, NamedSharding(mesh, P("x")), [&](const Index& i) {
          return device_put(index(source, {Slice{i[0].start, i[0].stop}}), devices()[0]);
        });
    expect_close(x, source);
  }
}

TEST(Arrays, Behaviour_099_NoPartsNoDtype) {
  expect_error<ValueError>(
      [] { make_array_from_single_device_arrays({8}, SingleDeviceSharding(devices()[0]), {}); },
      {"make_array_from_single_device_arrays", "dtype", kNear});
}

TEST(Arrays, Behaviour_102_ProcessLocalData) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const NamedSharding rows(mesh, P("x"));
  const Array x = make_array_from_process_local_data(rows, counting({8, 2}), {{8, 2}});
  EXPECT_EQ(x.sharding(), rows);
  expect_close(x, counting({8, 2}));
  using Tree = std::map<std::string, Array>;
  const Tree tree{{"a", counting({8})}, {"b", counting({16})}};
  const Tree put = make_array_from_process_local_data(rows, tree, {{8}, {16}});
  EXPECT_EQ(put.at("b").sharding(), rows);
  expect_error<ShapeError>(
      [&] {
        (void)make_array_from_process_local_data(rows, counting({8, 2}), {{16, 2}});
      },
      {"data of x ", "f32[8,2]", "[16,2]", kNear});
  expect_error<ShapeError>([&] { (void)make_array_from_process_local_data(rows, tree, {{8}}); },
                           {"x['b']", "f32[16]", "[8]", kNear});
  expect_error<ShapeError>(
      [&] {
        (void)make_array_from_process_local_data(rows, tree, {{8}, {8}});
      },
      {"x['b']", "f32[16]", "[8]", kNear});
  expect_error<ValueError>(
      [&] {
        (void)make_array_from_process_local_data(rows, tree, {{8}, {16}, {8}});
      },
      {"3 global shapes", "2 arrays", kNear});
}

TEST(Arrays, Behaviour_103_UseAfterDelete) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit([](Array a) { return a + 1; });
  for (Array x : {counting({8}), put(counting({8}), mesh, P("x"))}) {
    (void)f(x);
    x.delete_();
    x.delete_();
    expect_error<RuntimeError>([&] { f(x); },
                               {"f32[8]", "deleted", kNear});  // the program is there
    expect_error<RuntimeError>([&] { jit([](Array a) { return a - 1; })(x); },
                               {"f32[8]", "deleted", kNear});
    expect_error<RuntimeError>([&] { (void)x.to_vector<float>(); }, {"f32[8]", "deleted", kNear});
    expect_error<RuntimeError>([&] { (void)x.addressable_shards(); }, {"f32[8]", "deleted", kNear});
  }
}

TEST(Arrays, Behaviour_104_PartsOutliveDeletedArrays) {
  Array x = put(counting({8}), mesh_of({{"x", 8}}), P("x"));
  const Array part = x.addressable_data(3);
  const std::vector<Shard> shards = x.addressable_shards();
  const std::vector<float> values = floats(x);
  x.delete_();
  EXPECT_EQ(part.item<float>(), 3);
  EXPECT_EQ(shards[5].data.item<float>(), 5);
  EXPECT_EQ(values[7], 7);
  EXPECT_TRUE(x.is_deleted());
}

TEST(Arrays, Behaviour_105_TheDeviceOfAnArray) {
  EXPECT_EQ(counting({2}).device(), devices()[0]);
  const Array x = device_put(counting({8}), devices()[3]);
  EXPECT_EQ(x.device(), devices()[3]);
  expect_error<ValueError>(
      [&] {
        (void)put(x, mesh_of({{"x", 8}}), P("x")).device();
      },
      {"f32[8]", "8 devices", "sharding()", kNear});
  jit([&](Array v) {
    expect_error<TracerError>([&] { (void)v.device(); }, {"f32[8]", kNear});
    return v;
  })(x);
}

TEST(Arrays, Behaviour_106_ArraysHaveNoHash) {
  static_assert(!std::is_default_constructible_v<std::hash<Array>>);
  static_assert(!std::is_invocable_v<std::hash<Array>, const Array&>);
  SUCCEED();
}

TEST(Arrays, Behaviour_107_IndexingShardedArrays) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 2}, {"z", 2}});
  const Array whole = counting({4, 8, 8});
  const Array x = put(whole, mesh, P("x", "y", "z")), copies = put(whole, mesh, P());
  const Array ids = array<std::int32_t>({3, 0, 1});
  const std::vector<std::vector<IndexItem>> forms{{0},
                                                  {-1},
                                                  {Slice{1, 3}},
                                                  {Slice{}, 2},
                                                  {Slice{}, Slice{2, 6}, -1},
                                                  {ellipsis, 5},
                                                  {newaxis, 1},
                                                  {Slice{{}, {}, 2}},
                                                  {Slice{{}, {}, -1}, 0},
                                                  {ids},
                                                  {Slice{}, ids},
                                                  {1, ids, Slice{4, {}}}};
  for (const auto& form : forms) {
    const Array want = index(whole, form);
    const Array have = index(x, form);
    expect_close(have, want);
    EXPECT_EQ(have.devices().size(), 8u);
    EXPECT_EQ(index(copies, form).addressable_shards().size(), 8u);
    expect_close(index(copies, form), want);
  }
  EXPECT_EQ(index(x, {0}).sharding().shard_shape({8, 8}), (Array::Dims{4, 4}));
}

TEST(Arrays, Behaviour_108_Copies) {
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  const Array x = put(counting({8, 2}), mesh, P("x"));
  const Array y = copy(x);
  EXPECT_EQ(y.sharding(), x.sharding());
  EXPECT_TRUE(y.committed());
  expect_close(x, y);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NE(storage_of(x, i), storage_of(y, i));
  // What the devices of "y" share stays shared.
  EXPECT_EQ(storage_of(y, 0), storage_of(y, 1));
  Array(x).delete_();
  expect_close(y, counting({8, 2}));
  EXPECT_FALSE(copy(counting({4})).committed());
  EXPECT_EQ(copy(3).item<int>(), 3);
  expect_close(jit([](Array a) { return copy(a) + 1; })(y), counting({8, 2}) + 1);
  expect_error<RuntimeError>([&] { (void)copy(x); }, {"delete", kNear});
}

TEST(Arrays, Behaviour_109_OperandsWithDifferentShardings) {
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  const Array a = put(counting({8, 8}), mesh, P("x", "y")),
              b = put(counting({8, 8}), mesh, P("y", "x"));
  const Array c = a + b;
  EXPECT_EQ(c.addressable_shards().size(), 8u);
  expect_close(c, counting({8, 8}, 2));
  EXPECT_EQ(zeros_like(a).sharding(), a.sharding());
  expect_close(ones_like(b), ones({8, 8}));
}

TEST(Arrays, Behaviour_110_BytesOfAllShards) {
  const Mesh mesh = mesh_of({{"x", 8}});
  EXPECT_EQ(put(counting({16}), mesh, P("x")).on_device_size_in_bytes(), 64);
  EXPECT_EQ(put(counting({16}), mesh, P()).on_device_size_in_bytes(), 8 * 64);
}

TEST(Arrays, Behaviour_111_Texts) {
  const Mesh mesh = mesh_of({{"x", 8}});
  EXPECT_EQ(to_string(zeros({0, 3})), "[]");
  EXPECT_EQ(to_string(put(counting({8}), mesh, P("x"))), "[0, 1, 2, 3, 4, 5, 6, 7]");
  EXPECT_EQ(to_string(Array()), "Array(empty)");
  EXPECT_EQ(to_string(shape_dtype_struct({2}, s32)), "ShapeDtypeStruct(s32[2])");
  std::string traced;
  (void)jit([&](Array a) {
    traced = to_string(a);
    return a;
  })(counting({3}));
  EXPECT_EQ(traced, "Tracer(f32[3])");
}

TEST(Arrays, Behaviour_114_AbstractValuesLikeOthers) {
  const Array plain = shape_dtype_struct(counting({8, 2}));
  EXPECT_EQ(plain.type_string(), "f32[8,2]");
  EXPECT_FALSE(plain.sharding().valid());
  const Array x = put(counting({8, 2}), mesh_of({{"x", 8}}), P("x"));
  EXPECT_EQ(shape_dtype_struct(x).sharding(), x.sharding());
  EXPECT_EQ(shape_dtype_struct(shape_dtype_struct(x)).sharding(), x.sharding());
  EXPECT_TRUE(shape_dtype_struct(Array(2)).weak_type());
}

TEST(Arrays, Behaviour_115_AbstractValuesWithASpecOnly) {
  const Array a = shape_dtype_struct({8, 2}, f32, P("x"));
  auto f = jit([](Array v) { return v + 1; });
  expect_error<TypeError>([&] { (void)a.sharding(); },
                          {"f32[8,2]", "PartitionSpec('x')", "mesh", kNear});
  expect_error<TypeError>([&] { (void)f.lower(a); }, {"PartitionSpec('x')", "mesh", kNear});
  const Mesh mesh = mesh_of({{"x", 8}});
  {
    const MeshScope scope(mesh);
    EXPECT_EQ(a.sharding(), NamedSharding(mesh, P("x")));
    const auto compiled = f.lower(a).compile();
    EXPECT_EQ(compiled.input_shardings()[0], NamedSharding(mesh, P("x")));
    expect_close(compiled(put(counting({8, 2}), mesh, P("x"))), counting({8, 2}) + 1);
  }
  {
    const MeshScope scope(mesh_of({{"y", 8}}));
    expect_error<ShardingError>([&] { (void)f.lower(a); },
                                {"'x'", "'y'", "PartitionSpec('x')", kNear});
  }
  expect_error<ShardingError>([&] { (void)shape_dtype_struct({8}, f32, P("x", "y")); },
                              {"[8]", "PartitionSpec('x', 'y')", "rank 2", kNear});
}

TEST(Arrays, Behaviour_116_ChangesOfAbstractValues) {
  const NamedSharding rows(mesh_of({{"x", 8}}), P("x")), all(rows.mesh(), P());
  const Array a = shape_dtype_struct({8, 2}, f32, rows);
  const Array wider = shape_dtype_struct(a, {.shape = std::vector<std::int64_t>{16, 2}});
  EXPECT_EQ(wider.type_string(), "f32[16,2]");
  EXPECT_EQ(wider.sharding(), rows);
  const Array other = shape_dtype_struct(a, {.dtype = s32, .sharding = all});
  EXPECT_EQ(other.type_string(), "s32[8,2]");
  EXPECT_EQ(other.sharding(), all);
  const Array weak = shape_dtype_struct(Array(2));
  EXPECT_TRUE(shape_dtype_struct(weak, {.shape = std::vector<std::int64_t>{3}}).weak_type());
  EXPECT_FALSE(shape_dtype_struct(weak, {.dtype = s32}).weak_type());
  const Array of_spec = shape_dtype_struct({8, 2}, f32, P("x"));
  const Array same_spec = shape_dtype_struct(of_spec, {.dtype = s32});
  const MeshScope scope(rows.mesh());
  EXPECT_EQ(same_spec.sharding(), rows);
  expect_error<IndivisibleError>(
      [&] {
        (void)shape_dtype_struct(a, {.shape = std::vector<std::int64_t>{7, 2}});
      },
      {"7", kNear});
}

TEST(Arrays, Behaviour_117_AbstractValuesHaveNoValue) {
  const Array abstract = shape_dtype_struct({4}, f32);
  expect_error<TypeError>([&] { jit([&](Array a) { return a + abstract; })(counting({4})); },
                          {"shape_dtype_struct", "f32[4]", "lower()", kNear});
  auto f = jit([](std::vector<Array> a) { return a[0] + a[1]; });
  expect_error<TypeError>(
      [&] {
        f({counting({4}), abstract});
      },
      {"argument 0[1]", "shape_dtype_struct", "f32[4]", "lower()", kNear});
  expect_error<TypeError>([&] { (void)abstract.to_vector<float>(); },
                          {"f32[4]", "no value", kNear});
}

TEST(Arrays, Behaviour_118_RandomBitsOfShardedArrays) {
  const Array key = random::key(7);
  for (const Mesh::Shape& shape : std::vector<Mesh::Shape>{
           {{"x", 4}}, {{"x", 3}, {"y", 2}}, {{"x", 4}, {"y", 2}}, {{"x", 2}, {"y", 3}}}) {
    const Mesh mesh = mesh_of(shape);
    const PartitionSpec spec = shape.size() == 1 ? P("x") : P("x", "y");
    auto f = jit(
        [](Array k) {
          return random::bits(k, {12, 12});
        },
        {.out_shardings = NamedSharding(mesh, spec)});
    const std::string text = f.lower(key).compile().as_text();
    EXPECT_FALSE(has(text, "all-") || has(text, "collective-permute")) << text;
    EXPECT_FALSE(has(text, "[12,12]")) << text;
    EXPECT_EQ(f(key).to_vector<std::uint32_t>(),
              random::bits(key, {12, 12}).to_vector<std::uint32_t>());
  }
}

TEST(Jit, Behaviour_015_NestedFunctionsUnderAnotherMesh) {
  const Mesh eight = mesh_of({{"x", 8}});
  const Mesh four({devices().begin(), devices().begin() + 4}, "x");
  auto inner = jit([](Array a) { return a + 1; }, {.name = "inner"});
  auto outer = jit([&](Array a) {
    const MeshScope scope(four);
    return inner(a);
  });
  const MeshScope scope(eight);
  expect_error<ValueError>([&] { outer(counting({8})); },
                           {"'inner'", "Mesh('x': 4", "size 4", "Mesh('x': 8", "size 8", kNear});
}

}  // namespace
}  // namespace tessera::testing
