// SPDX-License-Identifier: Apache-2.0
// Programs whose arrays are parts on several devices that are to be joined.
#include <array>
#include <cmath>

#include "tests/compiler/expect_results.h"

namespace tessera::testing {
namespace {

TEST(Unreduced, FilesHoldValues) {
  expect_results(R"(sdy.mesh @mesh = <["x"=4]>
func.func public @main(%arg0: tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}], unreduced={"x"}>}, %arg1: tensor<2x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>})
    -> (tensor<2xf32>, tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}], unreduced={"x"}>}, tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}], unreduced={"x"}>}) {
  %0 = stablehlo.add %arg0, %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x"}>]>} : tensor<2xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{}]> : tensor<2xf32>
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.reduce(%arg1 init: %c) applies stablehlo.add across dimensions = [1] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x"}>]>} : (tensor<2x8xf32>, tensor<f32>) -> tensor<2xf32>
  return %1, %2, %arg0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
)",
                 {floats({2}, {1, 2}), floats({2, 8}, std::vector<float>(16, 1))},
                 {floats({2}, {2, 4}), floats({2}, {8, 8}), floats({2}, {1, 2})});
}

TEST(Unreduced, MaximaAndMinimaAreJoinedAsSuch) {
  for (const std::string kind : {"max", "min"}) {
    const std::string op = kind == "max" ? "maximum" : "minimum";
    const std::string identity = kind == "max" ? "0xFF800000" : "0x7F800000";
    expect_results(
        R"(sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%arg0: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}, %arg1: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %c = stablehlo.constant dense<)" +
            identity +
            R"(> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %c) applies stablehlo.)" +
            op +
            R"( across dimensions = [1] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}], unreduced=)" +
            kind + R"({"x"}>]>} : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = sdy.reshard %0 <@mesh, [{"y"}]> : tensor<4xf32>
  %2 = sdy.reshard %arg1 <@mesh, [{"y"}], unreduced=)" +
            kind + R"({"x"}> : tensor<4xf32>
  %3 = sdy.reshard %2 <@mesh, [{}], unreduced=)" +
            kind + R"({"x", "y"}> : tensor<4xf32>
  %4 = sdy.reshard %3 <@mesh, [{"x"}]> : tensor<4xf32>
  %5 = sdy.reshard %3 <@mesh, [{}]> : tensor<4xf32>
  %6 = sdy.reshard %5 <@mesh, [{}], unreduced={"y"}> : tensor<4xf32>
  %7 = sdy.reshard %6 <@mesh, [{}]> : tensor<4xf32>
  return %1, %4, %7 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
)",
        {floats({4, 4}, {1, -2, 3, -4, -5, -6, -7, -8, 9, 9, 9, 9, 0, -1, 2, 1}),
         floats({4}, {-1, 2, -3, 4})},
        {kind == "max" ? floats({4}, {3, -5, 9, 2}) : floats({4}, {-4, -8, 9, -1}),
         floats({4}, {-1, 2, -3, 4}), floats({4}, {-1, 2, -3, 4})});
  }
}

TEST(Unreduced, AnyAxesBecomeUnreduced) {
  expect_results(R"(sdy.mesh @mesh = <["x"=2, "y"=2, "z"=4]>
func.func public @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}], unreduced={"x", "y"}>}, %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %arg2: tensor<6x5xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<6x5xf32>) {
  %0 = sdy.reshard %arg0 <@mesh, [{}], unreduced={"x", "z":(1)2}> : tensor<8xf32>
  %1 = sdy.reshard %arg1 <@mesh, [{}], unreduced={"x", "z":(2)2}> : tensor<8xf32>
  %2 = sdy.reshard %0 <@mesh, [{}]> : tensor<8xf32>
  %3 = sdy.reshard %1 <@mesh, [{"z"}]> : tensor<8xf32>
  %4 = sdy.sharding_constraint %arg2 <@mesh, [{"z"}, {"x"}]> : tensor<6x5xf32>
  %5 = sdy.reshard %4 <@mesh, [{}, {}], unreduced={"x", "z"}> : tensor<6x5xf32>
  %6 = sdy.reshard %5 <@mesh, [{"y"}, {"z"}]> : tensor<6x5xf32>
  return %2, %3, %6 : tensor<8xf32>, tensor<8xf32>, tensor<6x5xf32>
}
)",
                 {floats({8}, {1, 2, 3, 4, 5, 6, 7, 8}), floats({8}, {8, 7, 6, 5, 4, 3, 2, 1}),
                  floats({6, 5}, std::vector<float>(30, 3))},
                 {floats({8}, {1, 2, 3, 4, 5, 6, 7, 8}), floats({8}, {8, 7, 6, 5, 4, 3, 2, 1}),
                  floats({6, 5}, std::vector<float>(30, 3))});
}

