// SPDX-License-Identifier: Apache-2.0
// Programs that say which devices arrays are on: one, or some of them; and those that ask which
// device they run on outside of per-device code.
#include "tests/compiler/expect_results.h"

namespace tessera::testing {
namespace {

TEST(Submeshes, OpsOnOneDeviceGiveTheirValueToAll) {
  expect_results(R"(sdy.mesh @on_3 = <[], device_ids=[3]>
sdy.mesh @on_7 = <[], device_ids=[7]>
func.func public @main(%arg0: tensor<2x2xf32> {sdy.sharding = #sdy.sharding<@on_3, []>}) -> tensor<2x2xf32> {
  %0 = stablehlo.add %arg0, %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@on_7, []>]>} : tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
)",
                 {floats({2, 2}, {1, 2, 3, 4})}, {floats({2, 2}, {2, 4, 6, 8})});
  expect_results(R"(HloModule m, num_partitions=4
ENTRY e {
  p = f32[4] parameter(0), sharding={maximal device=2}
  q = f32[4] parameter(1), sharding={devices=[4]<=[4]}
  s = f32[4] multiply(p, p), sharding={maximal device=1}
  ROOT r = f32[4] add(s, q), sharding={devices=[4]<=[4]}
}
)",
                 {floats({4}, {1, 2, 3, 4}), floats({4}, {10, 20, 30, 40})},
                 {floats({4}, {11, 24, 39, 56})});
}

TEST(Submeshes, AnOpOnOneDeviceSeesThatDevicesNumber) {
  expect_results(R"(sdy.mesh @mesh = <["x"=4]>
sdy.mesh @one = <[], device_ids=[1]>
sdy.mesh @two = <[], device_ids=[2]>
func.func public @main(%arg0: tensor<4xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<4xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
  %0 = stablehlo.partition_id : tensor<ui32>
  %1 = stablehlo.convert %0 : (tensor<ui32>) -> tensor<i32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<i32>) -> tensor<4xi32>
  %3 = stablehlo.add %arg0, %2 {sdy.sharding = #sdy.sharding_per_value<[<@two, []>]>} : tensor<4xi32>
  %c = stablehlo.constant dense<10> : tensor<4xi32>
  %4 = stablehlo.multiply %2, %c : tensor<4xi32>
  %5 = stablehlo.add %3, %4 {sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} : tensor<4xi32>
  return %5 : tensor<4xi32>
}
)",
                 {numbers({4}, {1, 2, 3, 4})}, {numbers({4}, {13, 14, 15, 16})});
}

TEST(Submeshes, CollectivesOutsideOfPerDeviceCodeSeeWholeArrays) {
  expect_results(R"(sdy.mesh @mesh = <["x"=4]>
func.func public @main(%arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<4xf32>, tensor<16xf32>) {
  %0 = "stablehlo.all_reduce"(%arg0) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %2 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids, channel_handle = #stablehlo.channel_handle<handle = 2, type = 0>}> : (tensor<4xf32>) -> tensor<16xf32>
  return %0, %1 : tensor<4xf32>, tensor<16xf32>
}
)",
                 {floats({4}, {1, 2, 3, 4})},
                 {floats({4}, {4, 8, 12, 16}),
                  floats({16}, {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4})});
}

TEST(Submeshes, MeshesOfSeveralSizesStandInOneModule) {
  // 4 of 8 devices, in an order of their own, code per device among them, and 3, which don't
  // divide 8.
  expect_results(R"(sdy.mesh @all = <["x"=2, "y"=4]>
sdy.mesh @half = <["z"=4], device_ids=[2, 0, 3, 1]>
sdy.mesh @three = <["w"=3]>
func.func public @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@all, [{"y"}]>}, %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@half, [{"z"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@half, [{"z"}]>}, tensor<8xf32>, tensor<3xf32>) {
  %0 = stablehlo.add %arg0, %arg1 : tensor<8xf32>
  %1 = sdy.manual_computation(%0) in_shardings=[<@half, [{"z"}]>] out_shardings=[<@half, [{"z"}]>] manual_axes={"z"} (%arg2: tensor<2xf32>) {
    %5 = "stablehlo.all_reduce"(%arg2) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %6 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %6 : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    sdy.return %5 : tensor<2xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  %2 = stablehlo.slice %1 [0:3] : (tensor<8xf32>) -> tensor<3xf32>
  %3 = sdy.sharding_constraint %2 <@three, [{"w"}]> : tensor<3xf32>
  return %0, %1, %3 : tensor<8xf32>, tensor<8xf32>, tensor<3xf32>
}
)",
                 {floats({8}, {1, 2, 3, 4, 5, 6, 7, 8}), floats({8}, {1, 1, 1, 1, 1, 1, 1, 1})},
                 {floats({8}, {2, 3, 4, 5, 6, 7, 8, 9}),
                  floats({8}, {20, 24, 20, 24, 20, 24, 20, 24}), floats({3}, {20, 24, 20})});
}

