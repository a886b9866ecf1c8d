// SPDX-License-Identifier: Apache-2.0
// Manual computations (shard_map): against JAX's results, against a plain execution in which every
// device has all arrays, and their communication.
#include "src/spmd/manual/manual.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/hooks.h"
#include "src/ir/rewrite/builder.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/spmd/auto_sharding/auto_sharding.h"
#include "src/spmd/propagation/propagate.h"
#include "tests/spmd/manual_case.h"
#include "tests/support/random_program.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

std::string file_text(const std::string& name) {
  std::ifstream in(std::string(TESSERA_SOURCE_DIR) + "/tests/fixtures/spmd/" + name);
  EXPECT_TRUE(in.good()) << name;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// The arguments that make_manual.py gives.
std::vector<Literal> fixture_arguments(const ir::Module& m) {
  std::vector<Literal> out;
  for (const ir::Instruction* p : m.entry()->parameters()) {
    Literal l(p->shape);
    std::int64_t k = 0;
    for (float& v : l.mutable_data<float>()) {
      v = float((7 * k++ + 3 * std::int64_t(out.size())) % 11 - 5);
    }
    out.push_back(std::move(l));
  }
  return out;
}

Literal expected(const std::string& name, const Shape& shape) {
  std::istringstream lines(file_text(name + ".expected"));
  std::vector<Literal> leaves;
  for (const Shape& s : flatten(shape)) {
    Literal l(Shape(s.dtype, s.dims));
    for (float& v : l.mutable_data<float>()) lines >> v;
    EXPECT_TRUE(bool(lines)) << name;
    leaves.push_back(std::move(l));
  }
  return shape.is_tuple ? Literal::tuple(std::move(leaves)) : leaves.at(0);
}

class JaxPrograms : public ::testing::TestWithParam<std::string> {};

TEST_P(JaxPrograms, GiveWhatJaxGives) {
  const std::string name = GetParam();
  auto module = ir::parse_hlo(file_text(name + ".hlo"));
  module->num_partitions = 8;
  const std::vector<Literal> arguments = fixture_arguments(*module);
  const Literal whole = expected(name.substr(0, name.find('.')), module->entry()->root()->shape);
  // The oracle of the other tests is held to the same.
  EXPECT_EQ(evaluate_manual(*module, arguments), whole);
  const auto same = module->clone();
  check_against(std::move(module), whole, 0, arguments);
  // The solver doesn't change shardings in per-device code, but its programs contain such code.
  EXPECT_NO_THROW(spmd::propagate_and_solve(same->clone()));
}

INSTANTIATE_TEST_SUITE_P(Manual, JaxPrograms,
                         ::testing::Values("collectives.sdy", "collectives.gspmd", "matmul.sdy",
                                           "matmul.gspmd", "ring.sdy", "ring.gspmd", "partly.sdy",
                                           "partly.gspmd", "partly_matmul.sdy",
                                           "partly_matmul.gspmd", "nested.sdy", "nested.gspmd",
                                           "loop_in_partly.sdy", "loop_in_partly.gspmd",
                                           "no_operands.sdy", "no_operands.gspmd"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

/// A module whose entry calls `body`; a mesh x=2, y=4.
std::unique_ptr<ir::Module> module_of(const std::string& computations, const std::string& entry) {
  return ir::parse_hlo(
      R"(HloModule m, num_partitions=8, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4]>}}
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
)" + computations +
      "\nENTRY e {\n" + entry + "\n}\n");
}

std::string sdy(const std::string& text) {
  std::string quoted;
  for (char c : text) quoted += c == '"' ? std::string("\\\"") : std::string(1, c);
  return "frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@mesh, " + quoted + ">\"}";
}

// A reducer has no arrays to be sharded, whoever noted a sharding there.
TEST(Manual, ConstraintsInReducersAreIgnored) {
  for (const char* target : {"Sharding", "xla.sdy.FuncResultSharding"}) {
    const auto module = module_of(R"(
total { a = f32[] parameter(0)
  b = f32[] parameter(1)
  s = f32[] add(a, b)
  ROOT r = f32[] custom-call(s), custom_call_target=")" +
                                      std::string(target) + R"(",
    custom_call_has_side_effect=true, sharding={replicated} })",
                                  R"(x = f32[16,8] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[16] reduce(x, zero), dimensions={1}, to_apply=total)");
    spmd::manual::raise(module.get());
    EXPECT_EQ(ir::to_string(*module).find("custom-call"), std::string::npos)
        << ir::to_string(*module);
  }
}

TEST(Manual, OperandsWithTheStatedShardingAreNotMoved) {
  const PartitionCase c =
      check_manual(module_of(R"(
body { p = f32[8,2] parameter(0)
  ROOT r = f32[8,2] all-reduce(p), channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true, to_apply=add })",
                             "x = f32[16,8] parameter(0), " + sdy(R"([{"x"}, {"y"}])") + R"(
  t = f32[16,8] add(x, x)
  ROOT m = f32[16,2] custom-call(t), custom_call_target="tessera.ManualComputation", to_apply=body, in_shardings=[<@mesh, [{"x"}, {"y"}]>], out_shardings=[<@mesh, [{"x"}, {}]>], manual_axes=["x", "y"])"));
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_EQ(c.count(Opcode::dynamic_slice), 0) << c.text;
  ASSERT_EQ(c.report.records.size(), 1u);
  EXPECT_EQ(c.report.records[0].reason, "the body of a manual computation");
}

TEST(Manual, OperandsAndResultsAreReshardedAsStated) {
  const PartitionCase c = check_manual(module_of(R"(
body { p = f32[2,8] parameter(0)
  ROOT r = f32[2,8] add(p, p) })",
                                                 "x = f32[16,8] parameter(0), " +
                                                     sdy(R"([{}, {"x", "y"}])") + R"(
  m = f32[16,8] custom-call(x), custom_call_target="tessera.ManualComputation", to_apply=body, in_shardings=[<@mesh, [{"x", "y"}, {}]>], out_shardings=[<@mesh, [{"x", "y"}, {}]>], manual_axes=["x", "y"]
  ROOT r = f32[16,8] copy(m), )" + sdy(R"([{}, {"x", "y"}])")));
  EXPECT_EQ(c.count(Opcode::all_to_all), 2) << c.text;
  EXPECT_EQ(c.collectives(), 2) << c.text;
}

TEST(Manual, PrintedManualComputationsAreReadBack) {
  auto m = module_of(R"(
body { p = f32[8,2] parameter(0)
  ROOT t = (f32[8,2]) tuple(p) })",
                     R"(x = f32[16,8] parameter(0)
  ROOT m = (f32[16,8]) custom-call(x), custom_call_target="tessera.ManualComputation", to_apply=body, in_shardings=[<mesh<["x"=2, "y"=4]>, [{"x"}, {"y"}]>], out_shardings=[<mesh<["x"=2, "y"=4], device_ids=[0,1,2,3,4,5,6,7]>, [{"x"}, {"y"}]>], manual_axes=["x", "y"])");
  const std::string text = ir::to_string(*m);
  EXPECT_EQ(ir::to_string(*ir::parse_hlo(text)), text);
  const PartitionCase c = check_manual(ir::parse_hlo(text));
  EXPECT_EQ(c.collectives(), 0) << c.text;
}

