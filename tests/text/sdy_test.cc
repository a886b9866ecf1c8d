// SPDX-License-Identifier: Apache-2.0
// The operations and attributes of sdy in each of their forms, and what is refused.
#include "src/ir/constraint.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/hooks.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/text/read/stablehlo.h"
#include "tests/text/programs.h"

namespace tessera::text::sdy_forms {
namespace {

const std::string kMesh = "sdy.mesh @mesh = <[\"x\"=2, \"y\"=4]>\n";

std::unique_ptr<ir::Module> read(const std::string& text) {
  auto module = parse_stablehlo(text, "t.mlir");
  ir::verify(*module);
  return module;
}

/// A function on tensor<8x16xf32> with these operations, the last of which is %r.
std::string function(const std::string& body, const std::string& argument = "") {
  return "func.func @main(%a: tensor<8x16xf32>" +
         (argument.empty() ? "" : " {sdy.sharding = #sdy.sharding<" + argument + ">}") +
         ") -> tensor<8x16xf32> {\n" + body + "\nreturn %r : tensor<8x16xf32>\n}\n";
}

std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const ParseError& e) {
    return e.what();
  } catch (const NotImplementedError& e) {
    return std::string("not supported: ") + e.what();
  }
  return "no error";
}

void expect_refused(const std::string& text, const std::string& part) {
  const std::string error = error_of(text);
  EXPECT_NE(error.find(part), std::string::npos) << text << error << "\nlacks " << part;
  EXPECT_NE(error.find("t.mlir:"), std::string::npos) << error;
}

std::string spec_of_argument(const std::string& text) {
  return read(text)->entry()->parameter(0)->sharding.at(0).to_spec_string();
}

std::string spec_of_root(const std::string& text) {
  return read(text)->entry()->root()->sharding.at(0).to_spec_string();
}

TEST(Sdy, MeshesAreReadInEachForm) {
  const std::string f =
      function("%r = stablehlo.negate %a : tensor<8x16xf32>", "@mesh, [{\"y\"}, {\"x\"}]");
  for (const char* mesh :
       {"sdy.mesh @mesh = <[\"x\"=2, \"y\"=4]>\n",
        "sdy.mesh @mesh = #sdy.mesh<[\"x\"=2, \"y\"=4]>\n",
        "sdy.mesh @mesh = #sdy<mesh<[\"x\"=2, \"y\"=4]>>\n",
        "#m = #sdy.mesh<[\"x\"=2, \"y\"=4]>\nsdy.mesh @mesh = #m\n",
        "\"sdy.mesh\"() <{mesh = #sdy.mesh<[\"x\"=2, \"y\"=4]>, sym_name = \"mesh\"}> : () -> ()\n",
        "#m = #sdy.mesh<[\"x\"=2, \"y\"=4]>\n"
        "\"sdy.mesh\"() <{mesh = #m, sym_name = \"mesh\"}> : () -> ()\n"}) {
    EXPECT_EQ(spec_of_argument(mesh + f), "P(\"y\", \"x\")") << mesh;
  }
  expect_refused("sdy.mesh @mesh = <[\"x\"=2, \"x\"=4]>\n" + f, "two axes named 'x'");
  expect_refused("sdy.mesh @mesh = <[\"x\"=2, \"y\"=1], device_ids=[1, 1]>\n" + f,
                 "device 1 stands twice");
  expect_refused("sdy.mesh @mesh = <[\"x\"=0, \"y\"=4]>\n" + f, "sizes are at least 1");
  expect_refused("sdy.mesh @mesh = <[\"x\"=2, \"y\"=4], device_ids=[1, 0]>\n" + f, "device ids");
}