TEST(Submeshes, PerDeviceCodeOnSomeOfTheDevicesStandsBesideCodeThatLeavesAxesAutomatic) {
  expect_results(R"(sdy.mesh @mesh = <["x"=2, "y"=2]>
sdy.mesh @half = <["z"=2], device_ids=[1, 0]>
func.func public @main(%arg0: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %0 = sdy.manual_computation(%arg0) in_shardings=[<@half, [{"z"}, {}]>] out_shardings=[<@half, [{"z"}, {}]>] manual_axes={"z"} (%arg1: tensor<2x2xf32>) {
    %2 = stablehlo.negate %arg1 : tensor<2x2xf32>
    sdy.return %2 : tensor<2x2xf32>
  } : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%arg1: tensor<2x2xf32>) {
    %2 = stablehlo.add %arg1, %arg1 : tensor<2x2xf32>
    sdy.return %2 : tensor<2x2xf32>
  } : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %1 : tensor<4x2xf32>
}
)",
                 {floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})},
                 {floats({4, 2}, {-2, -4, -6, -8, -10, -12, -14, -16})});
}

// Numbers of devices are those of the part, 0 to 3, in a body within another one as well.
TEST(Submeshes, NestedPerDeviceCodeOnSomeOfTheDevicesNamesThese) {
  expect_results(R"(module @m attributes {mhlo.num_partitions = 8 : i32} {
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"y"}]>] out_shardings=[<@mesh, [{"y"}]>] manual_axes={"y"} (%arg1: tensor<4xf32>) {
    %1 = sdy.manual_computation(%arg1) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%arg2: tensor<2xf32>) {
      %2 = stablehlo.partition_id : tensor<ui32>
      %3 = stablehlo.convert %2 : (tensor<ui32>) -> tensor<f32>
      %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %5 = stablehlo.add %arg2, %4 : tensor<2xf32>
      %6 = "stablehlo.all_reduce"(%5) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %7 = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %7 : tensor<f32>
      }) : (tensor<2xf32>) -> tensor<2xf32>
      sdy.return %6 : tensor<2xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    sdy.return %1 : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
})",
                 {floats({8}, {1, 2, 3, 4, 5, 6, 7, 8})},
                 {floats({8}, {7, 9, 15, 17, 7, 9, 15, 17})});
}

