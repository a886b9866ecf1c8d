// SPDX-License-Identifier: Apache-2.0
// Programs compiled and run as clients do it.
#include <gtest/gtest.h>

#include "src/pjrt/abi/extensions.h"
#include "tests/pjrt/api_client.h"

namespace tessera::pjrt_tests {
namespace {

const char* const kAddOne = R"(module @add_one {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %c = stablehlo.constant dense<1.0> : tensor<4xf32>
    %y = stablehlo.add %x, %c : tensor<4xf32>
    return %y : tensor<4xf32>
  }
})";

std::string add_one_with(const std::string& attribute) {
  std::string text = kAddOne;
  const std::string type = "%x: tensor<4xf32>";
  return text.replace(text.find(type), type.size(), type + " {" + attribute + "}");
}

/// The sum goes over all devices, the other result is as its argument.
const char* const kSplit = R"(module @split {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%x: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
      -> (tensor<f32>, tensor<16xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<16xf32>, tensor<f32>) -> tensor<f32>
    %y = stablehlo.add %x, %x : tensor<16xf32>
    return %sum, %y : tensor<f32>, tensor<16xf32>
  }
})";

std::string fingerprint(const Loaded& loaded) {
  const Executable e = executable_of(loaded);
  auto args = make<PJRT_Executable_Fingerprint_Args>();
  args.executable = e.get();
  EXPECT_TRUE(answer(api().PJRT_Executable_Fingerprint(&args)).ok());
  return {args.executable_fingerprint, args.executable_fingerprint_size};
}

TEST(PjrtExecute, RunsAProgramOnOneDevice) {
  const Client client(2);
  const Loaded add = client.compile(kAddOne, options_for(1));
  const Buffer x = client.put({1, 2, 3, 4}, {4});
  std::vector<std::vector<Buffer>> out;
  const Answer a = run(add, {{x.get()}}, 1, &out);
  ASSERT_TRUE(a.ok()) << a.message;
  EXPECT_EQ(get(out[0][0]), (std::vector<float>{2, 3, 4, 5}));
  EXPECT_FALSE(is_deleted(x));
  EXPECT_EQ(get(x), (std::vector<float>{1, 2, 3, 4}));
}

/// As XLA's programs on CPUs do.
TEST(PjrtExecute, TakesSubnormalNumbersForZeros) {
  const Client client(1);
  const Loaded program = client.compile(R"(module @subnormal {
  func.func public @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %half = stablehlo.constant dense<0.5> : tensor<4xf32>
    %y = stablehlo.multiply %x, %half : tensor<4xf32>
    %s = stablehlo.sign %x : tensor<4xf32>
    %n = stablehlo.negate %x : tensor<4xf32>
    return %y, %s, %n : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
})",
                                        options_for(1));
  const Buffer x = client.put({1.2e-38F, -1e-40F, 3, -4}, {4});
  std::vector<std::vector<Buffer>> out;
  const Answer a = run(program, {{x.get()}}, 3, &out);
  ASSERT_TRUE(a.ok()) << a.message;
  EXPECT_EQ(get(out[0][0]), (std::vector<float>{0, 0, 1.5F, -2}));
  EXPECT_EQ(get(out[0][1]), (std::vector<float>{1, 0, 1, -1}));
  EXPECT_EQ(get(out[0][2]), (std::vector<float>{-1.2e-38F, 1e-40F, -3, 4}));
}

TEST(PjrtExecute, SaysWhatAProgramIs) {
  const Client client(2);
  const Loaded add = client.compile(kAddOne, "");
  const Executable e = executable_of(add);
  auto name = make<PJRT_Executable_Name_Args>();
  name.executable = e.get();
  ASSERT_TRUE(answer(api().PJRT_Executable_Name(&name)).ok());
  EXPECT_EQ(std::string(name.executable_name, name.executable_name_size), "add_one");
  auto types = make<PJRT_Executable_OutputElementTypes_Args>();
  types.executable = e.get();
  ASSERT_TRUE(answer(api().PJRT_Executable_OutputElementTypes(&types)).ok());
  ASSERT_EQ(types.num_output_types, 1U);
  EXPECT_EQ(types.output_types[0], std::uint32_t(PJRT_Buffer_Type_F32));
  auto dims = make<PJRT_Executable_OutputDimensions_Args>();
  dims.executable = e.get();
  ASSERT_TRUE(answer(api().PJRT_Executable_OutputDimensions(&dims)).ok());
  ASSERT_EQ(dims.num_outputs, 1U);
  ASSERT_EQ(dims.dim_sizes[0], 1U);
  EXPECT_EQ(dims.dims[0], 4);
  auto memory = make<PJRT_Executable_GetCompiledMemoryStats_Args>();
  memory.executable = e.get();
  ASSERT_TRUE(answer(api().PJRT_Executable_GetCompiledMemoryStats(&memory)).ok());
  EXPECT_EQ(memory.argument_size_in_bytes, 16);
  EXPECT_EQ(memory.output_size_in_bytes, 16);
  auto costs = make<PJRT_Executable_GetCostAnalysis_Args>();
  costs.executable = e.get();
  ASSERT_TRUE(answer(api().PJRT_Executable_GetCostAnalysis(&costs)).ok());
  ASSERT_GE(costs.num_properties, 1U);
  EXPECT_EQ(costs.properties[0].float_value, 4.0F);
}