TEST(Sdy, ShardingsAreReadThroughAliases) {
  const std::string body = "%r = stablehlo.negate %a : tensor<8x16xf32>";
  const std::string one = "#s = #sdy.sharding<@mesh, [{\"y\"}, {}]>\n";
  const auto with = [&](const std::string& attribute) {
    return "func.func @main(%a: tensor<8x16xf32> {sdy.sharding = " + attribute +
           "}) -> tensor<8x16xf32> {\n" + body + "\nreturn %r : tensor<8x16xf32>\n}\n";
  };
  EXPECT_EQ(spec_of_argument(one + kMesh + with("#s")), "P(\"y\", None)");
  EXPECT_EQ(spec_of_argument(kMesh + with("#sdy<sharding<@mesh, [{}, {\"x\"}]>>")),
            "P(None, \"x\")");
  const std::string listed =
      "%r = stablehlo.negate %a {sdy.sharding = #sdy.sharding_per_value<[#s]>} : "
      "tensor<8x16xf32>";
  EXPECT_EQ(spec_of_root(one + kMesh + function(listed)), "P(\"y\", None)");
  EXPECT_EQ(spec_of_root("#l = #sdy.sharding_per_value<[#s]>\n" + one + kMesh +
                         function("%r = stablehlo.negate %a {sdy.sharding = #l} : "
                                  "tensor<8x16xf32>")),
            "P(\"y\", None)");
  EXPECT_EQ(spec_of_root(one + kMesh +
                         function("%r = sdy.sharding_constraint %a #s : "
                                  "tensor<8x16xf32>")),
            "P(\"y\", None)");
  // Each alias doubles the text.
  std::string bomb = "#a0 = #sdy.sharding<@mesh, [{\"y\"}, {}]>\n";
  for (int i = 1; i < 40; ++i) {
    const std::string last = "#a" + std::to_string(i - 1);
    bomb += "#a" + std::to_string(i) + " = [" + last + ", " + last + "]\n";
  }
  expect_refused(bomb + kMesh +
                     function("%r = stablehlo.negate %a {sdy.sharding = "
                              "#sdy.sharding_per_value<[#a39]>} : tensor<8x16xf32>"),
                 "stand for too much text");
}

TEST(Sdy, AnAttributeIsOfTheKindThatItsPlaceTakes) {
  expect_refused(kMesh + function("%r = stablehlo.negate %a {sdy.sharding = #sdy.sharding<@mesh, "
                                  "[{\"y\"}, {}]>} : tensor<8x16xf32>"),
                 "#sdy.sharding_per_value<[<@mesh");
  expect_refused(kMesh +
                     "func.func @main(%a: tensor<8xf32> {sdy.sharding = "
                     "#sdy.sharding_per_value<[<@mesh, [{\"y\"}]>]>}) -> tensor<8xf32> {\n"
                     "return %a : tensor<8xf32>\n}\n",
                 "has one sharding");
}

TEST(Sdy, ShardingsThatShardyRefusesAreRefused) {
  const auto refused = [](const std::string& sharding, const std::string& part) {
    expect_refused(kMesh + function("%r = stablehlo.negate %a : tensor<8x16xf32>", sharding), part);
  };
  refused("@mesh, [{\"z\"}, {}]", "axis 'z' is not in mesh @mesh");
  refused("@other, [{\"x\"}, {}]", "there is no mesh @other");
  refused("@mesh, [{\"x\"}, {\"x\"}]", "stands twice");
  refused("@mesh, [{\"x\"}]", "a sharding of rank 1");
  refused("@mesh, [{\"y\":(1)2}, {\"y\"}]", "stands twice");
  refused("@mesh, [{\"y\":(1)3}, {}]", "doesn't divide the axis");
  refused("@mesh, [{\"y\":(1)1}, {}]", "valid are sizes above 1");
  refused("@mesh, [{\"y\":(1)4}, {}]", "valid are sizes above 1");
  refused("@mesh, [{\"y\":(1)2, \"y\":(2)2}, {}]", "stand side by side and are one");
  refused("@mesh, [{}, {}], replicated={\"y\", \"x\"}", "stand in the order of the mesh");
  refused("@mesh, [{}, {}], unreduced={\"y\", \"x\"}", "stand in the order of the mesh");
  refused("@mesh, [{}, {}], replicated={\"x\"}, replicated={\"y\"}", "expected");
  refused("@mesh, [{\"x\"}p01, {}]", "without leading zeros");
  refused("@mesh, [{}p1, {}]", "has no priority");
}