TEST(Unreduced, PartsOfASumKeepTheSignOfZeros) {
  expect_results(R"(sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<4xf32>
  %0 = stablehlo.multiply %arg0, %one {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<4xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}], unreduced={"y"}> : tensor<4xf32>
  %2 = stablehlo.reverse %1, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x", "y"}>]>} : tensor<4xf32>
  %3 = sdy.sharding_constraint %2 <@mesh, [{}]> : tensor<4xf32>
  %4 = stablehlo.divide %one, %3 : tensor<4xf32>
  return %4 : tensor<4xf32>
}
)",
                 {floats({4}, {-0.0F, 0, -0.0F, 2})},
                 {floats({4}, {0.5, -INFINITY, INFINITY, -INFINITY})});
}

TEST(Unreduced, WhatMakesWholeValuesIsMadePartial) {
  // A constant, an iota and a sort that are to be unreduced count once.
  expect_results(R"(sdy.mesh @mesh = <["x"=4]>
func.func public @main(%arg0: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) {
  %0 = stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x"}>]>} dense<[1, 2, 3, 4]> : tensor<4xi32>
  %1 = stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x"}>]>} : tensor<4xi32>
  %2 = "stablehlo.sort"(%arg0) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %8 = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %8 : tensor<i1>
  }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x"}>]>} : (tensor<4xi32>) -> tensor<4xi32>
  %3 = stablehlo.negate %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x"}>]>} : tensor<4xi32>
  %4 = sdy.reshard %0 <@mesh, [{}]> : tensor<4xi32>
  %5 = sdy.reshard %1 <@mesh, [{"x"}]> : tensor<4xi32>
  %6 = sdy.reshard %2 <@mesh, [{}]> : tensor<4xi32>
  %7 = sdy.reshard %3 <@mesh, [{"x"}]> : tensor<4xi32>
  return %4, %5, %6, %7 : tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>
}
)",
                 {numbers({4}, {3, 1, 4, 2})},
                 {numbers({4}, {1, 2, 3, 4}), numbers({4}, {0, 1, 2, 3}),
                  numbers({4}, {1, 2, 3, 4}), numbers({4}, {-3, -1, -4, -2})});
}

TEST(Unreduced, CallersGiveAndTakeWholeArrays) {
  // A constraint and a group ask for parts; arguments and results are none.
  expect_results(R"(sdy.mesh @mesh = <["x"=4]>
func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = sdy.sharding_constraint %arg0 <@mesh, [{}], unreduced={"x"}> : tensor<4xf32>
  %1 = stablehlo.negate %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x"}>]>} : tensor<4xf32>
  sdy.sharding_group %1 group_id=0 : tensor<4xf32>
  sdy.sharding_group %arg1 group_id=0 : tensor<4xf32>
  %2 = stablehlo.add %1, %arg1 : tensor<4xf32>
  return %2, %0 : tensor<4xf32>, tensor<4xf32>
}
)",
                 {floats({4}, {1, 2, 3, 4}), floats({4}, {5, 5, 5, 5})},
                 {floats({4}, {4, 3, 2, 1}), floats({4}, {1, 2, 3, 4})});
}

