// SPDX-License-Identifier: Apache-2.0
// Ops that are custom calls in HLO text: what is read from it, and that it is printed as it was.
#include <gtest/gtest.h>

#include "src/ir/constraint.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/hlo/typed_calls.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::ir {
namespace {

std::string program(const std::string& call, const std::string& header = "") {
  return "HloModule m, num_partitions=8" + header +
         "\nbody {\n  p = f32[4,8]{1,0} parameter(0)\n  ROOT n = f32[4,8]{1,0} negate(p)\n}\n" +
         "ENTRY e {\n  x = f32[8,8]{1,0} parameter(0)\n  c = f32[8,8]{1,0} custom-call(x), " +
         call + "\n  ROOT r = f32[8,8]{1,0} negate(c)\n}\n";
}

struct Read {
  explicit Read(const std::string& call, const std::string& header = "")
      : module(parse_hlo(program(call, header), "m.hlo")),
        op(module->entry()->root()->operand(0)),
        text(to_string(*module)) {}

  std::unique_ptr<Module> module;
  const Instruction* op;
  std::string text;
};

/// The text of the call comes back, and again from what was printed.
void expect_printed(const Read& read, const std::string& call) {
  EXPECT_NE(read.text.find(" custom-call(x), " + call + "\n"), std::string::npos) << read.text;
  EXPECT_EQ(to_string(*parse_hlo(read.text, "again.hlo")), read.text);
}

TEST(TypedCalls, Constraints) {
  using Kind = ShardingConstraintAttrs::Kind;
  const std::string at = ", sharding={devices=[8,1]<=[8]}";
  const std::string plain = "custom_call_target=\"Sharding\"" + at;
  const Read value(plain);
  ASSERT_TRUE(is_constraint(*value.op));
  EXPECT_EQ(value.op->get<ShardingConstraintAttrs>(), ShardingConstraintAttrs());
  EXPECT_FALSE(value.op->has_side_effect());
  expect_printed(value, plain);

  const std::string kept =
      "custom_call_target=\"xla.sdy.FuncResultSharding\", custom_call_has_side_effect=true" + at;
  const Read result(kept);
  ASSERT_TRUE(is_constraint(*result.op));
  EXPECT_EQ(result.op->get<ShardingConstraintAttrs>().kind, Kind::result);
  EXPECT_TRUE(result.op->has_side_effect());
  expect_printed(result, kept);
}

TEST(TypedCalls, Reshards) {
  const std::string call =
      "custom_call_target=\"Sharding\", sharding={devices=[8,1]<=[8]}, "
      "frontend_attributes={tessera.reshard=\"true\"}";
  const Read read(call);
  ASSERT_TRUE(is_reshard(*read.op));
  EXPECT_TRUE(read.op->frontend_attributes->empty());
  expect_printed(read, call);
  EXPECT_FALSE(is_reshard(*Read("custom_call_target=\"Sharding\"").op));
}

TEST(TypedCalls, UnspecifiedDims) {
  const std::string target = "custom_call_target=\"Sharding\", sharding={devices=[8,1]<=[8]}";
  for (const std::string config :
       {"\"unspecified_dims=[1]\"", "\"unspecified_dims=[ 1 ]\"", "{a=1, unspecified_dims=[1]}"}) {
    const std::string call = target + ", backend_config=" + config;
    const Read read(call);
    ASSERT_TRUE(is_constraint(*read.op));
    EXPECT_EQ(read.op->get<ShardingConstraintAttrs>().unspecified_dims, Dims{1});
    expect_printed(read, call);
  }
}

TEST(TypedCalls, OneThatNobodyUsesIsKeptIfItHasAnEffect) {
  auto module = parse_hlo(
      R"(HloModule m
ENTRY e {
  x = f32[8] parameter(0)
  a = f32[8] custom-call(x), custom_call_target="Sharding"
  b = f32[8] custom-call(x), custom_call_target="xla.sdy.FuncResultSharding", custom_call_has_side_effect=true
  ROOT r = f32[8] negate(x)
})",
      "m.hlo");
  Computation* entry = module->entry();
  entry->remove_dead();
  ASSERT_EQ(entry->instructions().size(), 3u);
  Instruction* kept = entry->instructions()[1].get();
  EXPECT_EQ(kept->name, "b");
  kept->drop_side_effect();
  entry->remove_dead();
  EXPECT_EQ(entry->instructions().size(), 2u);
}

TEST(TypedCalls, ConstraintsKeepTheShape) {
  const std::string text = R"(HloModule m
ENTRY e {
  x = f32[8] parameter(0)
  ROOT c = f32[4] custom-call(x), custom_call_target="Sharding"
})";
  try {
    parse_hlo(text, "m.hlo");
    FAIL() << "a constraint that changes the shape is read";
  } catch (const ShapeError& e) {
    EXPECT_NE(e.message().find("custom-call(f32[8])"), std::string::npos) << e.message();
  }
}

