// SPDX-License-Identifier: Apache-2.0
// Limits: recursion, deep nests, sizes beyond the memory and beyond 64 bits.
#include <chrono>
#include <limits>
#include <thread>

#include <tessera/tessera.h>

#include "src/frontend/trace/nesting.h"
#include "tests/frontend/frontend_testing.h"

// Compiled apart: includes private headers, whose `internal` others take for testing::internal.
namespace tessera {
namespace {

using testing::count;
using testing::expect_error;
using testing::floats;
using testing::has;
using testing::kNear;

constexpr std::int64_t kHalf = std::int64_t(1) << 62;

Array fact(Array n) {
  auto f = jit([](Array m) { return fact(m - 1) * m; }, {.name = "fact"});
  return f(n);
}

TEST(Recursion, ThroughJitIsAnErrorThatNamesFunctionAndLine) {
  const std::string text = expect_error<TracerError>(
      [] { fact(Array(5)); },
      {"limits_test.cc:", "traces nest deeper than", "'fact' calls itself at", "while_loop"});
  EXPECT_LT(text.size(), 1000u);
  // Nothing of it is left: functions work as before.
  EXPECT_EQ(jit([](Array x) { return x + 1; })(Array(4)).item<int>(), 5);
}

TEST(Recursion, OfOneJittedFunctionAndOfGenericOnes) {
  std::function<Array(Array)> g;
  auto f = jit([&](Array x) { return g(x); });
  g = [&](Array x) { return f(x); };
  expect_error<TracerError>([&] { f(ones({3})); }, {"'jit_fn' calls itself at", "limits_test.cc:"});
  // With other shapes at each call, so that no computation is found again.
  g = [&](Array x) { return f(concatenate({x, ones({1})})); };
  expect_error<TracerError>([&] { f(ones({3})); }, {"'jit_fn' calls itself at", "limits_test.cc:"});
  expect_error<TracerError>([&] { f.lower(ones({3})); }, {"'jit_fn' calls itself at"});
}

Array countdown(Array n) {
  return cond(
      n > 0, [](Array m) { return countdown(m - 1); }, [](Array m) { return m; }, n);
}

TEST(Recursion, ThroughControlFlow) {
  expect_error<TracerError>([] { countdown(Array(3)); }, {"traces nest deeper than", "cond"});
}

TEST(Recursion, OnAThreadWithASmallStack) {
  // A quarter of a megabyte holds no 200 traces; what it holds is used, and then there is an error.
  struct Result {
    std::string text;
  } result;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 512 << 10);
  pthread_t thread;
  const auto body = [](void* out) -> void* {
    try {
      fact(Array(5));
      static_cast<Result*>(out)->text = "no error";
    } catch (const TracerError& e) {
      static_cast<Result*>(out)->text = e.what();
    }
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, body, &result), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  EXPECT_TRUE(has(result.text, "'fact' calls itself at")) << result.text;
}

TEST(Recursion, OfAPartitioningCallback) {
  const Mesh mesh = make_mesh({{"x", 8}});
  const NamedSharding split(mesh, P("x"));
  auto twice = custom_partitioning([](Array a) { return a * 2; }, "twice");
  twice.def_partition(
      {.partition =
           [&](const Mesh& m, const ShapeInfos& args, const ShapeInfos&) {
             jit(twice, {.name = "again"})(device_put(arange(16), split));
             return Partition{
                 m, [](Array a) { return a * 2; }, {args[0].sharding}, {args[0].sharding}};
           },
       .sharding_rule = "i -> i"});
  expect_error<TracerError>([&] { jit(twice)(device_put(arange(16), split)); },
                            {"'again' calls itself at", "limits_test.cc:"});
}

/// So many jitted functions, each called by the next.
Array nested(int depth, Array x) {
  if (depth == 0) return x;
  return jit([depth](Array y) { return nested(depth - 1, y + 1) * 2; })(x);
}

TEST(Nesting, DeepNestsDontTakeCubicTime) {
  const int deep = int(frontend::kMaxNested) - 1;
  const auto start = std::chrono::steady_clock::now();
  const Array out = nested(deep, Array(0.f));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_TRUE(std::isinf(out.item<float>()));
  EXPECT_EQ(nested(3, Array(0.f)).item<float>(), 24);
  // 0.1 s alone on one core; with a copy of each callee per level it was over 10.
  EXPECT_LT(took.count(), 6.0);
  auto f = jit([&](Array x) { return nested(deep - 1, x); });
  EXPECT_LT(f.lower(Array(0.f)).as_text().size(), 400000u);
}

TEST(Nesting, SharedCalleesAreTracedOnceAndOccurOnce) {
  int traced = 0;
  auto leaf = jit(
      [&](Array x) {
        ++traced;
        return x * 2;
      },
      {.name = "leaf"});
  auto middle = jit([&](Array x) { return leaf(x) + leaf(x + 1); }, {.name = "middle"});
  auto whole = jit([&](Array x) { return middle(x) + leaf(middle(x * 3)); });
  const auto lowered = whole.lower(ones({4}));
  EXPECT_EQ(traced, 1);
  const std::string text = lowered.as_text("hlo");
  EXPECT_EQ(count(text, "to_apply=leaf"), 3u) << text;
  EXPECT_EQ(count(text, "\nleaf"), 1u) << text;
  EXPECT_EQ(floats(whole(ones({1}))), (std::vector<float>{6 + 2 * (6 + 8)}));
}

TEST(Memory, ArraysLargerThanTheMemoryAreErrors) {
  const std::int64_t huge = std::int64_t(1) << 46;
  expect_error<RuntimeError>([&] { ones({huge}); }, {kNear, "f32[70368744177664]", "bytes"});
  expect_error<RuntimeError>([&] { full({huge, 2}, 3); }, {kNear, "s32[70368744177664,2]"});
  expect_error<RuntimeError>([&] { broadcast_to(ones({1}), {huge}); }, {kNear, "bytes"});
  expect_error<RuntimeError>([&] { linspace(0, 1, huge); }, {kNear, "memory"});
  expect_error<RuntimeError>(
      [&] {
        scan(
            [](Array c, std::vector<Array>) {
              return std::pair{c + 1, broadcast_to(c, {huge})};
            },
            Array(0.f), std::vector<Array>{}, {.length = 64});
      },
      {kNear, "bytes"});
  const Mesh mesh = make_mesh({{"x", 8}});
  const Array x = device_put(ones({1 << 20}), NamedSharding(mesh, P("x")));
  auto f = jit([&](Array a) { return sort(broadcast_to(a, {huge >> 20, 1 << 20})); });
  expect_error<RuntimeError>([&] { f(x); }, {kNear, "bytes"});
  // Nothing is lost: the same devices go on.
  EXPECT_EQ(sum(x).item<float>(), float(1 << 20));
}

TEST(Memory, LoopsCountIn32Bits) {
  expect_error<ValueError>(
      [] {
        scan(
            [](Array c, std::vector<Array>) {
              return std::pair{c + 1, c};
            },
            Array(0.f), std::vector<Array>{}, {.length = std::int64_t(1) << 50});
      },
      {kNear, "scan of length 1125899906842624", "2147483647"});
}

TEST(Sizes, TooLargeFor64BitsNameTheLine) {
  expect_error<ShapeError>([] { ones({kHalf, kHalf}); }, {kNear, "4611686018427387904", "64-bit"});
  expect_error<ShapeError>([] { ones({kHalf}); }, {kNear, "bytes"});
  expect_error<ShapeError>([] { eye(std::int64_t(1) << 40); }, {kNear, "64-bit"});
  expect_error<ShapeError>([] { repeat(ones({2}), kHalf); }, {kNear, "repeat", "64-bit"});
  expect_error<ShapeError>([] { tile(ones({2}), {kHalf, 8}); }, {kNear, "64-bit"});
  expect_error<ShapeError>([] { pad(ones({2}), {{kHalf, kHalf}}); }, {kNear, "pad", "64-bit"});
  expect_error<ShapeError>([] { reshape(ones({4}), {kHalf, 4}); }, {kNear, "64-bit"});
  expect_error<ShapeError>([] { broadcast_to(ones({1}), {kHalf, 4}); }, {kNear, "64-bit"});
  expect_error<ShapeError>([] { array(std::vector<float>{}, {kHalf, 4}); }, {kNear, "64-bit"});
  expect_error<ShapeError>([] { shape_dtype_struct({kHalf, 4}, f32); }, {kNear, "64-bit"});
  expect_error<ShapeError>([] { random::normal(random::key(1), {kHalf, 4}); }, {kNear, "64-bit"});
  // Without elements all sizes are good.
  EXPECT_EQ(reshape(ones({0}), {kHalf, 4, 0}).shape(), (std::vector<std::int64_t>{kHalf, 4, 0}));
  EXPECT_EQ(ones({kHalf, 4, 0}).size(), 0);
}

TEST(Sizes, EmptyArraysNameTheLine) {
  const Array none;
  expect_error<ValueError>([&] { (void)none.shape(); }, {kNear, "empty Array"});
  expect_error<ValueError>([&] { (void)none.size(); }, {kNear, "empty Array"});
  expect_error<ValueError>([&] { (void)none.ndim(); }, {kNear, "empty Array"});
  expect_error<ValueError>([&] { (void)none.dtype(); }, {kNear, "empty Array"});
  expect_error<ValueError>([&] { (void)none.to_vector<float>(); }, {kNear, "empty Array"});
  expect_error<ValueError>([&] { Array().delete_(); }, {kNear, "empty Array"});
}

TEST(Sizes, SlicesOfAnyStepAndPlace) {
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const Array x = arange(5);
  const auto values = [&](Slice s) { return index(x, {s}).to_vector<int>(); };
  EXPECT_EQ(values({least, most, most}), (std::vector<int>{0}));
  EXPECT_EQ(values({most, least, least}), (std::vector<int>{4}));
  EXPECT_EQ(values({most, least, -2}), (std::vector<int>{4, 2, 0}));
  EXPECT_EQ(values({least, most, 2}), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(values({{}, {}, least}), (std::vector<int>{4}));
  EXPECT_EQ(values({1, {}, most}), (std::vector<int>{1}));
  EXPECT_EQ(values({3, 3, least}), (std::vector<int>{}));
  EXPECT_EQ(slice(x, {1}, {5}, {most}).to_vector<int>(), (std::vector<int>{1}));
  EXPECT_EQ(slice_in_dim(x, 1, {}, most).to_vector<int>(), (std::vector<int>{1}));
}

TEST(Sizes, IndexOfNothingSpeaksOfIndex) {
  const std::string text = expect_error<ShapeError>([] { index(ones({0}), {array({0})}); },
                                                    {kNear, "index of f32[0] by s32[1] in dim 0"});
  EXPECT_FALSE(has(text, "gather"));
}

TEST(Printing, FloatsOfOneByteAreNumbers) {
  const Array x = array({0.f, 1.f, 2.f, 0.3f}).astype(DType::f8e4m3fn);
  EXPECT_EQ(to_string(x), "[0, 1, 2, 0.3125]");
  EXPECT_EQ(slice(x, {3}, {4}).item<float>(), 0.3125f);
  EXPECT_EQ(full({}, 0.3, DType::f8e5m2).item<float>(), 0.3125f);
}

TEST(Printing, NaNsHaveNoSign) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(to_string(array({nan, -nan, -1.5f})), "[nan, nan, -1.5]");
  EXPECT_EQ(to_string(mean(ones({0}))), "nan");
  EXPECT_EQ(to_string(complex(array({-nan}), array({-nan}))), "[nan+nanj]");
}

TEST(Printing, StandardDeviationHasAnUnambiguousName) {
  using namespace std;      // NOLINT: what the name must live with
  using namespace tessera;  // NOLINT
  EXPECT_FLOAT_EQ(stddev(array({1.f, 3.f})).item<float>(), 1);
  EXPECT_FLOAT_EQ(tessera::std(array({1.f, 3.f}), {}, {.ddof = 1}).item<float>(), std::sqrt(2.f));
}

TEST(Devices, ThatDoNotExistAreRefused) {
  const std::vector<std::string> parts{kNear, "cpu:99", "cpu:0 to cpu:7"};
  const Device device{99};
  expect_error<ValueError>([&] { device_put(ones({4}), device); }, parts);
  expect_error<ValueError>(
      [&] {
        device_put(ones({4}), Device{-1, 0, "gpu"});
      },
      {kNear, "gpu:-1", "cpu:0 to cpu:7"});
  const Mesh mesh({device}, "x");
  expect_error<ValueError>([&] { device_put(ones({4}), NamedSharding(mesh, P("x"))); }, parts);
  expect_error<ValueError>(
      [&] {
        make_array_from_callback({4}, NamedSharding(mesh, P("x")),
                                 [](const Index&) { return ones({4}); });
      },
      parts);
  auto f = jit([](Array x) { return x + 1; }, {.out_shardings = NamedSharding(mesh, P("x"))});
  expect_error<ValueError>([&] { f(ones({4})); }, {"cpu:99", "cpu:0 to cpu:7"});
  auto g = jit([&](Array x) { return with_sharding_constraint(x, NamedSharding(mesh, P("x"))); });
  expect_error<ValueError>([&] { g(ones({4})); }, parts);
  const MeshScope scope(mesh);
  expect_error<ValueError>([&] { jit([](Array x) { return x + 1; })(ones({4})); }, parts);
  // Looking at placements, and programs that are not run, need no devices.
  EXPECT_EQ(NamedSharding(mesh, P("x")).shard_shape({4}), (std::vector<std::int64_t>{4}));
}

TEST(Devices, OneOfManyByHloText) {
  const GSPMDSharding third(devices(), "{maximal device=3}");
  const Array x = device_put(arange(4), third);
  EXPECT_EQ(x.devices(), (std::set<Device>{devices()[3]}));
  EXPECT_EQ(x.addressable_shards().size(), 1u);
  EXPECT_EQ(x.sharding().num_devices(), 1);
  EXPECT_EQ(x.sharding().devices_indices_map({4}).begin()->first, devices()[3]);
  const Array y = jit([](Array a) { return a * 2; }, {.out_shardings = third})(arange(4));
  EXPECT_EQ(y.devices(), (std::set<Device>{devices()[3]}));
  EXPECT_EQ(y.to_vector<int>(), (std::vector<int>{0, 2, 4, 6}));
  const Array z = jit([](Array a) { return a * 2; })(x);
  EXPECT_EQ(z.devices(), (std::set<Device>{devices()[3]}));
}

TEST(Devices, HoldNoSlicesOfUnreducedValues) {
  const NamedSharding partial(make_mesh({{"x", 8}}), P().with_unreduced({"x"}));
  EXPECT_THROW(partial.devices_indices_map({8}), NotImplementedError);
}

TEST(Names, OfArgumentsMustBeArguments) {
  auto f = jit([](Array x) { return x; }, {.name = "f", .arg_names = {"a", "b", "c"}});
  expect_error<ValueError>([&] { f(ones({2})); },
                           {"limits_test.cc:", "'f'", "3 names", "takes 1", "'b'"});
}

TEST(Caches, AreDroppedByClearCachesOrWithTheirFunction) {
  auto f = jit([](Array x) { return x + 1; });
  f(ones({3}));
  f(ones({4}));
  EXPECT_EQ(f.cache_size(), 2);
  clear_caches();
  EXPECT_EQ(f.cache_size(), 0);
  const std::int64_t traces = f.trace_count();
  EXPECT_EQ(floats(f(ones({3}))), (std::vector<float>{2, 2, 2}));
  EXPECT_EQ(f.trace_count(), traces + 1);
  // A captured array lives as long as the program that it is an argument of.
  std::weak_ptr<tessera::internal::ArrayImpl> captured;
  {
    const Array big = ones({5});
    captured = big.impl();
    auto g = jit([big](Array x) { return x + big; });
    g(ones({5}));
    EXPECT_FALSE(captured.expired());
  }
  EXPECT_TRUE(captured.expired());
}

}  // namespace
}  // namespace tessera
