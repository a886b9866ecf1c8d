// SPDX-License-Identifier: Apache-2.0
// A target that only prints: everything up to one device's program is the same for all.
#include "src/compiler/target.h"

#include <gtest/gtest.h>

#include "src/compiler/pipeline.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/text/read/stablehlo.h"
#include "tests/compiler/run_executable.h"
#include "tests/support/random_program.h"
#include "tests/support/shards.h"

namespace tessera::testing {
namespace {

using compiler::Compilation;
using compiler::CompiledProgram;
using compiler::Executable;
using compiler::PassStage;

/// The device's program as StableHLO.
class Printed final : public Executable {
 public:
  Printed(std::shared_ptr<const CompiledProgram> program, std::string text)
      : Executable(std::move(program)), text(std::move(text)) {}
  compiler::DeviceArrays run(compiler::DeviceArrays, const std::vector<bool>&) const override {
    throw NotImplementedError("a program that was printed doesn't run");
  }
  const std::string text;
};

class PrintingTarget final : public compiler::Target {
 public:
  std::string name() const override { return "printing"; }
  std::span<const PassStage> simplification() const override { return kSmaller; }
  std::span<const PassStage> selection() const override { return {}; }
  std::shared_ptr<const Executable> load(Compilation c,
                                         compiler::StageRecorder* stages) const override {
    std::string text;
    stages->run("print", [&] { text = text::to_stablehlo(*c.module); }, {});
    auto program = std::make_shared<CompiledProgram>();
    program->num_devices = c.module->num_partitions;
    program->partitioned = std::move(c.module);
    program->parameter_shardings = std::move(c.parameter_shardings);
    program->result_shardings = std::move(c.result_shardings);
    return std::make_shared<Printed>(std::move(program), std::move(text));
  }

 private:
  static constexpr PassStage kSmaller[] = {{"smaller", "eliminate-dead,simplify<4>"}};
};

std::shared_ptr<const Printed> printed(const ir::Module& module) {
  static const PrintingTarget target;
  return std::dynamic_pointer_cast<const Printed>(
      compiler::compile_for(target, module.clone(), {}));
}

constexpr const char* kSplitDot = R"(HloModule dot, num_partitions=8

ENTRY main {
  x = f32[16,8]{1,0} parameter(0), sharding={devices=[2,4]<=[8]}
  w = f32[8,24]{1,0} parameter(1), sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  ROOT y = f32[16,24]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)";

TEST(Target, PrintsADevicesProgramWithItsCollectives) {
  const auto program = printed(*ir::parse_hlo(kSplitDot));
  ASSERT_NE(program, nullptr);
  EXPECT_NE(program->text.find("stablehlo.reduce_scatter"), std::string::npos) << program->text;
  EXPECT_NE(program->text.find("tensor<8x2xf32>"), std::string::npos) << program->text;
  EXPECT_THROW(program->run({}, {}), NotImplementedError);
  EXPECT_THROW((void)program->memory_analysis(), NotImplementedError);
  EXPECT_THROW((void)program->input().entry(), ValueError);
  EXPECT_GT(program->cost_analysis().flops, 0);
}

TEST(Target, WhatIsPrintedRunsAsOneDevicesProgram) {
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const RandomProgram random = random_program(seed, {});
    const Literal want = evaluator::evaluate(*random.module, random.arguments);
    random.module->num_partitions = random.module->mesh->num_devices();
    if (random.module->num_partitions == 1) continue;
    const auto program = printed(*random.module);
    compiler::Options options;
    options.partitioned_input = true;
    auto module = text::parse_stablehlo(program->text, "printed.mlir");
    const auto again = compiler::compile(std::move(module), options);
    const auto args = shard_arguments(program->partitioned(), random.arguments);
    const auto out = again->run(to_device_arrays(args), {});
    const auto fault =
        difference(to_literals(*program, out), want, program->result_shardings(), 1e-5);
    EXPECT_FALSE(fault.has_value()) << "seed " << seed << ": " << *fault;
    ++compared;
  }
  EXPECT_GT(compared, 10);
}

TEST(Target, StagesOfTheCpuAreItsOwn) {
  const PrintingTarget target;
  std::string all;
  for (const std::string& line : compiler::describe_stages(target)) all += line + "\n";
  EXPECT_EQ(all.find("cpu"), std::string::npos) << all;
  EXPECT_NE(all.find("simplify smaller: eliminate-dead,simplify<4>\n"), std::string::npos) << all;
  std::string cpu;
  for (const std::string& line : compiler::describe_stages(compiler::cpu_target())) {
    cpu += line + "\n";
  }
  EXPECT_NE(cpu.find("select elementwise: cpu-elementwise\n"), std::string::npos) << cpu;
}

}  // namespace
}  // namespace tessera::testing