// One function, called by code for 2 devices, for 4 and for all 8: each joins its own.
TEST(Submeshes, AFunctionIsSharedByPerDeviceCodeOnPartsOfSeveralSizes) {
  const auto text = [](const std::string& groups, const std::string& channel) {
    return R"(module @m attributes {mhlo.num_partitions = 8 : i32} {
sdy.mesh @all = <["c"=8]>
sdy.mesh @four = <["b"=4]>
sdy.mesh @two = <["a"=2]>
func.func public @main(%arg0: tensor<8xf32>, %arg1: tensor<16xf32>) -> (tensor<4xf32>, tensor<8xf32>, tensor<16xf32>, tensor<4xf32>) {
  %s = stablehlo.slice %arg0 [0:4] : (tensor<8xf32>) -> tensor<4xf32>
  %0 = sdy.manual_computation(%s) in_shardings=[<@two, [{"a"}]>] out_shardings=[<@two, [{"a"}]>] manual_axes={"a"} (%arg2: tensor<2xf32>) {
    %7 = func.call @joined(%arg2) : (tensor<2xf32>) -> tensor<2xf32>
    sdy.return %7 : tensor<2xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  %1 = sdy.manual_computation(%arg0) in_shardings=[<@four, [{"b"}]>] out_shardings=[<@four, [{"b"}]>] manual_axes={"b"} (%arg2: tensor<2xf32>) {
    %7 = func.call @joined(%arg2) : (tensor<2xf32>) -> tensor<2xf32>
    sdy.return %7 : tensor<2xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  %2 = sdy.manual_computation(%arg1) in_shardings=[<@all, [{"c"}]>] out_shardings=[<@all, [{"c"}]>] manual_axes={"c"} (%arg2: tensor<2xf32>) {
    %7 = func.call @joined(%arg2) : (tensor<2xf32>) -> tensor<2xf32>
    sdy.return %7 : tensor<2xf32>
  } : (tensor<16xf32>) -> tensor<16xf32>
  %3 = sdy.manual_computation(%s) in_shardings=[<@two, [{"a"}]>] out_shardings=[<@two, [{"a"}]>] manual_axes={"a"} (%arg2: tensor<2xf32>) {
    %7 = "stablehlo.collective_permute"(%arg2) <{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 5, type = 0>}> : (tensor<2xf32>) -> tensor<2xf32>
    sdy.return %7 : tensor<2xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1, %2, %3 : tensor<4xf32>, tensor<8xf32>, tensor<16xf32>, tensor<4xf32>
}
func.func private @joined(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.all_reduce"(%arg0) <{replica_groups = )" +
           groups + channel + R"(}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
})";
  };
  const std::vector<float> eight = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> ones(16, 1), eights(16, 8);
  const std::vector<Literal> arguments = {floats({8}, eight), floats({16}, ones)};
  const Literal permuted = floats({4}, {3, 4, 1, 2});
  // Groups of replicas, of which there is one: with a channel all partitions are joined.
  const std::string channel = ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>";
  expect_results(text("dense<0> : tensor<1x1xi64>", channel), arguments,
                 {floats({4}, {4, 6, 4, 6}), floats({8}, {16, 20, 16, 20, 16, 20, 16, 20}),
                  floats({16}, eights), permuted});
  // Without one nobody is.
  expect_results(text("dense<0> : tensor<1x1xi64>", ""), arguments,
                 {floats({4}, {1, 2, 3, 4}), floats({8}, eight), floats({16}, ones), permuted});
}

TEST(Submeshes, ABodyIsSharedByPerDeviceCodeOnSomeOfTheDevices) {
  const auto call = [](const std::string& name, const std::string& x, const std::string& size,
                       const std::string& mesh) {
    const std::string s = "[<mesh<" + mesh + ">, [{\"x\"}]>]";
    return "  " + name + " = f32[" + size + "] custom-call(" + x +
           R"(), custom_call_target="tessera.ManualComputation", to_apply=body, in_shardings=)" +
           s + ", out_shardings=" + s + ", manual_axes=[\"x\"]\n";
  };
  expect_results(R"(HloModule m, num_partitions=8
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
body {
  p = f32[2] parameter(0)
  ROOT r = f32[2] all-reduce(p), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add
}
ENTRY e {
  x = f32[4] parameter(0)
)" + call("a", "x", "4", R"(["x"=2])") +
                     call("b", "x", "4", R"(["x"=2], device_ids=[1,0])") +
                     R"(  ROOT r = (f32[4], f32[4]) tuple(a, b)
}
)",
                 {floats({4}, {1, 2, 3, 4})},
                 {floats({4}, {4, 6, 4, 6}), floats({4}, {4, 6, 4, 6})});
}

TEST(Submeshes, OneDeviceMayBeNamedInAProgramOfOne) {
  expect_results(R"(sdy.mesh @on_0 = <[], device_ids=[0]>
func.func public @main(%arg0: tensor<2xf32> {sdy.sharding = #sdy.sharding<@on_0, []>}) -> (tensor<2xf32> {sdy.sharding = #sdy.sharding<@on_0, []>}) {
  %0 = stablehlo.negate %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@on_0, []>]>} : tensor<2xf32>
  return %0 : tensor<2xf32>
}
)",
                 {floats({2}, {1, 2})}, {floats({2}, {-1, -2})});
}

TEST(Submeshes, ResultsOfFunctionsArentLeftAsParts) {
  // What a function gives is unreduced, as it states of its argument or result.
  expect_results(R"(sdy.mesh @mesh = <["a"=2, "c"=2]>
func.func private @f(%x: tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}], unreduced={"c"}>}) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %arg0, %arg0 : tensor<2xf32>
  %1 = call @f(%0) : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
)",
                 {floats({2}, {1, 2})}, {floats({2}, {2, 4})});
  expect_results(R"(sdy.mesh @mesh = <["a"=2, "c"=2]>
func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = sdy.named_computation<"f">(%arg0) in_shardings=[<@mesh, [{?}], unreduced=max{"a"}>] (%arg1: tensor<2xf32>) {
    sdy.return %arg1 : tensor<2xf32>
  } : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
)",
                 {floats({2}, {-1, 2})}, {floats({2}, {-1, 2})});
}

TEST(Submeshes, PerDeviceCodeOnDevicesThatDontDivideIsRefused) {
  auto module = compiler::read_module(R"(sdy.mesh @all = <["x"=8]>
sdy.mesh @three = <["w"=3]>
func.func public @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@all, [{"x"}]>}, %arg1: tensor<3xf32>) -> (tensor<8xf32>, tensor<3xf32>) {
  %0 = sdy.manual_computation(%arg1) in_shardings=[<@three, [{"w"}]>] out_shardings=[<@three, [{"w"}]>] manual_axes={"w"} (%arg2: tensor<1xf32>) {
    sdy.return %arg2 : tensor<1xf32>
  } : (tensor<3xf32>) -> tensor<3xf32>
  return %arg0, %0 : tensor<8xf32>, tensor<3xf32>
}
)",
                                      "t.mlir", std::nullopt);
  try {
    compiler::compile(std::move(module), {});
    ADD_FAILURE() << "accepted";
  } catch (const NotImplementedError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("mesh @three of 3 devices in a program of 8"), std::string::npos) << text;
    EXPECT_NE(text.find("t.mlir:4"), std::string::npos) << text;
  }
}

