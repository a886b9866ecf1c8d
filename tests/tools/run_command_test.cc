// SPDX-License-Identifier: Apache-2.0
// `tessera run`: what it reads, writes and reports.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <tuple>

#include "src/base/arrays/literal_util.h"
#include "src/base/files/npy.h"
#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

TEST(Run, WritesResultsAndReports) {
  const TemporaryFolder folder;
  const Ran ran = run_tool({"run", of_case("mlp_forward/s1.hlo"), "--inputs",
                            of_case("mlp_forward"), "--output-dir", folder / "new/out", "--expect",
                            of_case("mlp_forward"), "--repeat", "3", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  const Json report = ran.json();
  EXPECT_EQ(report["module"], "jit_mlp_forward");
  EXPECT_EQ(report["form"], "hlo");
  EXPECT_EQ(report["devices"], 8);
  EXPECT_GT(report["compile_ms"].get<double>(), 0);
  ASSERT_EQ(report["run_ms"].size(), 3u);
  for (const Json& ms : report["run_ms"]) EXPECT_GT(ms.get<double>(), 0);
  EXPECT_EQ(report["ok"], true);
  EXPECT_TRUE(report["evaluator_ops"].is_array());
  // Inputs and outputs, each byte stored once, fit between these bounds.
  const std::int64_t total = report["peak_bytes_total"].get<std::int64_t>();
  EXPECT_GE(total, 4 * (16 * 32 + 32 * 64 + 64 + 64 * 16 + 16));
  EXPECT_LT(total, 1 << 20);
  EXPECT_EQ(report["peak_bytes_per_device"].get<std::int64_t>(), total / 8);
  // Arguments are split along contracted dims, so something must be communicated.
  std::int64_t bytes = 0;
  for (const auto& [kind, entry] : report["collectives"].items()) {
    if (!entry.is_object()) continue;
    EXPECT_GT(entry["count"].get<std::int64_t>(), 0) << kind;
    bytes += entry["bytes"].get<std::int64_t>();
  }
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(report["collectives"]["total_bytes"].get<std::int64_t>(), bytes);
  ASSERT_EQ(report["outputs"].size(), 1u);
  EXPECT_EQ(report["outputs"][0]["type"], "f32[16,16]");
  const Literal got = read_npy(folder / "new/out/out0.npy");
  const Literal want = read_npy(of_case("mlp_forward/out0.npy"));
  ASSERT_EQ(got.shape(), want.shape());
  for (std::size_t i = 0; i < std::size_t(want.element_count()); ++i) {
    EXPECT_NEAR(got.data<float>()[i], want.data<float>()[i], 1e-3);
  }

  const std::vector<std::string> lines = {"run",      of_case("mlp_forward/plain.hlo"),
                                          "--inputs", of_case("mlp_forward"),
                                          "--expect", of_case("mlp_forward")};
  const Ran text = run_tool(lines);
  ASSERT_EQ(text.code, 0) << text.err;
  for (const char* key :
       {"compile_ms: ", "run_ms: ", "peak_bytes_per_device: ", "f32[16,16]  as expected"}) {
    EXPECT_TRUE(contains(text.out, key)) << key << "\n" << text.out;
  }
  auto strict = lines;
  strict.insert(strict.end(), {"--tol", "0"});
  const Ran wrong = run_tool(strict);
  EXPECT_EQ(wrong.code, 1);
  EXPECT_TRUE(contains(wrong.out, "WRONG at [")) << wrong.out;
}

TEST(Run, WrongResultsAreExitCode1) {
  const TemporaryFolder folder;
  Literal want = read_npy(of_case("mlp_forward/out0.npy"));
  want.mutable_data<float>()[17] += 0.5f;
  write_npy(folder / "out0.npy", want);
  const std::vector<std::string> base = {
      "run",      of_case("mlp_forward/plain.hlo"), "--inputs", of_case("mlp_forward"),
      "--expect", folder.path().string(),           "--json"};
  const Ran ran = run_tool(base);
  EXPECT_EQ(ran.code, 1);
  const Json report = ran.json();
  EXPECT_EQ(report["ok"], false);
  EXPECT_TRUE(contains(report["outputs"][0]["where"].get<std::string>(), "[1,1]: "));
  auto lenient = base;
  lenient.insert(lenient.end(), {"--tol", "1"});
  EXPECT_EQ(run_tool(lenient).code, 0);
  // A number where a NaN is expected is wrong whatever the tolerance.
  want.mutable_data<float>()[0] = std::nanf("");
  write_npy(folder / "out0.npy", want);
  EXPECT_EQ(run_tool(lenient).code, 1);
  write_npy(folder / "out0.npy", Literal(Shape(DType::f32, {16, 15})));
  const Ran shape = run_tool(base);
  EXPECT_EQ(shape.code, 1);
  EXPECT_TRUE(contains(shape.err, "f32[16,15]")) << shape.err;
}

TEST(Run, TakesMeshAndShardingsFromFlags) {
  for (const auto& [mesh, specs, devices] :
       {std::tuple("data=2,model=4", "P('data', None);P(None, 'model');P('model');P();P()", 8),
        std::tuple("x=4", "P(('x',));PartitionSpec();P();P(\"x\",None);P()", 4)}) {
    const Ran ran = run_tool({"run", of_case("mlp_forward/plain.hlo"), "--inputs",
                              of_case("mlp_forward"), "--expect", of_case("mlp_forward"), "--mesh",
                              mesh, "--in-shardings", specs, "--json"});
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.json()["devices"], devices);
    EXPECT_GT(ran.json()["collectives"]["total_bytes"].get<int>(), 0);
  }
  // The same flags over a module with shardings on another mesh.
  const Ran other =
      run_tool({"run", of_case("mlp_forward/s1.hlo"), "--inputs", of_case("mlp_forward"),
                "--expect", of_case("mlp_forward"), "--mesh", "a=2", "--json"});
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(other.json()["devices"], 2);
  EXPECT_EQ(other.json()["collectives"]["total_bytes"], 0);  // everything is everywhere
  const Ran one =
      run_tool({"run", of_case("mlp_forward/s1.hlo"), "--inputs", of_case("mlp_forward"),
                "--expect", of_case("mlp_forward"), "--devices", "1", "--json"});
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.json()["devices"], 1);
}