TEST(PjrtExecute, FingerprintsDifferByProgramAndOptions) {
  const Client client(8);
  const std::string one = fingerprint(client.compile(kAddOne, ""));
  EXPECT_EQ(one, fingerprint(client.compile(kAddOne, "")));
  EXPECT_NE(one, fingerprint(client.compile(kSplit, options_for(8))));
  EXPECT_NE(one, fingerprint(client.compile(kAddOne, options_for(1))));
}

TEST(PjrtExecute, TheOptimizedProgramIsText) {
  const Client client(2);
  const Executable e = executable_of(client.compile(kAddOne, ""));
  auto program = make<PJRT_Program>();
  auto args = make<PJRT_Executable_OptimizedProgram_Args>();
  args.executable = e.get();
  args.program = &program;
  ASSERT_TRUE(answer(api().PJRT_Executable_OptimizedProgram(&args)).ok());
  std::string text(program.code_size, ' ');
  program.code = text.data();
  ASSERT_TRUE(answer(api().PJRT_Executable_OptimizedProgram(&args)).ok());
  EXPECT_EQ(std::string(program.format, program.format_size), "mlir");
  EXPECT_NE(text.find("stablehlo.add"), std::string::npos) << text;
  program.code_size = 3;
  EXPECT_EQ(answer(api().PJRT_Executable_OptimizedProgram(&args)).code,
            PJRT_Error_Code_INVALID_ARGUMENT);
}

TEST(PjrtExecute, PartitionsAProgramOfGlobalShapes) {
  const Client client(8);
  const Loaded split = client.compile(kSplit, options_for(8));
  ASSERT_TRUE(split);
  std::vector<Buffer> parts;
  std::vector<std::vector<PJRT_Buffer*>> arguments;
  for (std::size_t d = 0; d < 8; ++d) {
    parts.push_back(client.put({float(2 * d), float(2 * d + 1)}, {2}, d));
    arguments.push_back({parts.back().get()});
  }
  std::vector<std::vector<Buffer>> out;
  const Answer a = run(split, arguments, 2, &out);
  ASSERT_TRUE(a.ok()) << a.message;
  for (std::size_t d = 0; d < 8; ++d) {
    EXPECT_EQ(get(out[d][0]), (std::vector<float>{120}));
    EXPECT_EQ(get(out[d][1]), (std::vector<float>{float(4 * d), float(4 * d + 2)}));
    auto device = make<PJRT_Buffer_Device_Args>();
    device.buffer = out[d][1].get();
    ASSERT_TRUE(answer(api().PJRT_Buffer_Device(&device)).ok());
    EXPECT_EQ(device.device, client.devices()[d]);
  }
}

TEST(PjrtExecute, RunsReplicasOfAProgram) {
  const Client client(4);
  const Loaded sum = client.compile(R"(module @sum {
  func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
})",
                                    options_for(1, 4));
  ASSERT_TRUE(sum);
  std::vector<Buffer> parts;
  std::vector<std::vector<PJRT_Buffer*>> arguments;
  for (std::size_t r = 0; r < 4; ++r) {
    parts.push_back(client.put({float(r), float(10 * r)}, {2}, r));
    arguments.push_back({parts.back().get()});
  }
  std::vector<std::vector<Buffer>> out;
  const Answer a = run(sum, arguments, 1, &out);
  ASSERT_TRUE(a.ok()) << a.message;
  EXPECT_EQ(get(out[0][0]), (std::vector<float>{2, 20}));
  EXPECT_EQ(get(out[1][0]), (std::vector<float>{4, 40}));
  EXPECT_EQ(get(out[2][0]), (std::vector<float>{2, 20}));
  EXPECT_EQ(get(out[3][0]), (std::vector<float>{4, 40}));
}