TEST(TypedCalls, Barriers) {
  const std::string target = "custom_call_target=\"xla.sdy.PropagationBarrier\"";
  struct Case {
    const char* direction;
    bool forward, backward;
  };
  for (const Case& c :
       {Case{"NONE", false, false}, Case{"FORWARD", true, false}, Case{"BACKWARD", false, true},
        Case{"BOTH", true, true}, Case{"2 : i64", false, true}}) {
    const std::string call =
        target + ", frontend_attributes={xla.sdy.allowed_direction=\"" + c.direction + "\"}";
    const Read read(call);
    ASSERT_TRUE(read.op->is(Opcode::propagation_barrier));
    EXPECT_EQ(read.op->get<PropagationBarrierAttrs>().forward, c.forward) << c.direction;
    EXPECT_EQ(read.op->get<PropagationBarrierAttrs>().backward, c.backward) << c.direction;
    expect_printed(read, call);
  }
  expect_printed(Read(target), target);
}

TEST(TypedCalls, CustomPartitioning) {
  const std::string call =
      "custom_call_target=\"CustomSPMDPartitioning\", called_computations={whole}, "
      "backend_config=\"93\"";
  auto module = parse_hlo(R"(HloModule m
whole { ROOT p = f32[8,8] parameter(0) }
ENTRY e {
  x = f32[8,8] parameter(0)
  ROOT c = f32[8,8] custom-call(x), )" +
                              call + "\n}\n",
                          "m.hlo");
  const Instruction* op = module->entry()->root();
  ASSERT_TRUE(op->is(Opcode::custom_partitioning));
  EXPECT_EQ(op->get<CustomPartitioningAttrs>().partitioner, nullptr);
  EXPECT_EQ(op->called().size(), 1u);
  EXPECT_NE(to_string(*module).find(call), std::string::npos) << to_string(*module);
}

constexpr const char* kInPlace =
    R"(custom_call_target="tessera.ManualComputation", in_shardings=[<mesh<["x"=2, "y"=4]>, [{"x"}, {?}]>], out_shardings=[<mesh<["x"=2, "y"=4]>, [{"x"}, {}], replicated={"y"}>], manual_axes=["x"], called_computations={body})";

TEST(TypedCalls, ManualComputations) {
  const Read read(kInPlace);
  ASSERT_TRUE(read.op->is(Opcode::manual_computation));
  const auto& attrs = read.op->get<ManualComputationAttrs>();
  ASSERT_EQ(attrs.in_shardings.size(), 1u);
  ASSERT_EQ(attrs.out_shardings.size(), 1u);
  EXPECT_EQ(attrs.in_shardings[0].shards(), (Dims{2, 1}));
  EXPECT_TRUE(attrs.in_shardings[0].dims[1].open);
  EXPECT_EQ(attrs.out_shardings[0].replicated, IndexList{1});
  EXPECT_EQ(attrs.manual_axes, IndexList{0});
  EXPECT_EQ(axes_text(attrs.mesh, attrs.manual_axes), "\"x\"");
  expect_printed(read, kInPlace);
  EXPECT_EQ(attrs, attrs);
  ManualComputationAttrs other = attrs;
  other.manual_axes = {1};
  EXPECT_FALSE(attrs == other);
}

TEST(TypedCalls, ManualComputationsNameTheModulesMesh) {
  const std::string call =
      R"(custom_call_target="tessera.ManualComputation", in_shardings=[<@mesh, [{"x"}, {}]>], out_shardings=[<@mesh, [{"x"}, {}]>], manual_axes=["x", "y"], called_computations={body})";
  const std::string meshes =
      R"(, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4]>}})";
  const Read known(call, meshes);
  ASSERT_TRUE(known.op->is(Opcode::manual_computation));
  EXPECT_EQ(known.op->get<ManualComputationAttrs>().manual_axes, (IndexList{0, 1}));
  expect_printed(known, call);
  // The key of a cache tells meshes of one name apart.
  PrintOptions canonical;
  canonical.canonical = true;
  EXPECT_NE(to_string(*known.module, canonical).find(R"(mesh<["x"=2, "y"=4]>)"), std::string::npos);

  // It stays text until somebody asks what it means.
  const Read unknown(call);
  ASSERT_TRUE(unknown.op->is(Opcode::custom_call));
  expect_printed(unknown, call);
  Instruction* op = unknown.module->entry()->root()->operand(0);
  EXPECT_THROW(raise_manual_computation(op, named_meshes(*unknown.module)), ParseError);
}

