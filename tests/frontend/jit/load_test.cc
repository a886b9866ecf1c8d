// SPDX-License-Identifier: Apache-2.0
// Programs loaded from HLO and StableHLO text.
#include <gtest/gtest.h>
#include <tessera/jit.h>
#include <tessera/load.h>
#include <tessera/ops.h>
#include <tessera/placement.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Floats = std::vector<float>;

/// A file that is gone when the test is over.
class TextFile {
 public:
  explicit TextFile(const std::string& text) {
    static int count = 0;
    path_ = (fs::temp_directory_path() /
             ("tessera_load_" + std::to_string(getpid()) + "_" + std::to_string(++count) + ".hlo"))
                .string();
    std::ofstream(path_) << text;
  }
  ~TextFile() { fs::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

constexpr const char* kAffine = R"(HloModule affine

ENTRY main {
  x = f32[8,4]{1,0} parameter(0)
  scale = f32[] parameter(1)
  wide = f32[8,4]{1,0} broadcast(scale), dimensions={}
  y = f32[8,4]{1,0} multiply(x, wide)
  ROOT out = (f32[8,4]{1,0}, f32[]) tuple(y, scale)
}
)";

// "x" over the rows of the first parameter and the columns of the result.
constexpr const char* kSharded =
    R"(HloModule turn, num_partitions=8, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=8]>}}

ENTRY main {
  x = f32[16,8]{1,0} parameter(0), sharding={devices=[8,1]<=[8]}
  b = f32[8]{0} parameter(1)
  wide = f32[16,8]{1,0} broadcast(b), dimensions={1}
  ROOT y = f32[16,8]{1,0} add(x, wide), sharding={devices=[1,8]<=[8]}
}
)";

Array counted(Array::Dims shape) {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  return reshape(arange(0, n, 1, f32), shape);
}

template <class E, class F>
E error_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e;
  }
  ADD_FAILURE() << "nothing was thrown";
  return E("nothing was thrown");
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Load, ACallCompilesOnceAndRuns) {
  const TextFile file(kAffine);
  const LoadedFunction f = load_hlo(file.path());
  EXPECT_EQ(f.name(), "affine");
  const auto parameters = f.parameters(), results = f.results();
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters[0].path, "x");
  EXPECT_EQ(parameters[0].shape, (Array::Dims{8, 4}));
  EXPECT_EQ(parameters[1].path, "scale");
  ASSERT_EQ(results.size(), 2u);
  EXPECT_TRUE(f.mesh().empty());

  const Array x = counted({8, 4});
  for (const float scale : {3.f, -2.f}) {
    const std::vector<Array> out = f(x, full({}, scale));
    ASSERT_EQ(out.size(), 2u);
    const Floats y = out[0].to_vector<float>();
    for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], scale * float(i));
    EXPECT_EQ(out[1].item<float>(), scale);
  }
  EXPECT_EQ(f.cache_size(), 1);
  // Plain numbers, and a vector in place of arguments.
  EXPECT_EQ(f(x, 2)[1].item<float>(), 2);
  EXPECT_EQ(f({x, 2.5})[1].item<float>(), 2.5f);
  const std::vector<Array> both{x, full({}, 4.f)};
  EXPECT_EQ(f(both)[1].item<float>(), 4);
}

TEST(Load, BytecodeIsWhatItsTextIs) {
  const std::string folder = std::string(TESSERA_SOURCE_DIR) + "/tests/fixtures/bytecode/";
  const LoadedFunction text = load_stablehlo(folder + "control.mlir");
  for (const char* version : {"0.9.0", "1.17.0", "native"}) {
    const LoadedFunction bytes = load_stablehlo(folder + "control." + version + ".mlirbc");
    const Array x = full({4}, 0.5f);
    const std::vector<Array> want = text(x), got = bytes(x);
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(got[0].to_vector<int>(), want[0].to_vector<int>());
    EXPECT_EQ(got[1].to_vector<float>(), want[1].to_vector<float>());
  }
}

