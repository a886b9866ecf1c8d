// SPDX-License-Identifier: Apache-2.0
// What moves between devices in programs compiled through all stages.
#include <gtest/gtest.h>

#include <cstdlib>

#include "src/cost/count.h"
#include "src/text/read/stablehlo.h"
#include "tests/compiler/compile_case.h"

namespace tessera::testing {
namespace {

/// Two equal dots, one with users split by rows and one by columns, and `others` more instructions.
std::string two_equal_dots(int others) {
  std::string text = R"(
HloModule twice, num_partitions=8
ENTRY main {
  x = f32[64,16] parameter(0), sharding={replicated}
  w = f32[16,64] parameter(1), sharding={replicated}
  n0 = f32[64,16] negate(x)
)";
  for (int k = 1; k <= others; ++k) {
    text += "  n" + std::to_string(k) + " = f32[64,16] negate(n" + std::to_string(k - 1) + ")\n";
  }
  return text + R"(
  a = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[64,64], f32[64,64], f32[64,16]) tuple(a, b, n)" +
         std::to_string(others) + R"(),
    sharding={{devices=[8,1]<=[8]}, {devices=[1,8]<=[8]}, {replicated}}
}
)";
}

TEST(Communication, EqualDotsAreShardedForEachUser) {
  const std::vector<Literal> arguments{counting(f32, {64, 16}), counting(f32, {16, 64}, 0.5)};
  const auto count = [&](int others) {
    return cost::count_communication(
        check_compiled(two_equal_dots(others), arguments, 1e-4).executable->partitioned());
  };
  // Each device multiplies its rows and its columns, and nothing moves.
  for (const int others : {0, 1600}) {
    const auto apart = count(others);
    EXPECT_EQ(apart.total_bytes, 0);
    EXPECT_EQ(apart.dot_flops, 2 * 2 * 64 * 16 * 64 / 8.0);
  }
}

// As of a loss and a prediction, each of which calls the same model.
TEST(Communication, EqualSumsOfTwoManualComputationsAreReducedOnce) {
  const auto sums = [](const std::string& name, const std::string& more) {
    return "    %" + name + R"( = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}, {}]>]
      out_shardings=[<@mesh, [{}, {}]>] manual_axes={"x"} (%a: tensor<8x8xf32>) {
)" + more + R"(      %s = "stablehlo.all_reduce"(%a) <{
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>,
        use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %t = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %t : tensor<f32>
      }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      sdy.return %s : tensor<8x8xf32>
    } : (tensor<64x8xf32>) -> tensor<8x8xf32>
)";
  };
  auto module = text::parse_stablehlo(
      R"(module @twice attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%x: tensor<64x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
      -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
          tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
)" + sums("0", "      %n = stablehlo.negate %a : tensor<8x8xf32>\n") +
      sums("1", "") + R"(    return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
  }
})");
  const auto executable = compiler::compile(std::move(module));
  EXPECT_EQ(cost::count_communication(executable->partitioned()).total_bytes,
            2 * 8 * 8 * 4 * 7 / 8.0)
      << ir::to_string(executable->partitioned());
}

// As `a.at[1:-1, 1:-1].add(b)` is exported: only the rows and columns of b next to the boundaries
// move, not all of b.
TEST(Communication, AScatterOfAWindowAtAKnownPlaceTakesHalos) {
  const CompiledRun r = check_compiled(R"(
HloModule inner, num_partitions=8
add { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q) }
ENTRY main {
  a = f32[24,16] parameter(0), sharding={devices=[4,2]<=[8]}
  s = f32[22,14] slice(a), slice={[1:23], [1:15]}
  b = f32[22,14] negate(s)
  at = s32[2] constant({1,1})
  ROOT y = f32[24,16] scatter(a, at, b), update_window_dims={0,1}, inserted_window_dims={},
    scatter_dims_to_operand_dims={0,1}, index_vector_dim=0, to_apply=add,
    sharding={devices=[4,2]<=[8]}
}
)",
                                       {counting(DType::f32, {24, 16})});
  const auto& device = r.executable->partitioned();
  EXPECT_LE(cost::count_communication(device).total_bytes, 2 * (2 * 8 + 2 * 6) * 4)
      << ir::to_string(device);
}

