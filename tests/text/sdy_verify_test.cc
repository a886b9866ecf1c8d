// SPDX-License-Identifier: Apache-2.0
// What Shardy's verifier refuses: edges where they may not stand, kinds of partial values that
// change, attributes that don't fit.
#include "src/text/read/stablehlo.h"
#include "tests/text/programs.h"

namespace tessera::text::sdy_verify {
namespace {

const std::string kMesh = "sdy.mesh @mesh = <[\"x\"=2, \"y\"=4]>\n";

/// A function on tensor<8x16xf32> with these operations, the last of which is %r.
std::string function(const std::string& body, const std::string& argument = "") {
  return kMesh + "func.func @main(%a: tensor<8x16xf32>" +
         (argument.empty() ? "" : " {sdy.sharding = #sdy.sharding<" + argument + ">}") +
         ") -> tensor<8x16xf32> {\n" + body + "\nreturn %r : tensor<8x16xf32>\n}\n";
}

std::string error_of(const std::string& text) {
  try {
    parse_stablehlo(text, "t.mlir");
  } catch (const ParseError& e) {
    return e.what();
  }
  return "no error";
}

/// An error in that line.
void expect_refused(const std::string& text, int line, const std::string& part) {
  const std::string error = error_of(text);
  EXPECT_NE(error.find(part), std::string::npos) << text << error << "\nlacks " << part;
  EXPECT_NE(error.find("t.mlir:" + std::to_string(line) + ":"), std::string::npos) << error;
}

TEST(SdyVerify, AnEdgeIsTheOnlyReaderOfItsOperand) {
  const std::string edge = "%e = sdy.data_flow_edge %a : tensor<8x16xf32>\n";
  const std::string other = "%o = stablehlo.negate %a : tensor<8x16xf32>\n";
  const std::string sum = "%r = stablehlo.add %e, %o : tensor<8x16xf32>";
  expect_refused(function(edge + other + sum), 4, "must be the only one to read it");
  expect_refused(function(other + edge + sum), 4, "must be the only one to read it");
  // Of several results of an operation each is a value of its own.
  const std::string two =
      "%t:2 = stablehlo.optimization_barrier %a, %a : tensor<8x16xf32>, "
      "tensor<8x16xf32>\n%e = sdy.data_flow_edge %t#1 : tensor<8x16xf32>\n";
  EXPECT_EQ(error_of(function(two + "%r = stablehlo.add %e, %t#0 : tensor<8x16xf32>")), "no error");
  expect_refused(function(two + "%r = stablehlo.add %e, %t#1 : tensor<8x16xf32>"), 5,
                 "must be the only one to read it");
  // Nor may a region within read it.
  expect_refused(function(edge + R"(%r = stablehlo.while(%i = %e) : tensor<8x16xf32>
    cond { %c = stablehlo.constant dense<false> : tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do { %s = stablehlo.add %i, %a : tensor<8x16xf32>
      stablehlo.return %s : tensor<8x16xf32> })"),
                 7, "must be the only one to read it");
}

TEST(SdyVerify, EdgesStandOnSomeValuesOnly) {
  expect_refused(function("%0 = sdy.sharding_constraint %a <@mesh, [{}, {}]> : tensor<8x16xf32>\n"
                          "%r = sdy.data_flow_edge %0 : tensor<8x16xf32>"),
                 4, "which an operation of sdy gives");
  EXPECT_EQ(error_of(function(R"(
    %0 = sdy.named_computation<"f">(%a) (%b: tensor<8x16xf32>) {
      sdy.return %b : tensor<8x16xf32>
    } : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %r = sdy.data_flow_edge %0 : tensor<8x16xf32>)")),
            "no error");
  expect_refused(function("%0 = stablehlo.negate %a : tensor<8x16xf32>\n"
                          "%r = sdy.func_data_flow_edge %0 : tensor<8x16xf32>"),
                 4, "arguments of functions and results of calls");
  const std::string callee =
      "func.func private @f(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {\n"
      "return %a : tensor<8x16xf32>\n}\n";
  EXPECT_EQ(error_of(callee + function("%0 = call @f(%a) : (tensor<8x16xf32>) -> tensor<8x16xf32>\n"
                                       "%r = sdy.func_data_flow_edge %0 : tensor<8x16xf32>")),
            "no error");
  expect_refused(kMesh + R"(func.func @main(%a: tensor<8xf32>, %z: tensor<f32>) -> tensor<f32> {
  %r = "stablehlo.reduce"(%a, %z) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %e = sdy.func_data_flow_edge %x : tensor<f32>
      %s = stablehlo.add %e, %y : tensor<f32>
      "stablehlo.return"(%s) : (tensor<f32>) -> ()
  }) {dimensions = array<i64: 0>} : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
})",
                 5, "arguments of functions and results of calls");
}