TEST(Unreduced, PerDeviceCodeTakesAndGivesPartsAlongManualAxes) {
  // All axes manual, and some; on the program's mesh, on another order of its devices.
  for (const std::string mesh : {"mesh", "other"}) {
    for (const std::string manual : {R"("x", "y")", R"("x")"}) {
      if (mesh == "other" && manual == R"("x")") continue;
      const std::string sharding = "<@" + mesh + R"(, [{}], unreduced={"x"}>)";
      expect_results(
          R"(sdy.mesh @mesh = <["x"=2, "y"=3]>
sdy.mesh @other = <["x"=2, "y"=3], device_ids=[2, 1, 4, 3, 5, 0]>
func.func public @main(%arg0: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) -> (tensor<6xf32>, tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.negate %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}]>]>} : tensor<6xf32>
  %1 = sdy.manual_computation(%0) in_shardings=[)" +
              sharding + "] out_shardings=[" + sharding + "] manual_axes={" + manual +
              R"(} (%arg1: tensor<6xf32>) {
    %3 = stablehlo.add %arg1, %arg1 : tensor<6xf32>
    sdy.return %3 : tensor<6xf32>
  } : (tensor<6xf32>) -> tensor<6xf32>
  %2 = sdy.manual_computation(%0) in_shardings=[<@)" +
              mesh + R"(, [{}]>] out_shardings=[)" + sharding + "] manual_axes={" + manual +
              R"(} (%arg1: tensor<6xf32>) {
    sdy.return %arg1 : tensor<6xf32>
  } : (tensor<6xf32>) -> tensor<6xf32>
  return %1, %2 : tensor<6xf32>, tensor<6xf32>
}
)",
          {floats({6}, {1, 2, 3, 4, 5, 6})},
          {floats({6}, {-2, -4, -6, -8, -10, -12}), floats({6}, {-2, -4, -6, -8, -10, -12})});
    }
  }
  // The result of the program, of which it says nothing.
  expect_results(R"(sdy.mesh @mesh = <["x"=2]>
func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{}]>] out_shardings=[<@mesh, [{}], unreduced=max{"x"}>] manual_axes={"x"} (%arg1: tensor<2xf32>) {
    %1 = stablehlo.partition_id : tensor<ui32>
    %2 = stablehlo.convert %1 : (tensor<ui32>) -> tensor<f32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %4 = stablehlo.add %arg1, %3 : tensor<2xf32>
    sdy.return %4 : tensor<2xf32>
  } : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
)",
                 {floats({2}, {-3, 4})}, {floats({2}, {-2, 5})});
}

TEST(Unreduced, PerDeviceCodeSeesWholeValuesAlongAutomaticAxes) {
  expect_results(R"(sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<f32>) -> (tensor<4xf32>, tensor<f32>) {
  %0:2 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{"x"}], unreduced={"y"}>, <@mesh, [], unreduced={"y"}>] out_shardings=[<@mesh, [{"x"}], unreduced={"y"}>, <@mesh, [], unreduced=min{"y"}>] manual_axes={"x"} (%arg2: tensor<2xf32>, %arg3: tensor<f32>) {
    %1 = stablehlo.multiply %arg2, %arg2 : tensor<2xf32>
    %2 = stablehlo.multiply %arg3, %arg3 : tensor<f32>
    sdy.return %1, %2 : tensor<2xf32>, tensor<f32>
  } : (tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<f32>
}
)",
                 {floats({4}, {1, 2, 3, 4}), floats({}, {5})},
                 {floats({4}, {1, 4, 9, 16}), floats({}, {25})});
}