TEST(Communication, RematsAndCustomDerivativesArePartitionedAsWhatTheyRun) {
  const auto program = [](const std::string& of_first, const std::string& of_second) {
    return R"(
HloModule layers, num_partitions=8
layer { x = f32[16,8] parameter(0)
  w = f32[8,8] parameter(1)
  d = f32[16,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[16,8] tanh(d) }
ENTRY main {
  x = f32[16,8] parameter(0), sharding={devices=[8,1]<=[8]}
  w = f32[8,8] parameter(1), sharding={devices=[1,8]<=[8]}
  a = f32[16,8] )" +
           of_first + "\n  b = f32[16,8] " + of_second + "\n  ROOT r = f32[16,8] add(a, b)\n}\n";
  };
  const std::vector<Literal> arguments{counting(DType::f32, {16, 8}), counting(DType::f32, {8, 8})};
  const CompiledRun calls = check_compiled(
      program("call(x, w), to_apply=layer", "call(x, w), to_apply=layer"), arguments);
  const CompiledRun typed = check_compiled(
      program("custom-call(x, w), custom_call_target=\"tessera.CustomDerivative\", "
              "called_computations={layer}",
              "custom-call(x, w), custom_call_target=\"tessera.Remat\", differentiated=true, "
              "called_computations={layer}"),
      arguments);
  const auto dots = [](const CompiledRun& r) {
    const std::string text = ir::to_string(r.executable->partitioned());
    std::size_t n = 0;
    for (std::size_t at = text.find(" dot("); at != std::string::npos;
         at = text.find(" dot(", at + 1))
      ++n;
    return n;
  };
  EXPECT_EQ(dots(calls), 1u) << "equal calls are joined";
  EXPECT_EQ(dots(typed), 2u) << ir::to_string(typed.executable->partitioned());
}

// Each device needs one row of the first three: three permutes of one row, or one reduce-scatter of
// eight, which starts fewer collectives; not a gather of all.
TEST(Communication, FewRowsAreSentToDevicesThatNeedThem) {
  const CompiledRun r = check_compiled(R"(
HloModule few, num_partitions=8
ENTRY main {
  x = f32[24,16] parameter(0), sharding={devices=[8,1]<=[8]}
  s = f32[8,16] slice(x), slice={[0:8], [0:16]}
  ROOT y = f32[8,16] negate(s), sharding={devices=[8,1]<=[8]}
}
)",
                                       {counting(DType::f32, {24, 16})});
  const auto count = cost::count_communication(r.executable->partitioned());
  EXPECT_LE(count.total_bytes + 256 * count.executed, 3 * (16 * 4 + 256))
      << ir::to_string(r.executable->partitioned());
}

// Weights that are gathered for one dot: the environment says from which size they go round.
TEST(Communication, DotsBecomeCollectiveMatmulsFromTheConfiguredSize) {
  const std::string text = R"(
HloModule layer, num_partitions=8
ENTRY main {
  x = f32[64,32] parameter(0), sharding={devices=[8,1]<=[8]}
  w = f32[32,16] parameter(1), sharding={devices=[8,1]<=[8]}
  ROOT y = f32[64,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    sharding={devices=[8,1]<=[8]}
}
)";
  const std::vector<Literal> arguments = {counting(DType::f32, {64, 32}, 0.01),
                                          counting(DType::f32, {32, 16}, 0.02)};
  const auto kinds = [&](const char* from) {
    setenv("TESSERA_WINDOW_DOTS_FROM", from, 1);
    const CompiledRun r = check_compiled(text, arguments);
    unsetenv("TESSERA_WINDOW_DOTS_FROM");
    return cost::count_communication(r.executable->partitioned()).kinds;
  };
  const auto whole = kinds("2049"), parts = kinds("2048");
  ASSERT_EQ(whole.count("all-gather"), 1u);
  EXPECT_EQ(parts.count("all-gather"), 0u);
  ASSERT_EQ(parts.count("collective-permute"), 1u);
  EXPECT_EQ(parts.at("collective-permute").bytes, whole.at("all-gather").bytes);
  setenv("TESSERA_WINDOW_DOTS_FROM", "-1", 1);
  EXPECT_THROW(compiler::compile(ir::parse_hlo(text)), ValueError);
  unsetenv("TESSERA_WINDOW_DOTS_FROM");
}