TEST(SdyVerify, KindsOfPartialValuesStay) {
  const auto with = [](const std::string& from, const std::string& op, const std::string& to) {
    return function("%r = sdy." + op + to + " : tensor<8x16xf32>", "@mesh, [{}, {}]" + from);
  };
  const std::string max = ", unreduced=max{\"x\"}", sum = ", unreduced={\"x\"}";
  for (const std::string op : {"reshard", "sharding_constraint"}) {
    expect_refused(with(max, op + " %a ", "<@mesh, [{}, {}]" + sum + ">"), 3,
                   "the kind must stay, too");
    EXPECT_EQ(error_of(with(max, op + " %a ", "<@mesh, [{}, {}]" + max + ">")), "no error");
    EXPECT_EQ(error_of(with(max, op + " %a ", "<@mesh, [{}, {}]>")), "no error");
  }
  // Along an edge, too: what is unreduced stands at the operation that the edge is of.
  const auto edge = [](const std::string& from, const std::string& to) {
    return function(
        "%n = stablehlo.negate %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, "
        "[{}, {}]" +
        from + ">]>} : tensor<8x16xf32>\n%r = sdy.data_flow_edge %n sharding=<@mesh, " +
        "[{}, {}]" + to + "> : tensor<8x16xf32>");
  };
  expect_refused(edge(max, sum), 4,
                 "sdy.data_flow_edge goes from unreduced=max to unreduced=sum along an axis that "
                 "stays unreduced; the kind must stay, too. Valid: unreduced=max");
  EXPECT_EQ(error_of(edge(max, max)), "no error");
  EXPECT_EQ(error_of(edge(max, ", unreduced={\"y\"}")), "no error");
  EXPECT_EQ(error_of(edge(max, "")), "no error");
  expect_refused(
      function(
          "%t:2 = \"stablehlo.optimization_barrier\"(%a, %a) {sdy.sharding = "
          "#sdy.sharding_per_value<[<@mesh, [{}, {}]>, <@mesh, [{}, {}]" +
          max +
          ">]>} : (tensor<8x16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>)\n" +
          "%r = sdy.data_flow_edge %t#1 sharding=<@mesh, [{}, {}]" + sum + "> : tensor<8x16xf32>"),
      4, "goes from unreduced=max to unreduced=sum");
  const std::string whole = "out_sharding=<@mesh, [{}, {}]>";
  EXPECT_EQ(error_of(with(max, "all_reduce max {\"x\"} %a ", whole)), "no error");
  expect_refused(with(max, "all_reduce {\"x\"} %a ", whole), 3, "joins parts by sum");
  expect_refused(with(sum, "all_reduce min {\"x\"} %a ", whole), 3, "joins parts by min");
  const std::string split = "out_sharding=<@mesh, [{\"x\"}, {}]>";
  EXPECT_EQ(error_of(with(sum, "reduce_scatter [{\"x\"}, {}] %a ", split)), "no error");
  expect_refused(with(max, "reduce_scatter [{\"x\"}, {}] %a ", split), 3, "joins parts by sum");
  const std::string partial = "out_sharding=<@mesh, [{}, {}], unreduced=max{\"x\"}>";
  expect_refused(with("", "replicated_to_unreduced {\"x\"} %a ", partial), 3, "gives partial sums");
  expect_refused(
      function("%r = sdy.sharded_to_unreduced [{\"x\"}, {}] %a " + partial + " : tensor<8x16xf32>",
               "@mesh, [{\"x\"}, {}]"),
      3, "gives partial sums");
}