TEST(PjrtExecute, ShardingsOfResultsAreOpShardings) {
  const Client client(8);
  const Executable e = executable_of(client.compile(kSplit, options_for(8)));
  const PJRT_Extension_Base* found = api().extension_start;
  while (found != nullptr && found->type != PJRT_Extension_Type_Shardings) found = found->next;
  ASSERT_NE(found, nullptr);
  const auto* shardings = reinterpret_cast<const PJRT_Shardings_Extension*>(found);
  auto args = make<PJRT_Shardings_PJRT_Executable_OutputShardings_Args>();
  args.executable = e.get();
  ASSERT_TRUE(answer(shardings->PJRT_Shardings_PJRT_Executable_OutputShardings(&args)).ok());
  ASSERT_EQ(args.num_outputs, 2U);
  const auto bytes = [&](std::size_t i) {
    return std::string(args.shardings[i], args.sharding_sizes[i]);
  };
  // Replicated is the default, of which nothing is written.
  EXPECT_EQ(bytes(0), "");
  // type: OTHER, tile_assignment_dimensions: 8, iota_reshape_dims: 8, iota_transpose_perm: 0
  EXPECT_EQ(bytes(1), (std::string{"\x08\x03\x1a\x01\x08\x4a\x01\x08\x52\x01\x00", 11}));
}

TEST(PjrtExecute, DonatedArgumentsAreDeleted) {
  const Client client(2);
  const Loaded given = client.compile(add_one_with("tf.aliasing_output = 0 : i32"), "");
  const Buffer x = client.put({1, 2, 3, 4}, {4});
  std::vector<std::vector<Buffer>> out;
  ASSERT_TRUE(run(given, {{x.get()}}, 1, &out).ok());
  EXPECT_TRUE(is_deleted(x));
  EXPECT_EQ(get(out[0][0]), (std::vector<float>{2, 3, 4, 5}));
  const Answer again = run(given, {{x.get()}}, 1, &out);
  EXPECT_EQ(again.code, PJRT_Error_Code_INVALID_ARGUMENT);
  EXPECT_NE(again.message.find("deleted or donated"), std::string::npos) << again.message;
  const Buffer kept = client.put({1, 2, 3, 4}, {4});
  ASSERT_TRUE(run(given, {{kept.get()}}, 1, &out, {0}).ok());
  EXPECT_FALSE(is_deleted(kept));
  EXPECT_EQ(get(kept), (std::vector<float>{1, 2, 3, 4}));
}

TEST(PjrtExecute, DonorsAreTakenWhereAResultFits) {
  const Client client(2);
  const Loaded fits = client.compile(add_one_with("jax.buffer_donor = true"), "");
  const Buffer x = client.put({1, 2, 3, 4}, {4});
  std::vector<std::vector<Buffer>> out;
  ASSERT_TRUE(run(fits, {{x.get()}}, 1, &out).ok());
  EXPECT_TRUE(is_deleted(x));
  const Loaded other = client.compile(R"(module {
    func.func public @main(%x: tensor<4xf32> {jax.buffer_donor = true}) -> tensor<2xf32> {
      %y = stablehlo.slice %x [0:2] : (tensor<4xf32>) -> tensor<2xf32>
      return %y : tensor<2xf32>
    }
  })",
                                      "");
  const Buffer y = client.put({1, 2, 3, 4}, {4});
  ASSERT_TRUE(run(other, {{y.get()}}, 1, &out).ok());
  EXPECT_FALSE(is_deleted(y));
  EXPECT_EQ(get(out[0][0]), (std::vector<float>{1, 2}));
}

TEST(PjrtExecute, AFailedCallTakesNoArguments) {
  const Client client(2);
  const Loaded two = client.compile(R"(module {
    func.func public @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<4xf32>)
        -> tensor<4xf32> {
      %z = stablehlo.add %x, %y : tensor<4xf32>
      return %z : tensor<4xf32>
    }
  })",
                                    "");
  const Buffer x = client.put({1, 2, 3, 4}, {4});
  const Buffer short_one = client.put({1, 2}, {2});
  std::vector<std::vector<Buffer>> out;
  const Answer a = run(two, {{x.get(), short_one.get()}}, 1, &out);
  EXPECT_EQ(a.code, PJRT_Error_Code_INVALID_ARGUMENT);
  EXPECT_NE(a.message.find("argument 1"), std::string::npos) << a.message;
  EXPECT_FALSE(is_deleted(x));
}

