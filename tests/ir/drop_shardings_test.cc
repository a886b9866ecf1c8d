// SPDX-License-Identifier: Apache-2.0
// Programs whose shardings are taken out.
#include "src/ir/rewrite/drop_shardings.h"

#include <gtest/gtest.h>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"

namespace tessera::ir {
namespace {

/// A constraint inside, one at the root, and per-device code on a mesh of so many devices.
std::unique_ptr<Module> program(int devices) {
  const std::string n = std::to_string(devices), part = std::to_string(8 / devices);
  return parse_hlo("HloModule m, num_partitions=" + n + R"(
body { p = f32[)" + part +
                       R"(] parameter(0)
  ROOT n = f32[)" + part +
                       R"(] negate(p) }
ENTRY e { x = f32[8] parameter(0), sharding={replicated}
  s = f32[8] custom-call(x), custom_call_target="Sharding", custom_call_has_side_effect=true, sharding={replicated}
  c = f32[8] custom-call(s), custom_call_target="tessera.ManualComputation", called_computations={body}, in_shardings=[<mesh<["x"=)" +
                       n + R"(]>, [{"x"}]>], out_shardings=[<mesh<["x"=)" + n +
                       R"(]>, [{"x"}]>], manual_axes=["x"]
  ROOT r = f32[8] custom-call(c), custom_call_target="Sharding", sharding={replicated} }
)",
                   "m.hlo");
}

TEST(DropShardings, OneDeviceCallsItsPerDeviceCode) {
  const auto module = program(1);
  drop_shardings_for_one_device(module.get());
  verify(*module);
  const Instruction* root = module->entry()->root();
  ASSERT_TRUE(root->is(Opcode::call));
  EXPECT_EQ(root->operand(0), module->entry()->parameter(0));
  EXPECT_EQ(module->entry()->instructions().size(), 2u);
  for (const auto& i : module->entry()->instructions()) EXPECT_TRUE(i->sharding.empty());
  EXPECT_EQ(module->num_partitions, 1);
  EXPECT_FALSE(module->mesh);
}

TEST(DropShardings, PerDeviceCodeIsForTheCaller) {
  const auto module = program(4);
  std::vector<const Instruction*> met;
  drop_shardings(module.get(), [&](const Instruction* i) { met.push_back(i); });
  const Instruction* root = module->entry()->root();
  ASSERT_TRUE(root->is(Opcode::manual_computation));
  EXPECT_EQ(met, std::vector<const Instruction*>{root});
  EXPECT_EQ(root->operand(0), module->entry()->parameter(0));

  const auto markers = parse_hlo(R"(HloModule m, num_partitions=2
ENTRY e { x = f32[8] parameter(0)
  s = f32[4] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}
  n = f32[4] negate(s)
  ROOT r = f32[8] custom-call(n), custom_call_target="SPMDShardToFullShape", sharding={replicated} }
)",
                                 "m.hlo");
  const auto refuse = [](const Instruction*) { throw ShardingError("per-device code"); };
  EXPECT_THROW(drop_shardings(markers.get(), refuse), ShardingError);
}

}  // namespace
}  // namespace tessera::ir