TEST(TypedCalls, AxesOfAPvary) {
  const std::string call = R"(custom_call_target="tessera.pvary", manual_axes=["x", "y"])";
  const Read read(call);
  ASSERT_TRUE(read.op->is(Opcode::pvary));
  EXPECT_EQ(read.op->get<PvaryAttrs>().axes, (std::vector<std::string>{"x", "y"}));
  expect_printed(read, call);
  EXPECT_THROW(Read("custom_call_target=\"tessera.pvary\""), ValueError);
}

TEST(TypedCalls, MemoryOfAPlacement) {
  const std::string call =
      R"(custom_call_target="annotate_device_placement", custom_call_has_side_effect=true, )";
  const std::string pinned = call + R"(frontend_attributes={_xla_buffer_placement="pinned_host"})";
  const std::string between = call +
                              R"(frontend_attributes={_xla_buffer_placement="unpinned_host",)"
                              R"(tessera.source_placement="pinned_host"})";
  for (const auto& [text, memory, source] :
       {std::tuple(pinned, MemoryKind::pinned_host, MemoryKind::device),
        std::tuple(call + R"(frontend_attributes={_xla_buffer_placement="device"})",
                   MemoryKind::device, MemoryKind::pinned_host),
        std::tuple(between, MemoryKind::unpinned_host, MemoryKind::pinned_host)}) {
    const Read read(text);
    ASSERT_TRUE(read.op->is(Opcode::device_placement)) << text;
    EXPECT_EQ(read.op->get<DevicePlacementAttrs>().memory, memory);
    EXPECT_EQ(read.op->get<DevicePlacementAttrs>().source, source);
    EXPECT_FALSE(read.op->has_side_effect());
    expect_printed(read, text);
  }
  // XLA's later words are printed as the first.
  const Read moved("custom_call_target=\"MoveToHost\"");
  ASSERT_TRUE(moved.op->is(Opcode::device_placement));
  expect_printed(moved, pinned);
  // Memory that isn't known is left to whoever knows the call.
  const Read other(call + R"(frontend_attributes={_xla_buffer_placement="elsewhere"})");
  EXPECT_TRUE(other.op->is(Opcode::custom_call));
}

TEST(TypedCalls, TopKIsTheOpWhereItFits) {
  const auto read = [](const std::string& shape, const std::string& call) {
    return parse_hlo(
        "HloModule m\ngreater {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n" +
            std::string("  ROOT c = pred[] compare(a, b), direction=GT\n}\n") +
            "ENTRY e {\n  x = f32[3,8]{1,0} parameter(0)\n  ROOT t = " + shape +
            " custom-call(x), " + call + "\n}\n",
        "m.hlo");
  };
  const std::string fits = "(f32[3,2]{1,0}, s32[3,2]{1,0})";
  const auto greatest = read(fits, "custom_call_target=\"TopK\", called_computations={greater}");
  const Instruction* op = greatest->entry()->root();
  ASSERT_TRUE(op->is(Opcode::topk));
  EXPECT_EQ(op->get<TopKAttrs>(), (TopKAttrs{2, true}));
  EXPECT_TRUE(op->called().empty());
  const std::string text = to_string(*greatest);
  EXPECT_NE(text.find("topk(x), k=2"), std::string::npos) << text;
  EXPECT_EQ(to_string(*parse_hlo(text, "again.hlo")), text);

  const auto least = read(fits,
                          "custom_call_target=\"mhlo.topk\", "
                          "backend_config={k = 2 : i64, largest = false}");
  ASSERT_TRUE(least->entry()->root()->is(Opcode::topk));
  EXPECT_EQ(least->entry()->root()->get<TopKAttrs>(), (TopKAttrs{2, false}));

  for (const char* shape : {"(f32[3,9]{1,0}, s32[3,9]{1,0})", "(f32[3,2]{1,0}, s64[3,2]{1,0})",
                            "(f32[2,2]{1,0}, s32[2,2]{1,0})", "f32[3,2]{1,0}"}) {
    const auto other = read(shape, "custom_call_target=\"TopK\"");
    EXPECT_TRUE(other->entry()->root()->is(Opcode::custom_call)) << shape;
  }
}

TEST(TypedCalls, TheirOwnNamesAreNoHlo) {
  for (const char* name : {"sharding-constraint", "propagation-barrier", "custom-partitioning",
                           "manual-computation", "pvary", "remat", "custom-derivative"}) {
    EXPECT_THROW(parse_hlo("HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n  ROOT c = f32[8] " +
                               std::string(name) + "(x)\n}\n",
                           "m.hlo"),
                 ParseError)
        << name;
  }
}

}  // namespace
}  // namespace tessera::ir