TEST(Load, WrongArgumentsNameParameterFileAndLine) {
  const TextFile file(kAffine);
  const LoadedFunction f = load_hlo(file.path());
  const auto number = error_of<TypeError>([&] { f(ones({8, 4})); });
  EXPECT_TRUE(contains(number.message(), "takes 2 arrays (f32[8,4], f32[])")) << number.message();
  EXPECT_TRUE(contains(number.message(), file.path()));
  unsigned line = 0;
  const auto shape = error_of<ShapeError>([&] {
    line = __LINE__ + 1;
    f(ones({4, 8}), 1);
  });
  EXPECT_TRUE(contains(shape.message(), "argument 0 is f32[4,8], and parameter 'x'"))
      << shape.message();
  EXPECT_TRUE(contains(shape.message(), file.path()));
  EXPECT_EQ(shape.location().line, line);
  EXPECT_TRUE(contains(shape.location().file, "load_test.cc"));
  const auto dtype = error_of<DTypeError>([&] { f(astype(ones({8, 4}), s32), 1); });
  EXPECT_TRUE(contains(dtype.message(), "argument 0 is s32[8,4]")) << dtype.message();
  EXPECT_TRUE(contains(dtype.message(), "astype"));
  // Inside of jit the same, at the line of the call.
  auto g = jit([&](Array x) {
    line = __LINE__ + 1;
    return f(x, x);
  });
  const auto inner = error_of<ShapeError>([&] { g(ones({8, 4})); });
  EXPECT_TRUE(contains(inner.message(), "parameter 'scale'")) << inner.message();
  EXPECT_EQ(inner.location().line, line);
}

TEST(Load, FilesThatCannotBeReadAreNamed) {
  const auto missing = error_of<IoError>([] { load_hlo("/no/such/file.hlo"); });
  EXPECT_TRUE(contains(missing.message(), "/no/such/file.hlo"));
  EXPECT_TRUE(contains(missing.location().file, "load_test.cc"));
  const TextFile garbage("HloModule m\n\nENTRY main {\n  ROOT x = f32[2]{0} frobnicate()\n}\n");
  const auto parse = error_of<ParseError>([&] { load_hlo(garbage.path()); });
  EXPECT_TRUE(contains(parse.what(), garbage.path() + ":4: column")) << parse.what();
  const TextFile other("once upon a time");
  EXPECT_TRUE(contains(error_of<ParseError>([&] { load_stablehlo(other.path()); }).what(), ":1: "));
  const TextFile hlo(kAffine);
  EXPECT_TRUE(contains(error_of<ParseError>([&] { load_stablehlo(hlo.path()); }).message(),
                       "this is hlo text, not stablehlo"));
  const TextFile tuples(
      "HloModule m\n\nENTRY main {\n  p = (f32[2]{0}, f32[]) parameter(0)\n"
      "  ROOT x = f32[2]{0} get-tuple-element(p), index=0\n}\n");
  EXPECT_THROW(load_hlo(tuples.path()), NotImplementedError);
}

TEST(Load, JitTakesItLikeAnyFunction) {
  const TextFile file(kAffine);
  const LoadedFunction f = load_hlo(file.path());
  const Array x = counted({8, 4});
  auto direct = jit(f);
  EXPECT_EQ(direct(x, full({}, 3.f))[0].to_vector<float>(),
            f(x, full({}, 3.f))[0].to_vector<float>());
  auto twice = jit([&](Array a, Array s) { return f(f(a, s)[0], s + 1)[0] - a; });
  const Floats y = twice(x, full({}, 3.f)).to_vector<float>();
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], 11 * float(i));
  // Two calls, one copy of the program.
  const std::string text = twice.lower(x, full({}, 3.f)).as_text();
  std::size_t multiplies = 0, calls = 0;
  for (std::size_t at = 0; (at = text.find(" multiply(", at)) != std::string::npos; ++at) {
    ++multiplies;
  }
  for (std::size_t at = 0; (at = text.find(" call(", at)) != std::string::npos; ++at) ++calls;
  EXPECT_EQ(multiplies, 1u) << text;
  EXPECT_EQ(calls, 2u) << text;
  // Its arguments' shardings are propagated through it.
  const Mesh mesh = make_mesh({{"d", 8}});
  const Array rows = device_put(x, NamedSharding(mesh, P("d")));
  const Array out = f(rows, 2)[0];
  EXPECT_TRUE(out.sharding().is_equivalent_to(NamedSharding(mesh, P("d")), 2))
      << out.sharding().to_string();
}