TEST(SdyVerify, APermuteNamesOneMeshByOneName) {
  const std::string text = function(
      "%r = sdy.collective_permute %a out_sharding=<@other, [{\"x\"}, {}]> : tensor<8x16xf32>",
      "@mesh, [{\"x\"}, {}]");
  expect_refused("sdy.mesh @other = <[\"x\"=2, \"y\"=4]>\n" + text, 4,
                 "the same devices in the same order");
  EXPECT_EQ(
      error_of("sdy.mesh @other = <[\"x\"=2, \"y\"=4], device_ids=[7,6,5,4,3,2,1,0]>\n" + text),
      "no error");
}

TEST(SdyVerify, PropagationEdgesFitTheirOperation) {
  const auto with = [](const std::string& attribute, bool sharded = true) {
    return function("%r = stablehlo.add %a, %a {" + attribute + "} : tensor<8x16xf32>",
                    sharded ? "@mesh, [{\"x\"}, {}]" : "");
  };
  const auto edges = [](const std::string& steps) {
    return "sdy.propagation_edges = #sdy.propagation_edges<[" + steps + "]>";
  };
  const auto step = [&](const std::string& moves) { return edges("{step-0 = [{" + moves + "}]}"); };
  const std::string right = "{step-0 = [{\"x\" = operand-0 -> [result-0]}]}";
  EXPECT_EQ(error_of(with(edges(right))), "no error");
  EXPECT_EQ(error_of(with(edges(right + ", {step-1 = [{\"y\":(1)2 = result-0 -> [operand-0, "
                                        "operand-1]}, {\"x\" = result-0 -> []}]}"))),
            "no error");
  const struct {
    std::string attribute, part;
  } kCases[] = {
      {edges(right + ", " + right), "step 0 stands twice"},
      {edges("{step--3 = []}"), "is at least 0"},
      {step("\"x\" = operand-0 -> [operand-0]"), "a source can't be a target"},
      {step("\"x\" = operand-0 -> [result-0, result-0]"), "a target that stands twice"},
      {step("\"x\" = operand-2 -> [result-0]"), "names operand 2 of stablehlo.add, which has 2"},
      {step("\"x\" = operand-0 -> [result-1]"), "names result 1 of stablehlo.add, which has 1"},
      {step("\"z\" = operand-0 -> [result-0]"), "axis \"z\", which no mesh has"},
      {"sdy.propagation_edges = 64", "expected '#sdy.propagation_edges'"},
      {"sdy.result_propagation_edges = 64", "expected '['"},
      {"sdy.block_arg_propagation_edges = [1, 2]", "expected '#sdy.propagation_edges'"}};
  for (const auto& [attribute, part] : kCases) expect_refused(with(attribute), 3, part);
  expect_refused(with(edges(right), false), 3, "no value of which has a sharding");
  expect_refused(
      "func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {\n%r = stablehlo.negate %a {" +
          edges(right) + "} : tensor<8xf32>\nreturn %r : tensor<8xf32>\n}\n",
      2, "no value of which has a sharding");
  EXPECT_EQ(
      error_of(with("sdy.result_propagation_edges = [#sdy.propagation_edges<[" + right + "]>]")),
      "no error");
}