TEST(Sdy, EdgesAndBarriersPassTheirOperandOn) {
  auto m = read(kMesh + function(R"(
    %0 = sdy.func_data_flow_edge %a : tensor<8x16xf32>
    %n = stablehlo.negate %0 : tensor<8x16xf32>
    %1 = sdy.data_flow_edge %n sharding=<@mesh, [{"x"}, {?}]> : tensor<8x16xf32>
    %m = stablehlo.negate %1 : tensor<8x16xf32>
    %2 = sdy.data_flow_edge %m : tensor<8x16xf32>
    %3 = sdy.propagation_barrier %2 allowed_direction=FORWARD : tensor<8x16xf32>
    %4 = sdy.propagation_barrier %3 allowed_direction=BACKWARD : tensor<8x16xf32>
    %5 = sdy.propagation_barrier %4 allowed_direction=NONE {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"y"}]>]>} : tensor<8x16xf32>
    %r = "sdy.propagation_barrier"(%5) <{allowed_direction = 2 : i32}> : (tensor<8x16xf32>) -> tensor<8x16xf32>)"));
  std::string found;
  for (const auto& i : m->entry()->instructions()) {
    if (i->has_sharding()) found += i->sharding[0].to_spec_string() + "; ";
    if (!i->is(ir::Opcode::propagation_barrier)) continue;
    const auto& a = i->get<ir::PropagationBarrierAttrs>();
    found += std::string(a.forward ? "forward" : a.backward ? "backward" : "none") + "; ";
  }
  EXPECT_EQ(found, "P(\"x\", UNCONSTRAINED); forward; backward; P(None, \"y\"); none; backward; ");
  expect_refused(kMesh + function("%r = sdy.propagation_barrier %a allowed_direction=BOTH : "
                                  "tensor<8x16xf32>"),
                 "valid: NONE, FORWARD, BACKWARD");
}

struct Collective {
  const char *from, *operation, *to;
};

std::string collective(const Collective& c) {
  return kMesh + function("%r = sdy." + std::string(c.operation) + " %a out_sharding=<@mesh, " +
                              c.to + "> : tensor<8x16xf32>",
                          "@mesh, " + std::string(c.from));
}

TEST(Sdy, CollectivesLeadFromOneShardingToTheOther) {
  for (const Collective& c : std::vector<Collective>{
           {"[{\"y\", \"x\"}, {}]", "all_gather [{\"x\"}, {}]", "[{\"y\"}, {}]"},
           {"[{\"y\"}, {}]", "all_gather [{\"y\":(2)2}, {}]", "[{\"y\":(1)2}, {}]"},
           {"[{\"y\"}, {}]", "all_slice [{\"x\"}, {}]", "[{\"y\", \"x\"}, {}]"},
           {"[{\"y\"}, {\"x\"}]", "all_to_all [{\"y\"}: 0->1]", "[{}, {\"x\", \"y\"}]"},
           {"[{\"y\":(1)2}, {}]", "collective_permute", "[{\"x\"}, {}]"},
           {"[{\"x\"}, {}]", "all_reduce {\"y\"}", "[{\"x\"}, {}]"},
           {"[{}, {}], unreduced={\"x\"}", "reduce_scatter [{\"x\"}, {}]", "[{\"x\"}, {}]"},
           {"[{\"x\"}, {}]", "all_reduce max {\"y\"}", "[{\"x\"}, {}]"},
           {"[{\"x\"}, {}]", "replicated_to_unreduced {\"y\"}", "[{\"x\"}, {}], unreduced={\"y\"}"},
           {"[{\"x\"}, {}]", "sharded_to_unreduced [{\"x\"}, {}]",
            "[{}, {}], unreduced={\"x\"}"}}) {
    auto m = read(collective(c));
    EXPECT_TRUE(ir::is_reshard(*m->entry()->root())) << c.operation;
  }
  auto m = read(kMesh + function("%r = \"sdy.all_gather\"(%a) <{gathering_axes = "
                                 "#sdy<list_of_axis_ref_lists[{\"x\"}, {}]>, out_sharding = "
                                 "#sdy.sharding<@mesh, [{\"y\"}, {}]>}> : (tensor<8x16xf32>) -> "
                                 "tensor<8x16xf32>",
                                 "@mesh, [{\"y\", \"x\"}, {}]"));
  EXPECT_EQ(m->entry()->root()->sharding.at(0).to_spec_string(), "P(\"y\", None)");
}