TEST(Run, CodePerDeviceNeedsItsMesh) {
  const char* text = R"(module @m attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%arg0: tensor<16x8xf32>) -> tensor<16x8xf32> {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%arg1: tensor<4x8xf32>) {
      %1 = stablehlo.add %arg1, %arg1 : tensor<4x8xf32>
      sdy.return %1 : tensor<4x8xf32>
    } : (tensor<16x8xf32>) -> tensor<16x8xf32>
    return %0 : tensor<16x8xf32>
  }
})";
  EXPECT_EQ(run_tool({"run", "-"}, text).code, 0);
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--devices", "1"}, {"--mesh", "x=1"}, {"--mesh", "x=2"}}) {
    std::vector<std::string> arguments = {"run", "-"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Ran ran = run_tool(arguments, text);
    EXPECT_EQ(ran.code, 1);
    EXPECT_TRUE(contains(ran.err, "f32[4,8]") && contains(ran.err, "f32[16,8]")) << ran.err;
    EXPECT_TRUE(contains(ran.err, ":4: ")) << ran.err;
  }
}

TEST(Run, FloatsOfOneByteAreReadAndCompared) {
  const char* text = R"(HloModule small
ENTRY e {
  x = f8e4m3fn[4] parameter(0)
  w = f32[4] convert(x)
  y = f32[4] add(w, w)
  ROOT z = f8e4m3fn[4] convert(y)
})";
  const TemporaryFolder folder;
  const Ran first = run_tool({"run", "-", "--output-dir", folder.path().string()}, text);
  ASSERT_EQ(first.code, 0) << first.err;
  const Ran again = run_tool({"run", "-", "--expect", folder.path().string()}, text);
  EXPECT_EQ(again.code, 0) << again.err;
  const Ran other = run_tool({"run", "-", "--seed", "7", "--expect", folder.path().string()}, text);
  EXPECT_EQ(other.code, 1);
  EXPECT_TRUE(contains(other.out + other.err, "is right")) << other.out << other.err;
}

