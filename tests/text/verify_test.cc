// SPDX-License-Identifier: Apache-2.0
// Programs that the StableHLO specification forbids are errors with the rule in words.
#include "src/ir/hlo/hlo_text.h"
#include "src/text/read/stablehlo.h"
#include "src/text/write/stablehlo.h"
#include "tests/text/programs.h"

namespace tessera::text {
namespace {

struct Forbidden {
  const char* signature;
  const char* body;
  const char* message;
};

std::string message_of(const Forbidden& f) {
  const std::string text =
      "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\nreturn %x : "
      "tensor<4xf32>\n}\nfunc.func @main(" +
      std::string(f.signature) + ") {\n" + f.body + "\nreturn\n}\n";
  return error_of(text);
}

void expect_forbidden(std::initializer_list<Forbidden> all) {
  for (const Forbidden& f : all) {
    const std::string error = message_of(f);
    EXPECT_NE(error.find(f.message), std::string::npos) << error << "\nlacks " << f.message;
    EXPECT_NE(error.find("t.mlir:"), std::string::npos) << error;
    EXPECT_EQ(error.find("internal"), std::string::npos) << error;
  }
}

TEST(Verify, OperationsBetweenDevices) {
  expect_forbidden({
      {"%a: tensor<4xf32>",
       "%0 = \"stablehlo.custom_call\"(%a) <{call_target_name = \"Pin\", api_version = 4 : i32}> : "
       "(tensor<4xf32>) -> tensor<4xf32>",
       "calls Pin, which is about a memref, on tensors alone"},
      {"%a: tuple<tensor<4xf32>>",
       "%0 = \"stablehlo.custom_call\"(%a) <{call_target_name = \"f\", operand_layouts = "
       "[dense<[0]> : tensor<1xindex>], result_layouts = [dense<[0]> : tensor<1xindex>]}> : "
       "(tuple<tensor<4xf32>>) -> tensor<4xf32>",
       "has a layout for tuple<tensor<4xf32>>; valid: layouts of arrays and tokens"},
      {"%a: tensor<4xf32>",
       "%0 = stablehlo.custom_call \"f\"(%a) : (tensor<4xf32>) -> tensor<4xf32>",
       "expected '@' before the name of a function"},
      {"%a: tensor<4xf32>",
       "%0 = stablehlo.concatenate %a, %a dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> "
       "tensor<8xf32>",
       "expected ',' behind the operands"},
      {"%a: tensor<4x2xf32>",
       "%0 = \"stablehlo.all_gather\"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<> : "
       "tensor<0x0xi64>}> : (tensor<4x2xf32>) -> tensor<4x2xf32>",
       "has no replica_groups; valid: one group or more"},
      {"%a: tensor<4x2xf32>",
       "%0 = \"stablehlo.all_gather\"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, "
       "2]]> : tensor<1x2xi64>}> : (tensor<4x2xf32>) -> tensor<8x2xf32>",
       "without device 1; valid: each device from 0"},
      {"%a: tensor<4x2xf32>",
       "%0 = \"stablehlo.all_gather\"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, "
       "1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4x2xf32>) -> tensor<8x2xf32>",
       "use_global_device_ids and no channel"},
      {"%a: tensor<4x6xf32>",
       "%0 = \"stablehlo.all_to_all\"(%a) <{split_dimension = 1 : i64, concat_dimension = 0 : i64, "
       "split_count = 3 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : "
       "(tensor<4x6xf32>) -> tensor<12x2xf32>",
       "a group of 2 devices; valid: 3"},
      {"%a: tensor<4xf32>, %t: !stablehlo.token",
       "%0 = \"stablehlo.send\"(%a, %t) <{channel_handle = #stablehlo.channel_handle<handle = 3, "
       "type = 2>}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token",
       "valid: type 1 (device to device)"},
      {"%t: !stablehlo.token",
       "%0:2 = \"stablehlo.recv\"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 3, "
       "type = 1>}> : (!stablehlo.token) -> (!stablehlo.token, !stablehlo.token)",
       "gives a token as result 0"},
      {"%t: !stablehlo.token",
       "%0:2 = \"stablehlo.infeed\"(%t) <{layout = [[0], [0]]}> : (!stablehlo.token) -> "
       "(tensor<3xf32>, !stablehlo.token)",
       "has 2 layouts; valid: 1"},
      {"%a: tensor<4xf32>",
       "%0 = \"stablehlo.async_start\"(%a) ({\n^bb0(%b: tensor<4xf32>):\n%1 = stablehlo.negate %b "
       ": tensor<4xf32>\nstablehlo.return %1 : tensor<4xf32>\n}) : (tensor<4xf32>) -> "
       "!stablehlo.future<tensor<4xf32>>",
       "has a region with stablehlo.negate"},
  });
}

TEST(Verify, OperationsOnArrays) {
  expect_forbidden({
      {"%a: tensor<3xi32>",
       "%0 = stablehlo.broadcast %a, sizes = [2] : (tensor<3xi32>) -> tensor<1x3xi32>",
       "gives tensor<2x3xi32>, not tensor<1x3xi32>"},
      {"%a: tensor<6xf32>",
       "%s = stablehlo.constant dense<[3, 3]> : tensor<2xi32>\n%0 = stablehlo.dynamic_reshape %a, "
       "%s : (tensor<6xf32>, tensor<2xi32>) -> tensor<2x3xf32>",
       "is given the shape [3, 3]"},
      {"%a: tensor<f32>, %s: tensor<3xi64>",
       "%0 = stablehlo.rng %a, %a, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, "
       "tensor<3xi64>) -> tensor<2x3xf32>",
       "valid: 2 integers, one for each dim of tensor<2x3xf32>"},
      {"%a: tensor<2x2xf32>",
       "%0 = stablehlo.dot %a, %a, precision = [DEFAULT, DEFAULT, HIGH] : (tensor<2x2xf32>, "
       "tensor<2x2xf32>) -> tensor<2x2xf32>",
       "has 3 precisions"},
      {"%a: tensor<1x8x8x3xi64>, %k: tensor<3x3x3x4xi32>",
       "%0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
       "window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
       "(tensor<1x8x8x3xi64>, tensor<3x3x3x4xi32>) -> tensor<1x6x6x4xi64>",
       "valid: operands of one element type"},
      {"%a: tensor<1x8x8x3xf32>, %k: tensor<3x3x3x4xf32>",
       "%0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
       "window = {stride = [1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
       "(tensor<1x8x8x3xf32>, tensor<3x3x3x4xf32>) -> tensor<1x6x6x4xf32>",
       "has 1 values of window_strides for 2 dims"},
      {"%a: tensor<4xf32>",
       "%0 = \"stablehlo.exponential\"(%a) <{result_accuracy = #stablehlo.result_accuracy<atol = "
       "0.5, rtol = 0.0, ulps = 0, mode = #stablehlo.result_accuracy_mode<HIGHEST>>}> : "
       "(tensor<4xf32>) -> tensor<4xf32>",
       "mode HIGHEST with atol other than 0"},
  });
}

TEST(Verify, CallsOutOfAProgram) {
  expect_forbidden({
      {"%a: tensor<4xf32>",
       "%0 = \"stablehlo.custom_call\"(%a) <{call_target_name = \"f\", operand_layouts = "
       "[dense<0> : tensor<1xindex>]}> : (tensor<4xf32>) -> tensor<4xf32>",
       "valid: layouts of both operands and results"},
      {"%a: tensor<4xf32>",
       "%0 = \"stablehlo.custom_call\"(%a) <{call_target_name = \"f\", api_version = 4 : i32, "
       "backend_config = \"x\"}> : (tensor<4xf32>) -> tensor<4xf32>",
       "valid: a dictionary"},
      {"%a: tensor<4xf32>",
       "%0 = stablehlo.composite \"f\" %a {decomposition = @f} : (tensor<4xf32>) -> tensor<4xf32>",
       "has the name 'f'; valid: a namespace and a name"},
  });
}

TEST(Verify, WhatIsWrittenOfAllDevicesIsLegal) {
  for (const char* operation :
       {"f32[8] all-gather(p), replica_groups={}, dimensions={0}",
        "f32[16] all-gather(p), channel_id=1, use_global_device_ids=true, replica_groups={}, "
        "dimensions={0}"}) {
    const auto module = ir::parse_hlo(
        std::string("HloModule m, num_partitions=2, replica_count=2\nENTRY e {\n  p = f32[4] "
                    "parameter(0)\n  ROOT r = ") +
        operation + "\n}\n");
    const std::string text = to_stablehlo(*module, {});
    EXPECT_NO_THROW(parse_stablehlo(text, "t.mlir")) << text;
  }
}

TEST(Verify, QuantizedTypes) {
  expect_forbidden({
      {"%a: tensor<2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>",
       "%0 = stablehlo.negate %a : tensor<2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>",
       "valid: plain numbers or a quantized type of one scale"},
      {"%a: tensor<2x!quant.uniform<si8:f32, 0.5>>", "", "integers stored as si8"},
      {"%a: tensor<2x!quant.uniform<i8:f32, 0.5>>",
       "%0 = stablehlo.add %a, %a : (tensor<2x!quant.uniform<i8:f32, 0.5>>, "
       "tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x!quant.uniform<i16:f32, 0.5>>",
       "valid: equal storage and expressed types"},
      {"%a: tensor<2x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>",
       "%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x2x!quant.uniform<i8:f32:1, {0.5, "
       "0.25}>>) -> tensor<2x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>",
       "along the dim that its dim becomes"},
      {"%a: tensor<2x2x!quant.uniform<i8:f32, 0.5>>, %b: tensor<2x2x!quant.uniform<i8:f32, 0.5:1>>",
       "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : "
       "(tensor<2x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x2x!quant.uniform<i8:f32, 0.5:1>>) -> "
       "tensor<2x2x!quant.uniform<i32:f32, 0.5>>",
       "has a zero point in operand 1"},
  });
}

}  // namespace
}  // namespace tessera::text