TEST(Manual, AutomaticAxesFlowThroughTheBody) {
  // Columns on y from the argument through the body to the result: nothing moves but x's sum.
  const PartitionCase c =
      check_manual(module_of(R"(
body { p = f32[8,8] parameter(0)
  s = f32[8,8] sine(p)
  ROOT r = f32[8,8] all-reduce(s), channel_id=1, replica_groups={{0,4},{1,5},{2,6},{3,7}}, use_global_device_ids=true, to_apply=add })",
                             "x = f32[16,8] parameter(0), " + sdy(R"([{"x"}, {"y"}])") + R"(
  m = f32[8,8] custom-call(x), custom_call_target="tessera.ManualComputation", to_apply=body, in_shardings=[<@mesh, [{"x", ?}, {?}]>], out_shardings=[<@mesh, [{?}, {?}]>], manual_axes=["x"]
  ROOT r = f32[8,8] add(m, m))"),
                   1e-5);
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_EQ(c.count(Opcode::all_reduce), 1) << c.text;
  EXPECT_NE(c.text.find("f32[8,2]{1,0} sine"), std::string::npos) << c.text;
  EXPECT_EQ(c.device->entry()->root()->shape, Shape(f32, {8, 2})) << c.text;
}

TEST(Manual, ContractionsOverAutomaticAxesSumThereOnly) {
  const PartitionCase c =
      check_manual(module_of(R"(
body { p = f32[8,8] parameter(0)
  w = f32[8,4] parameter(1)
  ROOT d = f32[8,4] dot(p, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} })",
                             "x = f32[16,8] parameter(0), " + sdy(R"([{"x"}, {"y"}])") +
                                 "\n  w = f32[8,4] parameter(1), " + sdy(R"([{"y"}, {}])") + R"(
  ROOT m = f32[16,4] custom-call(x, w), custom_call_target="tessera.ManualComputation", to_apply=body, in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{?}, {?}]>], out_shardings=[<@mesh, [{"x"}, {}]>], manual_axes=["x"])"));
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_EQ(c.count(Opcode::all_reduce), 1) << c.text;
  EXPECT_FALSE(c.full_gather()) << c.text;
}

