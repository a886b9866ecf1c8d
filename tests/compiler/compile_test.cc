// SPDX-License-Identifier: Apache-2.0
// Executables: what they hold and do with their arguments, memory and stages, and what is wrong.
#include "src/compiler/compile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "src/compiler/pipeline.h"
#include "tests/compiler/compile_case.h"

namespace tessera::testing {
namespace {

using compiler::DeviceArrays;

constexpr const char* kDot = R"(
HloModule dot, num_partitions=8
ENTRY main {
  x = f32[16,8] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
  w = f32[8,24] parameter(1), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  ROOT y = f32[16,24] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[2,4]<=[8]}
}
)";

TEST(Compile, ShardedDotRunsOnEightDevices) {
  const CompiledRun r =
      check_compiled(kDot, {counting(DType::f32, {16, 8}), counting(DType::f32, {8, 24})});
  EXPECT_EQ(r.executable->num_devices(), 8);
  EXPECT_EQ(r.executable->parameter_shapes()[0], Shape(DType::f32, {16, 8}));
  EXPECT_EQ(r.executable->result_shapes()[0], Shape(DType::f32, {16, 24}));
  EXPECT_EQ(r.executable->parameter_shardings()[1].shard_dims({8, 24}), (Dims{8, 6}));
  EXPECT_EQ(r.executable->result_shardings()[0].shard_dims({16, 24}), (Dims{8, 6}));
  // Nothing needs to move.
  EXPECT_TRUE(r.executable->last_run_collectives().empty());
  EXPECT_DOUBLE_EQ(r.executable->cost_analysis().flops, 2. * 8 * 6 * 8);
}

TEST(Compile, ReplicatedValuesAreComputedAndStoredOnce) {
  auto module = ir::parse_hlo(R"(
HloModule m, num_partitions=8
ENTRY main {
  x = f32[1024,256] parameter(0), sharding={replicated}
  a = f32[1024,256] exponential(x)
  b = f32[256,1024] transpose(a), dimensions={1,0}
  ROOT c = f32[256,1024] negate(b), sharding={replicated}
}
)");
  const auto executable = compiler::compile(std::move(module));
  const std::int64_t size = 1024 * 256 * 4;
  DeviceArrays args(1);
  args[0].assign(8, to_buffer(counting(DType::f32, {1024, 256}, 1e-5)));
  const std::int64_t before = runtime::memory_stats().current;
  runtime::reset_peak_memory();
  const DeviceArrays out = executable->run(args, {false});
  EXPECT_EQ(runtime::memory_stats().current, before + size);
  EXPECT_LE(runtime::memory_stats().peak, before + 2 * size);
  EXPECT_EQ(executable->memory_analysis().argument_bytes, size);
  EXPECT_EQ(executable->memory_analysis().output_bytes, size);
}

constexpr const char* kStep = R"(
HloModule step, buffer_donor={(0, {})}
ENTRY main {
  p = f32[512,512] parameter(0)
  g = f32[512,512] parameter(1)
  r = f32[] constant(0.5)
  rb = f32[512,512] broadcast(r), dimensions={}
  s = f32[512,512] multiply(g, rb)
  ROOT q = f32[512,512] subtract(p, s)
}
)";

TEST(Compile, DonatedMemoryTakesTheResult) {
  const auto executable = compiler::compile(ir::parse_hlo(kStep));
  const std::int64_t size = 512 * 512 * 4;
  DeviceArrays args(2);
  args[0].push_back(to_buffer(counting(DType::f32, {512, 512})));
  const DeviceBuffer g = to_buffer(counting(DType::f32, {512, 512}));
  args[1].push_back(g);
  const DeviceMemory* donated = args[0][0].memory.get();
  const std::int64_t before = runtime::memory_stats().current;
  runtime::reset_peak_memory();
  const DeviceArrays out = executable->run(std::move(args), {true, false});
  EXPECT_EQ(out[0][0].memory.get(), donated);
  EXPECT_EQ(runtime::memory_stats().peak, before);
  EXPECT_EQ(reinterpret_cast<const float*>(runtime::bytes_of(out[0][0]))[3], 1.5f);
  EXPECT_EQ(reinterpret_cast<const float*>(runtime::bytes_of(g))[3], 3.f);
  const MemoryAnalysis m = executable->memory_analysis();
  EXPECT_EQ(m.alias_bytes, size);
  EXPECT_EQ(m.temp_bytes, 0);
  EXPECT_EQ(m.peak_bytes_per_device, 2 * size);
}