TEST(Sdy, CollectivesThatDoNotAreRefused) {
  const auto refused = [](const Collective& c, const std::string& part) {
    expect_refused(collective(c), part);
  };
  refused({"[{\"x\", \"y\"}, {}]", "all_gather [{\"x\"}, {}]", "[{\"y\"}, {}]"},
          "doesn't end with");
  refused({"[{\"y\", \"x\"}, {}]", "all_gather [{\"x\"}, {}]", "[{\"y\"}, {\"x\"}]"},
          "and its out_sharding has");
  refused({"[{\"y\"}, {}]", "all_gather [{\"y\"}]", "[{}, {}]"}, "the array has 2");
  refused({"[{\"y\"}, {}]", "all_gather [{\"z\"}, {}]", "[{}, {}]"}, "axis 'z' is not in mesh");
  refused({"[{\"y\"}, {}]", "all_slice [{\"x\"}, {\"x\"}]", "[{\"y\", \"x\"}, {}]"},
          "stands twice");
  refused({"[{\"y\"}, {}]", "all_slice [{\"x\"}, {}]", "[{\"x\", \"y\"}, {}]"},
          "and its out_sharding has");
  refused({"[{\"y\"}, {\"x\"}]", "all_to_all [{\"y\"}: 0->2]", "[{}, {\"x\", \"y\"}]"},
          "an array of rank 2");
  refused({"[{\"y\"}, {}]", "all_to_all [{\"y\"}: 0->0]", "[{\"y\"}, {}]"}, "names dim 0 twice");
  refused({"[{\"y\"}, {}]", "collective_permute", "[{\"x\"}, {}]"}, "must keep their number");
  refused({"[{\"x\"}, {}]", "all_reduce {\"x\"}", "[{\"x\"}, {}]"}, "split its operand");
  refused({"[{\"x\"}, {}]", "all_reduce {\"y\"}", "[{}, {}]"}, "and its out_sharding has");
  refused({"[{\"x\"}, {}]", "all_reduce mean {\"y\"}", "[{\"x\"}, {}]"}, "valid: sum, max, min");
  refused({"[{}, {}]", "all_reduce {\"y\", \"x\"}", "[{}, {}]"}, "in the order of the mesh");
  refused({"[{\"x\"}, {}]", "replicated_to_unreduced {\"x\"}", "[{\"x\"}, {}], unreduced={\"y\"}"},
          "split its operand");
  refused({"[{\"x\"}, {}]", "sharded_to_unreduced [{\"x\"}, {}]", "[{}, {}], unreduced={\"y\"}"},
          "unreduced, and its out_sharding has");
  expect_refused(kMesh + function("%r = sdy.all_gather [{\"x\"}, {}] %a out_sharding=<@mesh, [{}, "
                                  "{}]> : tensor<8x16xf32>"),
                 "needs an operand with a sharding");
  expect_refused("sdy.mesh @other = <[\"x\"=4, \"y\"=2]>\n" + kMesh +
                     function("%r = sdy.all_slice [{\"x\"}, {}] %a out_sharding=<@mesh, [{\"x\"}, "
                              "{}]> : tensor<8x16xf32>",
                              "@other, [{}, {}]"),
                 "both must be the same");
}

TEST(Sdy, ANamedComputationHasTheShardingsOfItsEnds) {
  auto m = read(kMesh + function(R"(
    %r = sdy.named_computation<"f">(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{}, {"y"}]>] (%b: tensor<8x16xf32>) {
      %0 = stablehlo.negate %b : tensor<8x16xf32>
      sdy.return %0 : tensor<8x16xf32>
    } : (tensor<8x16xf32>) -> tensor<8x16xf32>)"));
  std::string found;
  for (const auto& i : m->entry()->instructions()) {
    if (ir::is_constraint(*i)) found += i->sharding.at(0).to_spec_string() + "; ";
  }
  EXPECT_EQ(found, "P(\"x\", None); P(None, \"y\"); ");
  const auto with = [](const std::string& in) {
    return kMesh + function("%r = sdy.named_computation<\"f\">(%a) in_shardings=[" + in +
                            "] (%b: tensor<8x16xf32>) {\nsdy.return %b : tensor<8x16xf32>\n} : "
                            "(tensor<8x16xf32>) -> tensor<8x16xf32>");
  };
  expect_refused(with("<@mesh, [{\"x\"}, {}]>, <@mesh, [{}, {}]>"), "more shardings than the 1");
  expect_refused(with(""), "0 shardings for 1 values");
  expect_refused(with("<@mesh, [{\"x\"}]>"), "a sharding of rank 1");
  // The body gives what the op says.
  const auto of = [](const std::string& body, const std::string& types) {
    return kMesh + function("%r = stablehlo.negate %a : tensor<8x16xf32>\n" + body + types);
  };
  const std::string gives =
      "%0 = sdy.named_computation<\"f\">(%a) (%b: tensor<8x16xf32>) {\nsdy.return %b : "
      "tensor<8x16xf32>\n} : ";
  EXPECT_EQ(error_of(of(gives, "(tensor<8x16xf32>) -> tensor<8x16xf32>")), "no error");
  expect_refused(of(gives, "(tensor<8x16xf32>) -> tensor<4x16xf32>"), "f32[4,16] was declared");
  expect_refused(of(gives, "(tensor<8x16xf32>) -> ()"), "sdy.named_computation");
  expect_refused(of("%0 = sdy.named_computation<\"f\">(%a) (%b: tensor<4x16xf32>) {\n"
                    "sdy.return %b : tensor<4x16xf32>\n} : ",
                    "(tensor<8x16xf32>) -> tensor<4x16xf32>"),
                 "sdy.named_computation");
}