TEST(Load, ShardingsOfTheFileHold) {
  const TextFile file(kSharded);
  const LoadedFunction f = load_hlo(file.path());
  const Mesh mesh = make_mesh({{"x", 8}});
  EXPECT_EQ(f.mesh(), mesh);
  EXPECT_EQ(f.parameters()[0].sharding, NamedSharding(mesh, P("x")));
  EXPECT_EQ(f.results()[0].sharding, NamedSharding(mesh, P(nullptr, "x")));
  const Array x = counted({16, 8}), b = ones({8});
  Floats want = x.to_vector<float>();
  for (float& v : want) v += 1;

  const Array free = f(x, b)[0];
  EXPECT_EQ(free.to_vector<float>(), want);
  EXPECT_EQ(free.sharding(), NamedSharding(mesh, P(nullptr, "x")));
  EXPECT_TRUE(free.committed());
  // An argument with another sharding is resharded.
  const Array otherwise = device_put(x, NamedSharding(mesh, P(nullptr, "x")));
  const Array second = f(otherwise, b)[0];
  EXPECT_EQ(second.to_vector<float>(), want);
  EXPECT_EQ(second.sharding(), NamedSharding(mesh, P(nullptr, "x")));
  // One on other devices can't be.
  const Array elsewhere = device_put(x, SingleDeviceSharding(devices()[3]));
  EXPECT_THROW(f(elsewhere, b), ValueError);

  // In a function with a mesh of its own over the same devices.
  const Mesh other = make_mesh({{"a", 2}, {"b", 4}});
  const Array split = device_put(x, NamedSharding(other, P("b", "a")));
  auto g = jit([&](Array p, Array q) { return f(p, q)[0] * 2; });
  const Array third = g(split, device_put(b, NamedSharding(other, P())));
  for (float& v : want) v *= 2;
  EXPECT_EQ(third.to_vector<float>(), want);
  EXPECT_TRUE(third.sharding().is_equivalent_to(NamedSharding(mesh, P(nullptr, "x")), 2))
      << third.sharding().to_string();
}

TEST(Load, ShardingsOfTheFileCanBeLeftOut) {
  const TextFile file(kSharded);
  const LoadedFunction f = load_hlo(file.path(), {.shardings = false});
  EXPECT_TRUE(f.mesh().empty());
  const Array x = counted({16, 8});
  EXPECT_EQ(f(x, ones({8}))[0].devices().size(), 1u);
  const Mesh two = make_mesh({2}, {"m"}, {}, {devices()[0], devices()[1]});
  const Array y = f(device_put(x, NamedSharding(two, P("m"))), ones({8}))[0];
  EXPECT_EQ(y.sharding(), NamedSharding(two, P("m")));
  EXPECT_EQ(y.to_vector<float>()[9], 10.f);
}

/// Doubles its argument, each device its part.
std::string per_device_code(int devices) {
  const std::string n = std::to_string(devices), part = std::to_string(8 / devices);
  return "module @doubled attributes {mhlo.num_partitions = " + n + R"( : i32} {
  sdy.mesh @mesh = <["x"=)" +
         n + R"(]>
  func.func public @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%arg1: tensor<)" +
         part + R"(xf32>) {
      %1 = stablehlo.add %arg1, %arg1 : tensor<)" +
         part + R"(xf32>
      sdy.return %1 : tensor<)" +
         part + R"(xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
)";
}

TEST(Load, PerDeviceCodeNeedsItsShardings) {
  const TextFile two(per_device_code(2)), one(per_device_code(1));
  const Floats want{0, 2, 4, 6, 8, 10, 12, 14};
  EXPECT_EQ(load_stablehlo(two.path())(counted({8}))[0].to_vector<float>(), want);
  EXPECT_EQ(load_stablehlo(one.path())(counted({8}))[0].to_vector<float>(), want);
  for (const TextFile* file : {&two, &one}) {
    const unsigned line = __LINE__ + 2;
    const auto e =
        error_of<ShardingError>([&] { load_stablehlo(file->path(), {.shardings = false}); });
    EXPECT_TRUE(contains(e.message(), "LoadOptions::shardings can't be off")) << e.message();
    EXPECT_EQ(e.location().line, line);
  }
}

