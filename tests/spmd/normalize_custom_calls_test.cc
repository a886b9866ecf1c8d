// SPDX-License-Identifier: Apache-2.0
// Sharding groups, barriers and partly open constraints in HLO text; programs that are partitioned
// already.
#include <gtest/gtest.h>

#include "src/ir/hlo/hlo_text.h"
#include "src/spmd/propagation/propagate.h"
#include "tests/spmd/partitioner/partition_case.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

std::unique_ptr<ir::Module> module_of(const std::string& entry) {
  return ir::parse_hlo(
      R"(HloModule m, num_partitions=8, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4]>}}
ENTRY e {
)" + entry +
      "\n}\n");
}

const ir::Instruction* find(const ir::Module& m, const std::string& name) {
  for (const auto& i : m.entry()->instructions()) {
    if (i->name == name) return i.get();
  }
  return nullptr;
}

std::string spec(const ir::Module& m, const std::string& name) {
  const ir::Instruction* i = find(m, name);
  return i ? i->sharding.at(0).to_spec_string() : "there is no " + name;
}

constexpr const char* kByRows =
    R"(frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"x\"}, {}]>"})";

TEST(NormalizeCustomCalls, MembersOfAGroupShareASharding) {
  const std::string group =
      R"(, custom_call_target="xla.sdy.ShardingGroup", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding_group_id="0 : i64"})";
  auto text = [&](bool grouped) {
    return std::string("a = f32[8,16] parameter(0), ") + kByRows + R"(
  b = f32[8,16] parameter(1)
  c = f32[8,16] sine(a)
  d = f32[8,16] cosine(b)
)" +
           (grouped ? "  g = () custom-call(c)" + group + "\n  h = () custom-call(d)" + group + "\n"
                    : "") +
           "  ROOT t = (f32[8,16], f32[8,16]) tuple(c, d)";
  };
  auto plain = module_of(text(false)), grouped = module_of(text(true));
  spmd::propagate(plain.get());
  spmd::propagate(grouped.get());
  EXPECT_EQ(spec(*plain, "d"), "replicated");
  EXPECT_EQ(spec(*grouped, "d"), "P(\"x\", None)");
  EXPECT_EQ(find(*grouped, "g"), nullptr);
  const auto device = spmd::partition(*grouped, {}, nullptr);
  EXPECT_EQ(device->entry()->root()->operand(1)->shape, Shape(f32, {4, 16}));
}

TEST(NormalizeCustomCalls, ShardAsGroupsOfTilings) {
  auto m = module_of(
      R"(a = f32[8,16] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
  b = f32[8,16] parameter(1)
  c = f32[8,16] sine(a)
  d = f32[8,16] cosine(b)
  g = f32[8,16] custom-call(c), custom_call_target="Sharding", custom_call_has_side_effect=true, sharding={unknown shard_as 1}
  h = f32[8,16] custom-call(d), custom_call_target="Sharding", custom_call_has_side_effect=true, sharding={unknown shard_as 1}
  ROOT t = (f32[8,16], f32[8,16]) tuple(g, h))");
  spmd::propagate(m.get());
  EXPECT_EQ(m->entry()->root()->sharding.at(1).shards(), (Dims{2, 1}));
}

TEST(NormalizeCustomCalls, UnspecifiedDimsAreOpen) {
  auto text = [](const std::string& config) {
    return R"(a = f32[8,16] parameter(0), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  s = f32[8,16] sine(a)
  c = f32[8,16] custom-call(s), custom_call_target="Sharding", sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate})" +
           config + "\n  ROOT r = f32[8,16] add(c, c)";
  };
  auto open = module_of(text(", backend_config=\"unspecified_dims=[1]\""));
  auto closed = module_of(text(""));
  spmd::propagate(open.get());
  spmd::propagate(closed.get());
  EXPECT_EQ(find(*open, "c")->sharding.at(0).shards(), (Dims{2, 4}));
  EXPECT_EQ(find(*closed, "c")->sharding.at(0).shards(), (Dims{2, 1}));
  check_partition(module_of(text(", backend_config=\"unspecified_dims=[1]\"")), 1e-5);
}

// As jit's results are written in HLO: the constraint is on the result itself.
TEST(NormalizeCustomCalls, ResultsThatStateTheirShardings) {
  const std::string call =
      R"(, custom_call_target="xla.sdy.FuncResultSharding", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{\"x\"}, {}]>]>"})";
  const std::string rows = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}";
  for (const bool single : {true, false}) {
    auto m = module_of(
        "a = f32[8,16] parameter(0)\n  b = f32[8,16] sine(a)\n  c = f32[8,16] custom-call(b)" +
        call +
        (single
             ? "\n  t = (f32[8,16]) tuple(c)\n  ROOT r = f32[8,16] get-tuple-element(t), index=0, "
               "sharding=" +
                   rows
             : "\n  ROOT t = (f32[8,16], f32[8,16]) tuple(c, a), sharding={" + rows +
                   ", {replicated}}"));
    spmd::propagate(m.get());
    EXPECT_EQ(find(*m, "c"), nullptr) << ir::to_string(*m);
    EXPECT_EQ(spec(*m, "b"), "P(\"x\", None)");
    EXPECT_EQ(m->entry()->root()->sharding.at(0).to_spec_string(), "P(\"x\", None)");
  }
}

TEST(NormalizeCustomCalls, BarriersStopAxesOneWayOrBoth) {
  auto through = [](const std::string& direction, bool argument) {
    auto m = module_of("a = f32[8,16] parameter(0)" + std::string(argument ? ", " : "") +
                       (argument ? kByRows : "") +
                       R"(
  s = f32[8,16] sine(a)
  b = f32[8,16] custom-call(s), custom_call_target="xla.sdy.PropagationBarrier", frontend_attributes={xla.sdy.allowed_direction=")" +
                       direction + R"("}
  c = f32[8,16] cosine(b)
  ROOT r = f32[8,16] copy(c))" +
                       (argument ? "" : std::string(", ") + kByRows));
    spmd::propagate(m.get());
    const std::string got = spec(*m, argument ? "c" : "s");
    spmd::PartitionReport report;
    spmd::partition(*m, {}, &report);
    return got;
  };
  const std::string split = "P(\"x\", None)", none = "replicated";
  EXPECT_EQ(through("#sdy<propagation_direction NONE>", true), none);
  EXPECT_EQ(through("#sdy<propagation_direction NONE>", false), none);
  EXPECT_EQ(through("#sdy<propagation_direction FORWARD>", true), split);
  EXPECT_EQ(through("#sdy<propagation_direction FORWARD>", false), none);
  EXPECT_EQ(through("#sdy<propagation_direction BACKWARD>", true), none);
  EXPECT_EQ(through("#sdy<propagation_direction BACKWARD>", false), split);
  EXPECT_EQ(through("3 : i32", true), split);
  EXPECT_EQ(through("3 : i32", false), split);
}

}  // namespace
}  // namespace tessera::testing