TEST(PjrtExecute, RefusesCallsThatDontFit) {
  const Client client(2);
  const Loaded add = client.compile(kAddOne, "");
  const Buffer x = client.put({1, 2, 3, 4}, {4});
  std::vector<std::vector<Buffer>> out;
  EXPECT_EQ(run(add, {{x.get(), x.get()}}, 1, &out).code, PJRT_Error_Code_INVALID_ARGUMENT);
  EXPECT_EQ(run(add, {{x.get()}, {x.get()}}, 1, &out).code, PJRT_Error_Code_INVALID_ARGUMENT);
  EXPECT_EQ(run(add, {{nullptr}}, 1, &out).code, PJRT_Error_Code_INVALID_ARGUMENT);
  auto gone = make<PJRT_LoadedExecutable_Delete_Args>();
  gone.executable = add.get();
  ASSERT_TRUE(answer(api().PJRT_LoadedExecutable_Delete(&gone)).ok());
  EXPECT_EQ(run(add, {{x.get()}}, 1, &out).code, PJRT_Error_Code_FAILED_PRECONDITION);
}

TEST(PjrtCompile, RefusesWhatIsNoProgram) {
  const Client client(2);
  Answer a;
  EXPECT_FALSE(client.compile("no module", "", &a));
  EXPECT_EQ(a.code, PJRT_Error_Code_INVALID_ARGUMENT) << a.message;
  EXPECT_FALSE(client.compile(std::string("ML\xefR\x0d garbage"), "", &a));
  EXPECT_EQ(a.code, PJRT_Error_Code_INVALID_ARGUMENT) << a.message;
  EXPECT_FALSE(client.compile(kAddOne, "", &a, "hlo_with_config"));
  EXPECT_EQ(a.code, PJRT_Error_Code_UNIMPLEMENTED);
  EXPECT_NE(a.message.find("hlo_with_config"), std::string::npos) << a.message;
}

TEST(PjrtCompile, RefusesOptionsThatMakeNoSense) {
  const Client client(2);
  Answer a;
  EXPECT_FALSE(client.compile(kSplit, options_for(8), &a));
  EXPECT_EQ(a.code, PJRT_Error_Code_INVALID_ARGUMENT) << a.message;
  EXPECT_FALSE(client.compile(kAddOne, options_for(1, 4), &a));
  EXPECT_EQ(a.code, PJRT_Error_Code_INVALID_ARGUMENT) << a.message;
  EXPECT_FALSE(client.compile(kAddOne, "\xff\xff\xff", &a));
  EXPECT_EQ(a.code, PJRT_Error_Code_INVALID_ARGUMENT) << a.message;
  const std::string whole = options_for(1);
  for (std::size_t n = 1; n < whole.size(); ++n) {
    client.compile(kAddOne, whole.substr(0, n), &a);
    EXPECT_EQ(a.code, PJRT_Error_Code_INVALID_ARGUMENT) << n;
  }
}

TEST(PjrtCompile, OptionsThatArentKnownAreSkipped) {
  const Client client(2);
  // Field 100: text; field 101: a fixed64; field 102: a number.
  const std::string unknown(
      "\xa2\x06\x02hi\xa9\x06"
      "12345678\xb0\x06\x05",
      16);
  EXPECT_TRUE(client.compile(kAddOne, unknown + options_for(1)));
}

TEST(PjrtCompile, WhatIsSerializedLoads) {
  const Client client(8);
  const Loaded add = client.compile(kAddOne, options_for(1));
  const std::string bytes = serialized(add);
  Answer a;
  const Loaded loaded = client.load(bytes, &a);
  ASSERT_TRUE(a.ok()) << a.message;
  EXPECT_EQ(fingerprint(loaded), fingerprint(add));
  const Buffer x = client.put({1, 2, 3, 4}, {4});
  std::vector<std::vector<Buffer>> out;
  ASSERT_TRUE(run(loaded, {{x.get()}}, 1, &out).ok());
  EXPECT_EQ(get(out[0][0]), (std::vector<float>{2, 3, 4, 5}));
}

TEST(PjrtCompile, DamagedProgramsAreRefused) {
  const Client client(2);
  const std::string bytes = serialized(client.compile(kAddOne, options_for(1)));
  Answer a;
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    std::string damaged = bytes;
    damaged[n] = char(damaged[n] ^ 0x10);
    EXPECT_FALSE(client.load(damaged, &a)) << n;
    EXPECT_FALSE(client.load(bytes.substr(0, n), &a)) << n;
  }
  EXPECT_FALSE(client.load(bytes + "x", &a));
}

TEST(PjrtApi, AllFunctionsAreThere) {
#define FUNCTION(name) EXPECT_NE(api().PJRT_##name, nullptr) << #name;
#define OPAQUE_FUNCTION(name) EXPECT_NE(api().PJRT_##name, nullptr) << #name;
#include "src/pjrt/abi/functions.inc"
#undef FUNCTION
#undef OPAQUE_FUNCTION
}

}  // namespace
}  // namespace tessera::pjrt_tests