// The pad is seen beside its slice although front ends wrap pads in functions of their own.
TEST(Communication, AShiftWithItsPadInACalledFunctionMovesOneRow) {
  const CompiledRun r = check_compiled(R"(HloModule m, num_partitions=8
wrapped { x = f32[64,4] parameter(0)
  n = s32[] parameter(1)
  v = f32[] convert(n)
  ROOT p = f32[65,4] pad(x, v), padding=1_0x0_0 }
ENTRY e { a = f32[64,4] parameter(0), sharding={devices=[8,1]<=[8]}
  z = s32[] constant(0)
  p = f32[65,4] call(a, z), to_apply=wrapped
  ROOT r = f32[64,4] slice(p), slice={[0:64], [0:4]}, sharding={devices=[8,1]<=[8]} }
)",
                                       {counting(DType::f32, {64, 4})});
  EXPECT_EQ(cost::count_communication(r.executable->partitioned()).total_bytes, 4 * 4);
}

TEST(Communication, ResultsAreShardedAsTheRootStatesWhateverItsOpcode) {
  const std::string x = "  x = f32[16,8] parameter(0), sharding={devices=[8,1]<=[8]}\n";
  const std::string result = ", sharding={devices=[8,1]<=[8]}\n}\n";
  const std::string twice =
      "twice {\n  a = f32[16,8] parameter(0)\n  ROOT b = f32[16,8] add(a, a)\n}\n";
  const std::string same = "same {\n  ROOT a = f32[16,8] parameter(0)\n}\n";
  for (const std::string& text :
       {twice + "ENTRY main {\n" + x + "  ROOT r = f32[16,8] call(x), to_apply=twice" + result,
        same + "ENTRY main {\n" + x + "  ROOT r = f32[16,8] call(x), to_apply=same" + result,
        "ENTRY main {\n" + x + "  ROOT r = f32[16,8] copy(x)" + result,
        "ENTRY main {\n" + x + "  ROOT r = f32[16,8] negate(x)" + result}) {
    const CompiledRun r =
        check_compiled("HloModule m, num_partitions=8\n" + text, {counting(DType::f32, {16, 8})});
    const auto& sharding = r.executable->partitioned().entry()->root()->sharding;
    ASSERT_EQ(sharding.size(), 1u) << text;
    EXPECT_EQ(sharding[0].shard_dims({16, 8}), (Dims{2, 8})) << text;
  }
}

TEST(Communication, ContractedDimNeedsOneReduction) {
  const CompiledRun r =
      check_compiled(R"(
HloModule dot, num_partitions=4
ENTRY main {
  x = f32[4,8] parameter(0), sharding={devices=[1,4]<=[4]}
  w = f32[8,4] parameter(1), sharding={devices=[4,1]<=[4]}
  ROOT y = f32[4,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}
}
)",
                     {counting(DType::f32, {4, 8}), counting(DType::f32, {8, 4})});
  const auto counts = r.executable->last_run_collectives();
  std::int64_t bytes = 0;
  for (const auto& [kind, c] : counts) bytes += c.first;
  EXPECT_EQ(bytes, 2 * 64 * 3 / 4);
  EXPECT_DOUBLE_EQ(r.executable->cost_analysis().bytes_received, double(bytes));
  // All devices hold one copy between them.
  for (const DeviceBuffer& b : r.arrays[0]) EXPECT_EQ(b.memory, r.arrays[0][0].memory);
}

}  // namespace
}  // namespace tessera::testing