// What is to be looked at alone: the same program and figures, and no plan of 8 devices.
TEST(Compile, ProgramsThatAreOnlyInspected) {
  constexpr const char* kText = R"(
HloModule layer, num_partitions=8
ENTRY main {
  x = f32[64,32] parameter(0), sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}
  w = f32[32,16] parameter(1), sharding={devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}
  y = f32[64,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[64,16] tanh(y)
  ROOT z = f32[64,16] add(t, y), sharding={replicated}
}
)";
  const auto runs = compiler::compile(ir::parse_hlo(kText));
  compiler::Options options;
  options.runs = false;
  const auto seen = compiler::compile(ir::parse_hlo(kText), options);
  EXPECT_EQ(ir::to_string(seen->partitioned()), ir::to_string(runs->partitioned()));
  EXPECT_EQ(seen->num_devices(), 8);
  EXPECT_EQ(seen->cost_analysis().to_text(), runs->cost_analysis().to_text());
  const MemoryAnalysis have = seen->memory_analysis(), want = runs->memory_analysis();
  EXPECT_EQ(have.argument_bytes, 4 * (16 * 32 + 16 * 16));
  EXPECT_EQ(have.output_bytes, 4 * 64 * 16);
  EXPECT_EQ(have.argument_bytes, want.argument_bytes);
  EXPECT_EQ(have.output_bytes, want.output_bytes);
  EXPECT_LE(have.peak_bytes_per_device, want.peak_bytes_per_device);
  EXPECT_GE(have.peak_bytes_per_device, have.argument_bytes + have.output_bytes);
  EXPECT_THROW(seen->run(DeviceArrays(2), {}), RuntimeError);
}

TEST(Compile, KeptArgumentsAreNotTouched) {
  const auto executable = compiler::compile(ir::parse_hlo(kStep));
  DeviceArrays args(2);
  for (auto& a : args) a.push_back(to_buffer(counting(DType::f32, {512, 512})));
  const DeviceArrays kept = args;
  const DeviceArrays out = executable->run(std::move(args), {false, false});
  EXPECT_EQ(reinterpret_cast<const float*>(runtime::bytes_of(kept[0][0]))[3], 3.f);
  EXPECT_EQ(reinterpret_cast<const float*>(runtime::bytes_of(out[0][0]))[3], 1.5f);
}