TEST(Manual, AGatherKeepsOtherDimsSplit) {
  const PartitionCase c = check_manual(module_of(R"(
body { p = f32[8,8] parameter(0)
  ROOT g = f32[16,8] all-gather(p), channel_id=1, replica_groups={{0,4},{1,5},{2,6},{3,7}}, use_global_device_ids=true, dimensions={0} })",
                                                 "x = f32[16,8] parameter(0), " +
                                                     sdy(R"([{"x"}, {"y"}])") + R"(
  m = f32[16,8] custom-call(x), custom_call_target="tessera.ManualComputation", to_apply=body, in_shardings=[<@mesh, [{"x", ?}, {?}]>], out_shardings=[<@mesh, [{?}, {?}]>], manual_axes=["x"]
  ROOT r = f32[16,8] copy(m), )" + sdy(R"([{}, {"y"}])")));
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_NE(c.text.find("f32[16,2]{1,0} all-gather"), std::string::npos) << c.text;
}

TEST(Manual, ReplicaGroupsWithoutPartitionsCommunicateWithNobody) {
  // No channel: among replicas, of which there is one. Replica ids with a channel: all partitions.
  auto m = module_of(R"(
body { p = f32[2,8] parameter(0)
  a = f32[2,8] all-reduce(p), replica_groups={}, to_apply=add
  ROOT b = f32[2,8] all-reduce(a), channel_id=1, replica_groups={{0}}, to_apply=add })",
                     R"(x = f32[16,8] parameter(0)
  ROOT m = f32[2,8] custom-call(x), custom_call_target="tessera.ManualComputation", to_apply=body, in_shardings=[<@mesh, [{"x", "y"}, {}]>], out_shardings=[<@mesh, [{}, {}]>], manual_axes=["x", "y"])");
  Literal x(Shape(f32, {16, 8})), sum(Shape(f32, {2, 8}));
  auto values = x.mutable_data<float>(), sums = sum.mutable_data<float>();
  for (std::size_t k = 0; k < values.size(); ++k) {
    values[k] = float(k % 13);
    sums[k % 16] += values[k];
  }
  const PartitionCase c = check_against(std::move(m), sum, 0, {x});
  EXPECT_EQ(c.count(Opcode::all_reduce), 1) << c.text;
}

TEST(Manual, APermuteLeadsToDevicesInAnotherOrder) {
  const std::string other = R"(mesh<["a"=8], device_ids=[5,2,7,0,1,3,6,4]>)";
  const PartitionCase c = check_manual(ir::parse_hlo(
      R"(HloModule m, num_partitions=8
body { p = f32[2,8] parameter(0)
  id = u32[] partition-id()
  f = f32[] convert(id)
  g = f32[2,8] broadcast(f), dimensions={}
  ROOT r = f32[2,8] add(p, g) }
ENTRY e {
  x = f32[16,8] parameter(0), sharding={devices=[8,1]<=[8]}
  y = f32[16,8] parameter(1), sharding={devices=[8,1]<=[8]}
  z = f32[16,8] parameter(2), sharding={devices=[8,1]<=[8]}
  s = f32[16,8] add(x, y)
  m = f32[16,8] custom-call(s), custom_call_target="tessera.ManualComputation", to_apply=body, in_shardings=[<)" +
      other + R"(, [{"a"}, {}]>], out_shardings=[<)" + other + R"(, [{"a"}, {}]>], manual_axes=["a"]
  ROOT r = f32[16,8] add(m, z), sharding={devices=[8,1]<=[8]}
})"));
  EXPECT_EQ(c.count(Opcode::collective_permute), 2) << c.text;
  EXPECT_EQ(c.collectives(), 2) << c.text;
}

TEST(Manual, AnArgumentOnAnotherOrderChangesItOnce) {
  const std::string mesh = R"(mesh<["a"=8], device_ids=[5,2,7,0,1,3,6,4]>)";
  const std::string on_mesh = "sharding={devices=[8,1]5,2,7,0,1,3,6,4}";
  const PartitionCase c = check_manual(ir::parse_hlo(
      R"(HloModule m, num_partitions=8
body { p = f32[2,8] parameter(0)
  id = u32[] partition-id()
  f = f32[] convert(id)
  g = f32[2,8] broadcast(f), dimensions={}
  ROOT r = f32[2,8] add(p, g) }
ENTRY e {
  x = f32[16,8] parameter(0), sharding={devices=[8,1]<=[8]}
  y = f32[16,8] parameter(1), )" +
      on_mesh + R"(
  z = f32[16,8] parameter(2), )" +
      on_mesh + R"(
  m = f32[16,8] custom-call(x), custom_call_target="tessera.ManualComputation", to_apply=body, in_shardings=[<)" +
      mesh + R"(, [{"a"}, {}]>], out_shardings=[<)" + mesh + R"(, [{"a"}, {}]>], manual_axes=["a"]
  s = f32[16,8] add(m, y)
  ROOT r = f32[16,8] add(s, z), )" +
      on_mesh + "\n}"));
  EXPECT_EQ(c.count(Opcode::collective_permute), 1) << c.text;
  EXPECT_EQ(c.collectives(), 1) << c.text;
}