TEST(SdyVerify, RulesHaveTensorsAndFactors) {
  expect_refused(
      function("stablehlo.custom_call @f(%a) {has_side_effect = true, sdy.sharding_rule = "
               "#sdy.op_sharding_rule<([i, j])->() {i=8, j=16}, custom>} : "
               "(tensor<8x16xf32>) -> ()\n%r = stablehlo.negate %a : tensor<8x16xf32>"),
      3, "has no results; it needs at least one");
  expect_refused(
      function("%r = stablehlo.negate %a {sdy.sharding_rule = "
               "#sdy.op_sharding_rule<([i,])->([i, j]) {i=8, j=16}>} : tensor<8x16xf32>"),
      3, "has a dim of operand 0 without a factor");
}

TEST(SdyVerify, ListsOfRulesStandInOrder) {
  const auto with = [](const std::string& lists) {
    return function(
        "%r = stablehlo.custom_call @f(%a) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->"
        "([i, j]) {i=8, j=16}" +
        lists + ">} : (tensor<8x16xf32>) -> tensor<8x16xf32>");
  };
  for (const char* good :
       {"", ", custom", " need_replication={i}", " need_replication={i} permutation={j}",
        " need_replication={i} blocked_propagation={i, j}, custom"}) {
    EXPECT_EQ(error_of(with(good)), "no error") << good;
  }
  expect_refused(with(" permutation={j} need_replication={i}"), 3, "valid, in this order");
  expect_refused(with(" permutation={i} permutation={j}"), 3, "valid, in this order");
  expect_refused(with(", permutation={i}"), 3, "valid, in this order");
  expect_refused(with(" custom"), 3, "valid, in this order");
  expect_refused(with(", custom, custom"), 3, "valid, in this order");
  expect_refused(with(","), 3, "expected a word");
}

TEST(SdyVerify, OneDeviceHasNoDims) {
  const std::string one = "sdy.mesh @one = <[], device_ids=[1]>\n";
  const auto with = [&](const std::string& rest) {
    return one + function(
                     "%r = stablehlo.negate %a {sdy.sharding = #sdy.sharding_per_value<[<@one"
                     ", " +
                     rest + ">]>} : tensor<8x16xf32>");
  };
  EXPECT_EQ(error_of(with("[]")), "no error");
  expect_refused(with("[{}, {}]"), 4, "is device 1 alone");
  expect_refused(with("[], replicated={\"x\"}"), 4, "is device 1 alone");
  expect_refused(with("[], unreduced={\"x\"}"), 4, "is device 1 alone");
}

TEST(SdyVerify, AManualComputationIsOnOneMesh) {
  const auto with = [](const std::string& mesh) {
    return "sdy.mesh @other = <[\"x\"=4, \"y\"=2]>\n" +
           function(
               "%r = sdy.manual_computation(%a) in_shardings=[<@mesh, [{\"x\"}, {}]>] "
               "out_shardings=[<@" +
               mesh +
               ", [{\"x\"}, {}]>] manual_axes={\"x\"} (%b: tensor<4x16xf32>) {\n"
               "sdy.return %b : tensor<4x16xf32>\n} : (tensor<8x16xf32>) -> "
               "tensor<8x16xf32>");
  };
  EXPECT_EQ(error_of(with("mesh")), "no error");
  expect_refused(with("other"), 4, "are on one");
}

TEST(SdyVerify, ListsOfAxesStandOnceAndNotOnTokens) {
  expect_refused(function("%r = stablehlo.negate %a : tensor<8x16xf32>",
                          "@mesh, [{}, {}], unreduced={\"x\"}, unreduced={\"y\"}"),
                 2, "expected");
  for (const std::string list : {"replicated", "unreduced"}) {
    expect_refused(kMesh +
                       "func.func @main(%t: !stablehlo.token {sdy.sharding = #sdy.sharding<@mesh, "
                       "[], " +
                       list +
                       "={\"x\"}>}) -> !stablehlo.token {\nreturn %t : !stablehlo.token\n}\n",
                   2, "replicated or unreduced axes");
  }
}

}  // namespace
}  // namespace tessera::text::sdy_verify