std::string manual(const std::string& body) {
  return kMesh + function(R"(
    %r = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%b: tensor<4x16xf32>) {
)" + body + R"(
      sdy.return %1 : tensor<4x16xf32>
    } : (tensor<8x16xf32>) -> tensor<8x16xf32>)");
}

TEST(Sdy, AnAxisIsManualOnceAndSplitsNothingInside) {
  EXPECT_EQ(error_of(manual("%1 = sdy.sharding_constraint %b <@mesh, [{\"y\"}, {}]> : "
                            "tensor<4x16xf32>")),
            "no error");
  expect_refused(manual("%1 = sdy.sharding_constraint %b <@mesh, [{\"x\"}, {}]> : "
                        "tensor<4x16xf32>"),
                 "axis \"x\" is manual in a manual computation around this sharding");
  expect_refused(manual("%1 = stablehlo.negate %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh, "
                        "[{}, {\"x\"}]>]>} : tensor<4x16xf32>"),
                 "axis \"x\" is manual in a manual computation around this sharding");
  expect_refused(
      manual("%1 = sdy.manual_computation(%b) in_shardings=[<@mesh, [{}, {}]>] "
             "out_shardings=[<@mesh, [{}, {}]>] manual_axes={\"x\"} (%c: tensor<4x16xf32>) {\n"
             "sdy.return %c : tensor<4x16xf32>\n} : (tensor<4x16xf32>) -> tensor<4x16xf32>"),
      "axis \"x\" is manual already");
}

TEST(Sdy, ValuesOfAGroupHaveOneShapeAndOnePlace) {
  expect_refused(kMesh + function("sdy.sharding_group %a group_id=1 : tensor<8x16xf32>\n"
                                  "%r = stablehlo.negate %a : tensor<8x16xf32>\n"
                                  "%t = stablehlo.reshape %a : (tensor<8x16xf32>) -> "
                                  "tensor<128xf32>\n"
                                  "sdy.sharding_group %t group_id=1 : tensor<128xf32>"),
                 "values of a group have one shape");
  EXPECT_EQ(error_of(manual("%1 = stablehlo.negate %b : tensor<4x16xf32>\n"
                            "sdy.sharding_group %1 group_id=1 : tensor<4x16xf32>")),
            "no error");
}

TEST(Sdy, GroupsWithAValueInCommonAreOne) {
  auto m = read(kMesh + function("%0 = stablehlo.negate %a : tensor<8x16xf32>\n"
                                 "%1 = stablehlo.abs %a : tensor<8x16xf32>\n"
                                 "sdy.sharding_group %0 group_id=7 : tensor<8x16xf32>\n"
                                 "sdy.sharding_group %1 group_id=4 : tensor<8x16xf32>\n"
                                 "sdy.sharding_group %0 group_id=5 : tensor<8x16xf32>\n"
                                 "sdy.sharding_group %1 group_id=5 : tensor<8x16xf32>\n"
                                 "%r = stablehlo.add %0, %1 : tensor<8x16xf32>"));
  const ir::Instruction* root = m->entry()->root();
  EXPECT_EQ(root->operand(0)->sharding.at(0).shard_group, 4);
  EXPECT_EQ(root->operand(1)->sharding.at(0).shard_group, 4);
}