TEST(Run, RandomInputsFollowTheSeed) {
  const TemporaryFolder folder;
  auto result = [&](const std::string& seed, const std::string& where) {
    const Ran ran =
        run_tool({"run", "-", "--seed", seed, "--output-dir", folder / where}, kAddModule);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return read_file(folder / where + "/out0.npy");
  };
  const std::string first = result("1", "a");
  EXPECT_EQ(first, result("1", "b"));
  EXPECT_NE(first, result("2", "c"));
}

TEST(Run, SmallTypesAreRawBytesInFiles) {
  const TemporaryFolder folder;
  Literal x = make_literal(DType::bf16, {4}, std::vector<float>{1, 2, -3, 0.5});
  write_npy(folder / "arg0.npy", x);
  const Ran ran = run_tool(
      {"run", "-", "--inputs", folder.path().string(), "--output-dir", folder.path().string()},
      "HloModule m\n\nENTRY main {\n  x = bf16[4]{0} parameter(0)\n"
      "  ROOT y = bf16[4]{0} add(x, x)\n}\n");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::string bytes = read_file(folder / "out0.npy");
  EXPECT_TRUE(contains(bytes, "'<V2'")) << bytes.substr(0, 60);
  EXPECT_EQ(to_vector<float>(read_npy(folder / "out0.npy", DType::bf16)),
            (std::vector<float>{2, 4, -6, 1}));
}

TEST(Run, ReadsAllThatJaxExports) {
  const std::filesystem::path folder = source_dir() / "examples/from_jax";
  for (const char* name : {"step.mlir", "step.hlo", "step_exported.mlir", "step_sharded.mlir"}) {
    const Ran ran = run_tool({"run", (folder / name).string(), "--json"});
    ASSERT_EQ(ran.code, 0) << name << ran.err;
    EXPECT_EQ(ran.json()["outputs"].size(), 3u) << name;
    EXPECT_EQ(ran.json()["devices"], name == std::string("step_sharded.mlir") ? 8 : 1);
  }
}

TEST(Run, TakesOpenSizesFromInputsAndFlags) {
  const TemporaryFolder folder;
  const std::string data = std::string(TESSERA_SOURCE_DIR) + "/tests/fixtures/open_sizes/";
  for (const char* file : {"arg0", "arg1", "out0", "out1", "out2"}) {
    const std::string name = std::string(file) + ".npy";
    std::filesystem::copy_file(data + "s1_" + name, folder / name);
  }
  for (const char* form : {"model.mlir", "model.mlirbc"}) {
    const Ran ran =
        run_tool({"run", data + form, "--inputs", folder / "", "--expect", folder / ""});
    EXPECT_EQ(ran.code, 0) << ran.err;
  }
  const std::string model = data + "model.mlir";
  const Ran ran = run_tool({"run", model, "--shapes", "5x2x4", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["outputs"][2]["type"], "s32[5]");
  EXPECT_EQ(run_tool({"compile", model, "--shapes", "5x2x4", "-o", folder / "m.tsx"}).code, 0);
  const Ran none = run_tool({"convert", model});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("argument 0 ('arg0') of jit_model is tensor<?x?x4xf32>"),
            std::string::npos)
      << none.err;
  const Ran wrong = run_tool({"convert", model, "--shapes", "5x2x3"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("'5x2x3' doesn't fit that"), std::string::npos) << wrong.err;
  EXPECT_EQ(run_tool({"convert", model, "--shapes", "5x-2x4"}).code, 2);
  EXPECT_EQ(run_tool({"convert", model, "--shapes", "5x2x4;;1"}).code, 2);
  const Ran closed =
      run_tool({"convert", model, "--shapes", "5x2x4", "-o", folder / "closed.mlir"});
  ASSERT_EQ(closed.code, 0) << closed.err;
  const Ran idle = run_tool({"convert", folder / "closed.mlir", "--shapes", "5x2x4"});
  EXPECT_EQ(idle.code, 2);
  EXPECT_NE(idle.err.find("are in its text already"), std::string::npos) << idle.err;
  // Sizes that the program itself refuses.
  const Ran refused = run_tool({"convert", model, "--shapes", "5x3x4"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("shape constraint"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace tessera::testing