template <class E>
void expect_error(const std::string& computations, const std::string& entry,
                  const std::vector<std::string>& parts) {
  auto m = module_of(computations, entry);
  try {
    spmd::propagate(m.get());
    spmd::partition(*m, {}, nullptr);
    FAIL() << "nothing was thrown";
  } catch (const E& e) {
    EXPECT_EQ(e.location().to_string(), "model.cc:12") << e.message();
    for (const std::string& part : parts) {
      EXPECT_NE(e.message().find(part), std::string::npos) << part << " is not in: " << e.message();
    }
  }
}

TEST(Manual, MistakesAreErrorsAtTheUsersLine) {
  const std::string at = R"(, metadata={source_file="model.cc" source_line=12})";
  const std::string call =
      R"(x = f32[16,8] parameter(0)
  ROOT m = f32[16,8] custom-call(x), custom_call_target="tessera.ManualComputation", to_apply=body)" +
      at;
  const std::string in = R"(, in_shardings=[<@mesh, [{"x"}, {}]>])",
                    out = R"(, out_shardings=[<@mesh, [{"x"}, {}]>])",
                    axes = R"(, manual_axes=["x", "y"])";
  const std::string good = "body { ROOT p = f32[8,8] parameter(0) }",
                    bad = "body { ROOT p = f32[4,8] parameter(0) }";
  expect_error<ShapeError>(bad, call + in + out + axes, {"f32[4,8]", "f32[16,8]", "f32[8,8]"});
  expect_error<ValueError>(good, call + in + axes, {"out_shardings"});
  expect_error<ShardingError>(good, call + in + out + R"(, manual_axes=["z"])", {"z"});
  expect_error<ShardingError>(good, call + in + R"(, out_shardings=[])" + axes,
                              {"1 in_shardings", "0 out_shardings"});
  expect_error<ParseError>(good, call + in + R"(, out_shardings=[<@nowhere, [{}, {}]>])" + axes,
                           {"nowhere"});
  // Across an axis that isn't manual.
  expect_error<ShardingError>(
      R"(body { p = f32[8,8] parameter(0)
  ROOT r = f32[8,8] all-reduce(p), channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true, to_apply=add)" +
          at + "}",
      call + in + out + R"(, manual_axes=["x"])", {"\"y\"", "not manual"});
}

TEST(Manual, AutomaticAxesOfTwoMeshesAreRefused) {
  const std::string at = R"(, metadata={source_file="model.cc" source_line=12})";
  auto call = [&](const std::string& name, const std::string& x, const std::string& mesh) {
    const std::string s = "[<" + mesh + R"(, [{"x"}, {}]>])";
    return "  " + name + " = f32[16,8] custom-call(" + x +
           R"(), custom_call_target="tessera.ManualComputation", to_apply=body, in_shardings=)" +
           s + ", out_shardings=" + s + R"(, manual_axes=["x"])" + at + "\n";
  };
  expect_error<NotImplementedError>(
      "body { ROOT p = f32[8,8] parameter(0) }",
      "  x = f32[16,8] parameter(0)\n" + call("a", "x", "@mesh") +
          call("b", "a", R"(mesh<["x"=2, "y"=4], device_ids=[5,2,7,0,1,3,6,4]>)") +
          "  ROOT r = f32[16,8] copy(b)",
      {"another order"});
}

}  // namespace
}  // namespace tessera::testing
