// SPDX-License-Identifier: Apache-2.0
// With layouts `propagated` a program is sharded by propagation alone, without a search.
#include <tessera/sharding/layouts.h>

#include <gtest/gtest.h>

#include <algorithm>

#include "src/compiler/pipeline.h"
#include "src/compiler/read_module.h"
#include "src/cost/count.h"
#include "src/cost/machine.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/spmd/propagation/propagate.h"
#include "tests/compiler/run_executable.h"
#include "tests/support/random_program.h"
#include "tests/support/shards.h"
#include "tests/support/two_users.h"

namespace tessera::testing {
namespace {

compiler::Options with(Layouts layouts) {
  compiler::Options options;
  options.layouts = layouts;
  return options;
}

/// The text of the module after the stages up to propagation, and propagation itself.
std::string propagated_alone(const ir::Module& module) {
  compiler::Compilation c;
  c.options.keep_stages = false;
  c.module = module.clone();
  compiler::run_through(&c, compiler::Phase::prepare);
  if (c.module->num_partitions > 1) spmd::propagate(c.module.get());
  return ir::to_string(*c.module);
}

TEST(Layouts, PropagatedIsPropagationAlone) {
  const auto module = ir::parse_hlo("HloModule two, num_partitions=8\nENTRY main {" +
                                    std::string(kTwoUsers) + "\n}");
  const auto executable = compiler::compile(module->clone(), with(Layouts::propagated));
  EXPECT_EQ(executable->layouts(), Layouts::propagated);
  EXPECT_EQ(ir::to_string(executable->propagated()), propagated_alone(*module));
  // The search finds other shardings, with which devices receive fewer bytes.
  const auto solved = compiler::compile(module->clone());
  EXPECT_EQ(solved->layouts(), Layouts::solved);
  EXPECT_NE(ir::to_string(solved->propagated()), propagated_alone(*module));
  EXPECT_LT(cost::count_communication(solved->partitioned()).total_bytes,
            cost::count_communication(executable->partitioned()).total_bytes);
}

TEST(Layouts, RandomProgramsArePropagatedAlone) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const RandomProgram program = random_program(seed, {});
    const auto executable = compiler::compile(program.module->clone(), with(Layouts::propagated));
    ASSERT_EQ(ir::to_string(executable->propagated()), propagated_alone(*program.module))
        << "seed " << seed;
  }
}

/// Equal instructions stay apart, so that each can have the sharding that its users need; merging
/// them is part of the search.
TEST(Layouts, PropagatedMergesNothingBeforeItPropagates) {
  const auto module = ir::parse_hlo(R"(
HloModule twice, num_partitions=8
ENTRY main {
  x = f32[64,64] parameter(0), sharding={replicated}
  a = f32[64,64] tanh(x)
  b = f32[64,64] tanh(x)
  ROOT t = (f32[64,64], f32[64,64]) tuple(a, b),
    sharding={{devices=[8,1]<=[8]}, {devices=[1,8]<=[8]}}
})");
  const auto executable = compiler::compile(module->clone(), with(Layouts::propagated));
  EXPECT_EQ(executable->propagated().entry()->instructions().size(), 4u);
  EXPECT_EQ(cost::count_communication(executable->partitioned()).total_bytes, 0);
}

// On a machine with one slow axis other layouts are chosen, which keep off it.
TEST(Layouts, AreChosenForTheDescribedMachine) {
  const std::string file =
      std::string(TESSERA_SOURCE_DIR) + "/tests/corpus/transformer_block/s2.mlir";
  const std::string text = compiler::read_file(file);
  const auto compiled = [&](std::optional<Network> network) {
    compiler::Options options;
    options.runs = false;
    options.network = std::move(network);
    return compiler::compile(compiler::read_module(text, file), options);
  };
  const auto undescribed = compiled(std::nullopt);
  for (const char* slow : {"x", "y"}) {
    const Network network = Network::parse(std::string(slow) + "=1GB/s:0s, *=100GB/s:0s");
    const auto executable = compiled(network);
    const CostAnalysis chosen = executable->cost_analysis(network);
    EXPECT_LT(chosen.step_seconds(), 0.7 * undescribed->cost_analysis(network).step_seconds())
        << slow;
    EXPECT_NE(ir::to_string(executable->partitioned()), ir::to_string(undescribed->partitioned()));
  }
  // The ratios that are assumed, on another scale.
  Network scaled = cost::assumed_network();
  scaled.other.bytes_per_second *= 2;
  scaled.start_seconds /= 2;
  scaled.flops_per_second *= 2;
  scaled.memory_bytes_per_second *= 2;
  EXPECT_EQ(ir::to_string(compiled(scaled)->partitioned()),
            ir::to_string(undescribed->partitioned()));
}

TEST(Layouts, AMachineThatCantBeReadIsRefused) {
  EXPECT_EQ(compiler::Options().network, std::nullopt);
  setenv("TESSERA_NETWORK", "x=25GB/s:2us, start=5us", 1);
  const std::optional<Network> read = compiler::Options().network;
  ASSERT_TRUE(read);
  EXPECT_DOUBLE_EQ(read->start_seconds, 5e-6);
  EXPECT_EQ(Network::parse(read->to_string()), *read);
  for (const char* wrong : {"x=25", "no/such/file", "start=5GB/s"}) {
    setenv("TESSERA_NETWORK", wrong, 1);
    try {
      compiler::Options().network;
      ADD_FAILURE() << wrong;
    } catch (const ValueError& e) {
      EXPECT_EQ(e.message().rfind("TESSERA_NETWORK", 0), 0u) << e.message();
    }
  }
  unsetenv("TESSERA_NETWORK");
}

}  // namespace
}  // namespace tessera::testing