TEST(Sdy, TheOnlyValueThatABranchCapturesMayBeInAGroup) {
  auto m = read(kMesh + function(R"(
    %n = stablehlo.negate %a : tensor<8x16xf32>
    sdy.sharding_group %n group_id=3 : tensor<8x16xf32>
    %i = stablehlo.constant dense<1> : tensor<i32>
    %r = "stablehlo.case"(%i) ({
      sdy.sharding_group %a group_id=3 : tensor<8x16xf32>
      %0 = stablehlo.abs %a : tensor<8x16xf32>
      stablehlo.return %0 : tensor<8x16xf32>
    }, {
      stablehlo.return %a : tensor<8x16xf32>
    }) : (tensor<i32>) -> tensor<8x16xf32>)"));
  const ir::Instruction* root = m->entry()->root();
  ASSERT_EQ(root->called().size(), 2u);
  EXPECT_EQ(root->called()[0]->parameter(0)->sharding.at(0).shard_group, 3);
}

TEST(Sdy, SpecialFactorsOfShardingRules) {
  const auto rule = [](const std::string& text) {
    return "func.func @main(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {\n%r = "
           "stablehlo.custom_call @f(%a) {sdy.sharding_rule = #sdy.op_sharding_rule<" +
           text + ">} : (tensor<8x16xf32>) -> tensor<8x16xf32>\nreturn %r : tensor<8x16xf32>\n}\n";
  };
  for (const char* good :
       {"([i, j])->([i, j]) {i=8, j=16}", "([i, j])->([i, j]) {i=8, j=16}, custom",
        "([i, j])->([i, k]) {i=8, j=16, k=16} reduction={j} need_replication={k}",
        "([i, j])->([i, j]) {i=8, j=16} permutation={j} blocked_propagation={i}, custom",
        "([i, j])->([i, j]) {i=8, j=16} permutation={j} blocked_propagation={i, j}",
        "([ij, k])->([ij, k]) {i=2, j=4, k=16}", "([i, j])->([i, j]) {i=8, j=5} permutation={j}"}) {
    EXPECT_EQ(error_of(rule(good)), "no error") << good;
  }
  const auto refused = [&](const std::string& text, const std::string& part) {
    expect_refused(rule(text), part);
  };
  refused("([i])->([i, j]) {i=8, j=16}", "has 1 dims for operand 0");
  refused("([i, j], [i])->([i, j]) {i=8, j=16}", "is for 2 operands; there are 1");
  refused("([i, j])->() {i=8, j=16}", "is for 0 results; there are 1");
  refused("([a, j])->([a, j]) {a=8, j=16}", "has the factor 'a'");
  refused("([j, i])->([j, i]) {j=8, i=16}", "the sizes stand in the order i, j, k");
  refused("([i, k])->([i, k]) {i=8, k=16}", "the sizes stand in the order i, j, k");
  refused("([i, i])->([i, j]) {i=8, j=16}", "names the factor i twice");
  refused("([ij, k])->([ij, k]) {i=8, j=1, k=16}", "of size 1 beside others");
  refused("([i, j])->([i, j]) {i=8, j=16, k=2}", "a factor k that no dim has");
  refused("([i, j])->([i, j]) {i=8, j=16} reduction={j}", "reduces over j, which a result has");
  refused("([i, j])->([i, j]) {i=8, j=16} permutation={j, i}", "lists factors out of order");
  refused("([i, j])->([i, j]) {i=8, j=16} need_replication={j} permutation={j}", "twice");
  refused("([i, j])->([i, j]) {i=8, j=16} blocked_propagation={j, i}",
          "lists factors out of order");
  refused("([i, j])->([i, j]) {i=8, j=16} blocked_propagation={j, j}", "lists the factor j twice");
  refused("([i, j])->([i, j]) {i=8, j=16} speed={j}", "there is no 'speed'");
}

TEST(Sdy, OperationsForSeveralMeshesAreRefusedByName) {
  expect_refused(function("%r = mpmd.transfer %a : (tensor<8x16xf32>) -> tensor<8x16xf32>"),
                 "'mpmd.transfer' is of Shardy's mpmd dialect");
}

// A mesh that stands in a sharding has no name: the text gives it one, and others theirs.
TEST(Sdy, ManualComputationsBesideAMeshWithoutAName) {
  const auto m = read(R"(module attributes {mhlo.num_partitions = 16 : i32} {
sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<mesh<["p"=4, "q"=4]>, [{"p"}, {}]>}) -> tensor<8x16xf32> {
  %r = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"a"}, {}]>] out_shardings=[<@mesh, [{"a"}, {}]>] manual_axes={"a"} (%x: tensor<4x16xf32>) {
    %s = stablehlo.sine %x : tensor<4x16xf32>
    sdy.return %s : tensor<4x16xf32>
  } : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}
})");
  ir::PrintOptions options;
  options.axis_names = true;
  const std::string text = ir::to_string(*m, options);
  const auto again = ir::parse_hlo(text);
  EXPECT_EQ(ir::to_string(*again, options), text);
  const auto& manual = again->entry()->root()->get<ir::ManualComputationAttrs>();
  EXPECT_EQ(manual.mesh->num_devices(), 4) << text;
  EXPECT_EQ(manual.in_shardings[0].shards(), (Dims{2, 1}));
}

}  // namespace
}  // namespace tessera::text::sdy_forms