TEST(Compile, UnchangedParametersPassThroughWithoutACopy) {
  const auto executable = compiler::compile(ir::parse_hlo(R"(
HloModule m
ENTRY main {
  x = f32[8,2] parameter(0)
  y = f32[16] reshape(x)
  ROOT t = (f32[8,2], f32[16]) tuple(x, y)
}
)"));
  const DeviceBuffer x = to_buffer(counting(DType::f32, {8, 2}));
  const DeviceArrays out = executable->run({{x}}, {false});
  EXPECT_EQ(out[0][0].memory, x.memory);
  EXPECT_EQ(out[1][0].memory, x.memory);
}

TEST(Compile, LoopsUpdateTheirCarryInPlace) {
  const auto executable = compiler::compile(ir::parse_hlo(R"(
HloModule m
condition {
  c = (s32[], f32[1024,256]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(50)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  c = (s32[], f32[1024,256]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  x = f32[1024,256] get-tuple-element(c), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  zero = s32[] constant(0)
  row = f32[1,256] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,256}
  twice = f32[1,256] add(row, row)
  y = f32[1024,256] dynamic-update-slice(x, twice, j, zero)
  ROOT t = (s32[], f32[1024,256]) tuple(j, y)
}
ENTRY main {
  x = f32[1024,256] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[1024,256]) tuple(zero, x)
  w = (s32[], f32[1024,256]) while(t), condition=condition, body=body
  ROOT y = f32[1024,256] get-tuple-element(w), index=1
}
)"));
  const std::int64_t size = 1024 * 256 * 4;
  DeviceArrays args(1);
  args[0].push_back(to_buffer(counting(DType::f32, {1024, 256}, 1e-3)));
  const DeviceMemory* given = args[0][0].memory.get();
  const std::int64_t before = runtime::memory_stats().current;
  runtime::reset_peak_memory();
  const DeviceArrays out = executable->run(std::move(args), {true});
  EXPECT_LT(runtime::memory_stats().peak, before + size / 4);
  EXPECT_EQ(out[0][0].memory.get(), given);
  const float* v = reinterpret_cast<const float*>(runtime::bytes_of(out[0][0]));
  EXPECT_FLOAT_EQ(v[50 * 256 + 7], 0.007f * std::pow(2.f, 50.f));
}

TEST(Compile, ReplicasMayBeChecked) {
  const auto executable = compiler::compile(ir::parse_hlo(R"(
HloModule m, num_partitions=2
ENTRY main {
  x = f32[4] parameter(0), sharding={replicated}
  ROOT y = f32[4] negate(x), sharding={replicated}
}
)"));
  const DeviceArrays args = {
      {to_buffer(counting(DType::f32, {4})), to_buffer(counting(DType::f32, {4}, 2))}};
  EXPECT_NO_THROW(executable->run(args, {}));
  ::setenv("TESSERA_CHECK_REPLICAS", "1", 1);
  EXPECT_THROW(executable->run(args, {}), RuntimeError);
  ::unsetenv("TESSERA_CHECK_REPLICAS");
}

TEST(Compile, OpsWithoutAKernelAreListedWithTheirLine) {
  const CompiledRun r = check_compiled(R"(
HloModule m
ENTRY main {
  s = u64[3] parameter(0)
  ROOT r = (u64[3], u32[4]) rng-bit-generator(s), algorithm=rng_three_fry, metadata={op_name="bits" source_file="model.cc" source_line=12}
}
)",
                                       {make_literal<int>(DType::u64, {3}, {1, 2, 3})});
  ASSERT_EQ(r.executable->evaluator_ops().size(), 1u);
  EXPECT_NE(r.executable->evaluator_ops()[0].find("model.cc:12"), std::string::npos)
      << r.executable->evaluator_ops()[0];
}

TEST(Compile, UnknownCustomCallsAreErrors) {
  try {
    compiler::compile(ir::parse_hlo(R"(
HloModule m
ENTRY main {
  x = f32[3] parameter(0)
  ROOT c = f32[3] custom-call(x), custom_call_target="mystery", metadata={source_file="model.cc" source_line=3}
}
)"));
    FAIL() << "compiled";
  } catch (const NotImplementedError& e) {
    EXPECT_NE(std::string(e.what()).find("mystery"), std::string::npos) << e.what();
    EXPECT_EQ(e.location().line, 3u);
  }
}

// Text that is printed for reading leaves long constants out. They were taken for what there was in
// memory.
TEST(Compile, ConstantsThatTheTextLeavesOutAreErrors) {
  const auto module = ir::parse_hlo(R"(
HloModule m
ENTRY main {
  x = f32[4,16] parameter(0)
  weights = f32[16] constant({...})
  b = f32[4,16] broadcast(weights), dimensions={1}
  ROOT y = f32[4,16] add(x, b)
}
)");
  try {
    compiler::compile(module->clone());
    FAIL() << "compiled";
  } catch (const CompileError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("the value of constant weights, f32[16], was left out"), std::string::npos)
        << text;
    EXPECT_NE(text.find("print_large_constants"), std::string::npos) << text;
  }
  // What isn't run may do without them.
  compiler::Options options;
  options.runs = false;
  EXPECT_NO_THROW(compiler::compile(module->clone(), options));
}

TEST(Compile, WrongNumbersOfArgumentsAreErrors) {
  const auto executable = compiler::compile(ir::parse_hlo(kStep));
  EXPECT_THROW(executable->run({}, {}), RuntimeError);
  const DeviceArrays args(2, {to_buffer(counting(DType::f32, {512, 512}))});
  EXPECT_THROW(executable->run(args, {true}), RuntimeError);
  EXPECT_NO_THROW(executable->run(args, {}));
}

TEST(Compile, NumbersOfDevicesAreBounded) {
  for (const char* n : {"2147483647", "1048577"}) {
    const std::string text = "HloModule big, num_partitions=" + std::string(n) +
                             "\nENTRY main { x = f32[8] parameter(0)\n ROOT y = f32[8] negate(x) }";
    try {
      compiler::compile(ir::parse_hlo(text));
      FAIL() << n;
    } catch (const CompileError& e) {
      EXPECT_NE(e.message().find("num_partitions=" + std::string(n) + "; valid are 1 to 1048576"),
                std::string::npos)
          << e.what();
    }
  }
}

TEST(Compile, ScansOfHloTextAreLoopsThatAreSharded) {
  const auto scan = compiler::compile(ir::parse_hlo(R"(HloModule m, num_partitions=4
step { x = f32[4] parameter(0)
  c = f32[4] parameter(1)
  d = f32[4] subtract(c, x)
  ROOT t = (f32[4], f32[4]) tuple(d, d) }
ENTRY e { a = f32[6,4] parameter(0), sharding={devices=[1,4]<=[4]}
  b = f32[4] parameter(1)
  ROOT s = (f32[6,4], f32[4]) scan(a, b), dimensions={0}, num_carries=1, to_apply=step })"));
  EXPECT_TRUE(scan->evaluator_ops().empty());
  EXPECT_TRUE(scan->report().records.empty());
  const std::string text = ir::to_string(scan->partitioned());
  EXPECT_NE(text.find("f32[6,1]{1,0}) while("), std::string::npos) << text;
}

TEST(Compile, TheDumpMakesOneFolderOnly) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "tessera_no_such" / "x";
  ::setenv("TESSERA_DUMP_TO", folder.c_str(), 1);
  EXPECT_THROW(compiler::compile(ir::parse_hlo(kDot)), IoError);
  ::unsetenv("TESSERA_DUMP_TO");
  EXPECT_FALSE(std::filesystem::exists(folder.parent_path()));
}

TEST(Compile, StagesAreDumped) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "tessera_dump_test";
  std::filesystem::remove_all(folder);
  ::setenv("TESSERA_DUMP_TO", folder.c_str(), 1);
  compiler::compile(ir::parse_hlo(kDot));
  ::unsetenv("TESSERA_DUMP_TO");
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
    std::ifstream file(entry.path());
    std::string first;
    std::getline(file, first);
    EXPECT_NE(first, "") << entry.path();
  }
  std::sort(names.begin(), names.end());
  ASSERT_EQ(names.size(), 7u);
  EXPECT_NE(names[0].find("dot.00.input"), std::string::npos) << names[0];
  EXPECT_NE(names[2].find("reshards"), std::string::npos) << names[2];
  EXPECT_NE(names[3].find("partition"), std::string::npos) << names[3];
  EXPECT_NE(names[5].find("build-plan"), std::string::npos) << names[5];
  EXPECT_NE(names[6].find("plan"), std::string::npos) << names[6];
  std::filesystem::remove_all(folder);
}

TEST(Compile, StagesKeepTheirModules) {
  const auto executable = compiler::compile(ir::parse_hlo(kDot));
  EXPECT_EQ(executable->input().entry()->root()->shape.dims, (Dims{16, 24}));
  EXPECT_TRUE(executable->propagated().entry()->root()->has_sharding());
  EXPECT_EQ(executable->partitioned().entry()->root()->shape.dims, (Dims{8, 6}));
  compiler::Options lean;
  lean.keep_stages = false;
  EXPECT_THROW(compiler::compile(ir::parse_hlo(kDot), lean)->input(), ValueError);
}

TEST(Compile, RunsMayOverlap) {
  const auto executable = compiler::compile(ir::parse_hlo(kDot));
  const Literal x = counting(DType::f32, {16, 8}), w = counting(DType::f32, {8, 24});
  const Literal whole = evaluator::evaluate(executable->input(), std::vector<Literal>{x, w});
  const auto args = shard_arguments(executable->partitioned(), {x, w});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        const auto out = executable->run(to_device_arrays(args), {});
        if (difference(to_literals(*executable, out), whole, executable->result_shardings(),
                       1e-5)) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tessera::testing