TEST(Unreduced, AReductionOfPartialValuesIsPartial) {
  const auto text = [](const std::string& in, const std::string& op, const std::string& init,
                       const std::string& out) {
    return R"(sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%arg0: tensor<4x3xf32> {sdy.sharding = #sdy.sharding<@mesh, )" +
           in + R"(>}) -> (tensor<3xf32> {sdy.sharding = #sdy.sharding<@mesh, )" + out + R"(>}) {
  %c = stablehlo.constant dense<)" +
           init + R"(> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %c) applies stablehlo.)" +
           op + R"( across dimensions = [0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, )" +
           out + R"(> : tensor<3xf32>
  return %1 : tensor<3xf32>
}
)";
  };
  const auto sent = [](const std::string& module) {
    for (const Layouts layouts : {Layouts::solved, Layouts::propagated}) {
      compiler::Options options;
      options.layouts = layouts;
      const auto executable =
          compiler::compile(compiler::read_module(module, "t.mlir", std::nullopt), options);
      std::string found;
      for (const auto& i : executable->partitioned().entry()->instructions()) {
        if (ir::is_collective(i->opcode)) found += std::string(ir::name(i->opcode)) + " ";
      }
      if (layouts == Layouts::propagated) return found;
      EXPECT_EQ(found.find("reduce-scatter"), std::string::npos) << module << found;
    }
    return std::string();
  };
  const Literal x = floats({4, 3}, {1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12});
  const Literal sum = floats({3}, {-6, 6, -6}), most = floats({3}, {7, 11, 9});
  const std::string of_x = R"([{}, {}], unreduced={"x"})", by_x = R"([{}], unreduced={"x"})";
  for (const auto& [in, out, collectives] : std::vector<std::array<std::string, 3>>{
           {of_x, by_x, ""},
           {R"([{"y"}, {}], unreduced={"x"})", R"([{}], unreduced={"x", "y"})", ""},
           {R"([{"y"}, {}], unreduced={"x"})", by_x, "all-reduce "},
           {of_x, "[{}]", "-"}}) {
    const std::string module = text(in, "add", "0.0", out);
    expect_results(module, {x}, {sum});
    if (collectives == "-") continue;
    EXPECT_EQ(sent(module), collectives) << module;
  }
  // A scalar as well.
  const std::string scalar = R"(sdy.mesh @mesh = <["x"=2]>
func.func public @main(%arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}], unreduced={"x"}>}) -> (tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, [], unreduced={"x"}>}) {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %c) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %1 = sdy.sharding_constraint %0 <@mesh, [], unreduced={"x"}> : tensor<f32>
  return %1 : tensor<f32>
}
)";
  expect_results(scalar, {floats({4}, {0, 1, 2, 3})}, {floats({}, {6})});
  EXPECT_EQ(sent(scalar), "");
  // An initial value counts once, and maxima aren't summed.
  expect_results(text(of_x, "add", "5.0", by_x), {x}, {floats({3}, {-1, 11, -1})});
  expect_results(text(of_x, "maximum", "0xFF800000", by_x), {x}, {most});
  const std::string of_most = R"([{}, {}], unreduced=max{"x"})";
  const std::string module = text(of_most, "maximum", "0xFF800000", R"([{}], unreduced=max{"x"})");
  expect_results(module, {x}, {most});
  EXPECT_EQ(sent(module), "");
  expect_results(text(of_most, "add", "0.0", by_x), {x}, {sum});
}

TEST(Unreduced, AFunctionMakesPartialValuesOfWholeOnes) {
  expect_results(R"(sdy.mesh @one = <["a"=1]>
sdy.mesh @mesh = <["p"=5]>
func.func public @main(%0: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %1 = sdy.sharding_constraint %0 <@one, [{}, {}]> : tensor<2x2xf32>
  %2 = sdy.named_computation<"f">(%0, %1) out_shardings=[<@mesh, [{}, {}], unreduced={"p"}>] (%3: tensor<2x2xf32>, %4: tensor<2x2xf32>) {
    %5 = stablehlo.maximum %3, %3 {sdy.sharding = #sdy.sharding_per_value<[<@one, [{}, {}]>]>} : tensor<2x2xf32>
    sdy.return %5 : tensor<2x2xf32>
  } : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %1, %2 : tensor<2x2xf32>, tensor<2x2xf32>
}
)",
                 {floats({2, 2}, {1, 2, 3, 4})},
                 {floats({2, 2}, {1, 2, 3, 4}), floats({2, 2}, {1, 2, 3, 4})});
}

}  // namespace
}  // namespace tessera::testing