TEST(Load, ConstraintsInsideStay) {
  const TextFile file(R"(HloModule inside, num_partitions=8

ENTRY main {
  x = f32[16,8]{1,0} parameter(0), sharding={replicated}
  twice = f32[16,8]{1,0} add(x, x)
  there = f32[16,8]{1,0} custom-call(twice), custom_call_target="Sharding", sharding={devices=[4,2]<=[8]}
  ROOT y = f32[16,8]{1,0} negate(there)
}
)");
  const LoadedFunction f = load_hlo(file.path());
  const Array y = f(ones({16, 8}))[0];
  EXPECT_EQ(y.addressable_shards()[0].data.shape(), (Array::Dims{4, 4}));
  EXPECT_EQ(y.to_vector<float>(), Floats(128, -2.f));
}

TEST(Load, DevicesInAnyOrder) {
  const TextFile file(R"(HloModule order, num_partitions=8

ENTRY main {
  x = f32[8]{0} parameter(0), sharding={devices=[8]7,2,5,0,3,6,1,4}
  ROOT y = f32[8]{0} add(x, x), sharding={devices=[8]7,2,5,0,3,6,1,4}
}
)");
  const Array y = load_hlo(file.path())(counted({8}))[0];
  EXPECT_EQ(y.to_vector<float>(), (Floats{0, 2, 4, 6, 8, 10, 12, 14}));
  for (const Shard& s : y.addressable_shards()) {
    const std::vector<std::int64_t> order{7, 2, 5, 0, 3, 6, 1, 4};
    const auto at = std::find(order.begin(), order.end(), s.device.id) - order.begin();
    EXPECT_EQ(s.data.item<float>(), 2 * float(at));
  }
}

TEST(Load, TooFewDevicesAreAnErrorAtTheCall) {
  const TextFile file(R"(HloModule many, num_partitions=4096

ENTRY main {
  x = f32[4096]{0} parameter(0), sharding={devices=[4096]<=[4096]}
  ROOT y = f32[4096]{0} add(x, x)
}
)");
  const LoadedFunction f = load_hlo(file.path());
  const auto e = error_of<ValueError>([&] { f(ones({4096})); });
  EXPECT_TRUE(contains(e.message(), "4096 devices")) << e.message();
  EXPECT_TRUE(contains(e.message(), "TESSERA_NUM_DEVICES"));
}

struct Pair {
  Array first;
  Array second;
};

TEST(Load, TypesOfTheUsersOwn) {
  const TextFile file(kAffine);
  const LoadedFunction f = load_hlo(file.path());
  const auto typed = f.as<Pair(Array, Array)>();
  const Array x = counted({8, 4});
  const Pair out = typed(x, 3);
  EXPECT_EQ(out.second.item<float>(), 3);
  const auto tree = f.as<std::tuple<Array, Array>(Pair)>();
  EXPECT_EQ(std::get<1>(tree(Pair{x, full({}, 5.f)})).item<float>(), 5);
  EXPECT_EQ(f.as<std::vector<Array>(Pair)>()(Pair{x, 1}).size(), 2u);
  auto in_jit = jit(typed);
  EXPECT_EQ(in_jit(x, full({}, 2.f)).first.to_vector<float>()[31], 62);
  unsigned line = __LINE__ + 1;
  const auto wrong = error_of<TypeError>([&] { f.as<Array(Array, Array)>(); });
  EXPECT_TRUE(contains(wrong.message(), "has 2 results")) << wrong.message();
  EXPECT_EQ(wrong.location().line, line);
}

// x + y, whose sizes are those of a call; the program wants two rows or more.
constexpr const char* kOpen = R"(module @sums {
  func.func public @main(%x: tensor<?x3xf32>, %y: tensor<3xf32>) -> tensor<?x3xf32> {
    %c = stablehlo.constant dense<2> : tensor<i32>
    %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
    %p = stablehlo.compare GE, %n, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%p, %n) {error_message = "at least 2 rows, not {0}", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
    %r = chlo.broadcast_add %x, %y : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
    return %r : tensor<?x3xf32>
  }
}
)";