// Sums of partial sums, maxima of maxima: nothing is sent but what isn't requested any more.
// What becomes partial values at the end of a function is made of whole ones there.
TEST(ManualComputations, ResultsOfTheProgramHaveTheirOwnShardings) {
  expect_results(R"(sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%arg0: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) {
  %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x", "y"}]>] out_shardings=[<@mesh, [{"x", "y"}]>] manual_axes={"x"} (%arg1: tensor<8xf32>) {
    %1 = func.call @twice(%arg1) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}]>]>} : (tensor<8xf32>) -> tensor<8xf32>
    sdy.return %1 : tensor<8xf32>
  } : (tensor<16xf32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}
func.func private @twice(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) attributes {sdy.func_manual_axes = #sdy<manual_axes{"x"}>} {
  %0 = stablehlo.add %arg0, %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}]>]>} : tensor<8xf32>
  return %0 : tensor<8xf32>
}
)",
                 {floats({16}, std::vector<float>(16, 3))},
                 {floats({16}, std::vector<float>(16, 6))});
  // All axes manual, and the body gives its parameter.
  expect_results(R"(sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%arg0: tensor<8xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) {
  %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x", "y"} (%arg1: tensor<4xf32>) {
    sdy.return %arg1 : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
)",
                 {floats({8}, {1, 2, 3, 4, 5, 6, 7, 8})}, {floats({8}, {1, 2, 3, 4, 5, 6, 7, 8})});
}

TEST(ManualComputations, TokensPassAndAreNothing) {
  expect_results(R"(sdy.mesh @mesh = <["x"=2]>
func.func public @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %t = stablehlo.create_token : !stablehlo.token
  %0:2 = sdy.manual_computation(%t, %arg0) in_shardings=[<@mesh, []>, <@mesh, [{"x"}]>] out_shardings=[<@mesh, []>, <@mesh, [{"x"}]>] manual_axes={"x"} (%arg1: !stablehlo.token, %arg2: tensor<4xf32>) {
    %1 = stablehlo.negate %arg2 : tensor<4xf32>
    sdy.return %arg1, %1 : !stablehlo.token, tensor<4xf32>
  } : (!stablehlo.token, tensor<8xf32>) -> (!stablehlo.token, tensor<8xf32>)
  return %0#1 : tensor<8xf32>
}
)",
                 {floats({8}, {1, 2, 3, 4, 5, 6, 7, 8})},
                 {floats({8}, {-1, -2, -3, -4, -5, -6, -7, -8})});
}

TEST(PartialValues, CallsPassThemOn) {
  const auto executable = compiler::compile(compiler::read_module(R"(sdy.mesh @mesh = <["x"=2]>
func.func public @main(%arg0: tensor<2x2xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %arg1: tensor<2x2xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<2x2xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x"}>}) {
  %0 = call @f(%arg0, %arg1) : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
  return %0 : tensor<2x2xi32>
}
func.func private @f(%arg0: tensor<2x2xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %arg1: tensor<2x2xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<2x2xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x"}>}) {
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
  return %0 : tensor<2x2xi32>
}
)",
                                                                  "t.mlir", std::nullopt),
                                            {});
  for (const auto& i : executable->partitioned().entry()->instructions()) {
    EXPECT_FALSE(ir::is_collective(i->opcode)) << i->describe();
  }
}

TEST(Gathers, RowsThatNoIndexNamesAreTheFirstOnes) {
  std::vector<float> values(32);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = float(i);
  expect_results(R"(sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%arg0: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %arg1: tensor<2xi32>) -> tensor<2x1xf32> {
  %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : (tensor<4x8xf32>, tensor<2xi32>) -> tensor<2x1xf32>
  return %0 : tensor<2x1xf32>
}
)",
                 {floats({4, 8}, values), numbers({2}, {5, 1})}, {floats({2, 1}, {5, 1})});
}

TEST(WholeArrays, TokensTakeNoArgument) {
  expect_results(
      R"(func.func public @main(%arg0: !stablehlo.token, %arg1: tensor<4xf32>) -> (!stablehlo.token, tensor<4xf32>) {
  %0 = stablehlo.negate %arg1 : tensor<4xf32>
  return %arg0, %0 : !stablehlo.token, tensor<4xf32>
}
)",
      {floats({4}, {1, 2, 3, 4})}, {floats({4}, {-1, -2, -3, -4})});
}

}  // namespace
}  // namespace tessera::testing