TEST(Load, SpecialisesToTheSizesOfArguments) {
  const TextFile file(kOpen);
  const LoadedFunction f = load_stablehlo(file.path());
  EXPECT_EQ(f.name(), "sums");
  EXPECT_EQ(f.parameters()[0].shape, (Array::Dims{-1, 3}));
  EXPECT_EQ(f.results()[0].shape, (Array::Dims{-1, 3}));
  const Array y = counted({3});
  EXPECT_EQ(f(counted({2, 3}), y)[0].to_vector<float>(), (Floats{0, 2, 4, 3, 5, 7}));
  EXPECT_EQ(f.cache_size(), 1);
  EXPECT_EQ(f(counted({3, 3}), y)[0].shape(), (Array::Dims{3, 3}));
  EXPECT_EQ(f.cache_size(), 2);
  (void)f(counted({2, 3}), y);
  EXPECT_EQ(f.cache_size(), 2);
  // Within a traced function the sizes are those of the trace.
  const auto twice = jit([&](Array x) { return f(f(x, y)[0], y)[0]; });
  EXPECT_EQ(twice(counted({2, 3})).to_vector<float>(), (Floats{0, 3, 6, 3, 6, 9}));
}

TEST(Load, KeepsTheSizesThatWereUsedLast) {
  const TextFile file(R"(func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %r = stablehlo.add %x, %x : tensor<?xf32>
  return %r : tensor<?xf32>
})");
  const LoadedFunction f = load_stablehlo(file.path());
  for (std::int64_t n = 1; n <= 260; ++n) {
    (void)f(counted({n}));
    (void)f(counted({1}));
  }
  EXPECT_EQ(f.cache_size(), 256);
  EXPECT_EQ(f(counted({2}))[0].to_vector<float>(), (Floats{0, 2}));
  EXPECT_EQ(f.cache_size(), 256);
}

TEST(Load, NamesSizesThatDontFit) {
  const TextFile file(kOpen);
  const LoadedFunction f = load_stablehlo(file.path());
  const Array y = counted({3});
  const auto wrong = error_of<ShapeError>([&] { (void)f(counted({2, 4}), y); });
  EXPECT_TRUE(contains(wrong.what(), "load_test.cc")) << wrong.what();
  EXPECT_TRUE(contains(wrong.what(), "argument 0 is f32[2,4], and parameter 'x' of 'sums'"))
      << wrong.what();
  EXPECT_TRUE(contains(wrong.what(), "f32[?,3]")) << wrong.what();
  const auto refused = error_of<ShapeError>([&] { (void)f(counted({1, 3}), y); });
  EXPECT_TRUE(contains(refused.what(), "for f32[1,3], f32[3]: ")) << refused.what();
  EXPECT_TRUE(contains(refused.what(), "at least 2 rows, not 1")) << refused.what();
  const auto count = error_of<TypeError>([&] { (void)f(y); });
  EXPECT_TRUE(contains(count.what(), "takes 2 arrays (f32[?,3], f32[3])")) << count.what();
  const auto dtype = error_of<DTypeError>([&] { (void)f(astype(counted({2, 3}), s32), y); });
  EXPECT_TRUE(contains(dtype.what(), "parameter 'x'")) << dtype.what();
}

// A size may be an integer that the program is given.
TEST(Load, SpecialisesToIntegersThatSaySizes) {
  const TextFile file(R"(func.func @main(%n: tensor<i32>) -> tensor<?xi32> {
  %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %r = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
  return %r : tensor<?xi32>
})");
  const LoadedFunction f = load_stablehlo(file.path());
  EXPECT_EQ(f(Array(3))[0].to_vector<int>(), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(f(Array(1))[0].to_vector<int>(), (std::vector<int>{0}));
  EXPECT_EQ(f.cache_size(), 2);
  // What is refused leaves nothing behind.
  EXPECT_THROW((void)f(Array(-1)), Error);
  EXPECT_EQ(f.cache_size(), 2);
  const auto traced = jit([&](Array n) { return f(n)[0]; });
  const auto e = error_of<NotImplementedError>([&] { (void)traced(Array(3)); });
  EXPECT_TRUE(contains(e.what(), "depends on more than the arguments' sizes")) << e.what();
}

}  // namespace
}  // namespace tessera
