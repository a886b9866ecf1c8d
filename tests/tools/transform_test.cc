// SPDX-License-Identifier: Apache-2.0
// tessera transform: the programs of tests/corpus_transforms, and wrong steps.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;

fs::path transforms_dir() { return source_dir() / "tests/corpus_transforms"; }

/// "CASE/VARIANT"
std::vector<std::string> variants() {
  std::vector<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(transforms_dir())) {
    const fs::path file = entry.path();
    if (file.extension() != ".json" || file.stem() == "refused") continue;
    out.push_back(file.parent_path().filename().string() + "/" + file.stem().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

fs::path file_of(const std::string& program, const std::string& name) {
  if (name.starts_with("base/")) return corpus_dir() / program / name.substr(5);
  return transforms_dir() / program / name;
}

Json description(const std::string& variant) {
  return Json::parse(read_file((transforms_dir() / (variant + ".json")).string()));
}

/// The transformed program in m.mlir, its arguments and results as arg0.npy, out0.npy, ...
Ran transformed(const std::string& variant, const Json& d, const fs::path& folder) {
  const std::string program = variant.substr(0, variant.find('/'));
  for (const char* kind : {"arg", "out"}) {
    std::size_t n = 0;
    for (const Json& file : d[std::string(kind) + "s"]) {
      fs::create_symlink(file_of(program, file.get<std::string>()),
                         folder / (kind + std::to_string(n++) + ".npy"));
    }
  }
  std::vector<std::string> command{
      "transform", (corpus_dir() / d["base"].get<std::string>() / "plain.mlir").string()};
  for (const Json& step : d["steps"]) command.push_back(step.get<std::string>());
  command.insert(command.end(), {"-o", (folder / "m.mlir").string()});
  return run_tool(command);
}

class CorpusTransforms : public ::testing::TestWithParam<std::string> {};

TEST_P(CorpusTransforms, GiveWhatJaxGives) {
  const TemporaryFolder folder;
  const Json d = description(GetParam());
  const Ran made = transformed(GetParam(), d, folder.path());
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string here = folder.path().string();
  const Ran ran = run_tool(
      {"run", folder / "m.mlir", "--inputs", here, "--expect", here, "--tol", d["tol"].dump()});
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
}

INSTANTIATE_TEST_SUITE_P(Programs, CorpusTransforms, ::testing::ValuesIn(variants()), test_name);

std::vector<std::string> reverse_variants() {
  std::vector<std::string> out;
  for (const std::string& v : variants()) {
    if (v.ends_with("/vjp")) out.push_back(v);
  }
  return out;
}

class PartitionedTransforms : public ::testing::TestWithParam<std::string> {};

/// Of derivatives partitioned over eight devices: right, and about all of them with fewer bytes
/// than XLA receives for JAX's own.
TEST_P(PartitionedTransforms, GiveWhatOneDeviceGives) {
  const TemporaryFolder folder;
  const Json d = description(GetParam());
  ASSERT_EQ(transformed(GetParam(), d, folder.path()).code, 0);
  const std::string here = folder.path().string();
  for (const auto& [variant, sharded] : d["sharded"].items()) {
    std::string mesh, specs;
    for (const auto& [axis, size] : sharded["mesh"].items()) {
      mesh += (mesh.empty() ? "" : ",") + axis + "=" + size.dump();
    }
    for (const Json& spec : sharded["arg_specs"]) {
      std::string text = spec.get<std::string>();
      std::replace(text.begin(), text.end(), '\'', '"');
      specs += (specs.empty() ? "" : ";") + text;
    }
    const Ran ran = run_tool({"run", folder / "m.mlir", "--inputs", here, "--expect", here, "--tol",
                              d["tol"].dump(), "--mesh", mesh, "--in-shardings", specs, "--json"});
    ASSERT_EQ(ran.code, 0) << variant << ": " << ran.out << ran.err;
    const double ours = ran.json()["collectives"]["total_bytes"].get<double>();
    const double theirs = sharded["xla_collectives"]["total_bytes"].get<double>();
    // The worst there is, a few bytes against fewer.
    EXPECT_LE(ours, 1.7 * theirs + 1100) << variant;
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, PartitionedTransforms, ::testing::ValuesIn(reverse_variants()),
                         test_name);

std::string plain(const std::string& program) {
  return (corpus_dir() / program / "plain.mlir").string();
}

TEST(Transform, RefusesReverseModeThroughALoopOfUnknownLength) {
  const Ran ran = run_tool({"transform", plain("while_newton"), "vjp"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find("reverse mode through a loop needs to know how often it runs"),
            std::string::npos)
      << ran.err;
  EXPECT_NE(ran.err.find("plain.mlir:"), std::string::npos) << ran.err;
}

TEST(Transform, RefusesWrongSteps) {
  const auto error = [](const std::vector<std::string>& steps) {
    std::vector<std::string> command{"transform", plain("mlp_forward")};
    command.insert(command.end(), steps.begin(), steps.end());
    const Ran ran = run_tool(command);
    EXPECT_EQ(ran.code, 2) << ran.err;
    return ran.err;
  };
  EXPECT_NE(error({"hessian"}).find("'hessian' is no step; valid: jvp, vjp"), std::string::npos);
  EXPECT_NE(error({"vmap:0,1"}).find("2 axes for 5 arguments"), std::string::npos);
  EXPECT_NE(error({"vmap:9,-,-,-,-"}).find("axis 9 of argument 0"), std::string::npos);
  EXPECT_NE(error({"vmap:a,-,-,-,-"}).find("'a' is no axis"), std::string::npos);
  EXPECT_NE(error({"vmap:-,-,-,-,-"}).find("at least one argument"), std::string::npos);
  EXPECT_NE(error({"grad:"}).find("names no argument"), std::string::npos);
  EXPECT_NE(error({"vjp", "--batch-size", "3"}).find("without a step of vmap"), std::string::npos);
  EXPECT_NE(error({"vmap:0,-,-,-,-", "vjp"}).find("--batch-size"), std::string::npos);
}

TEST(Transform, LeavesTheSizeOfABatchOpen) {
  const TemporaryFolder folder;
  const std::string m = folder / "m.mlir";
  ASSERT_EQ(run_tool({"transform", plain("heat_roll"), "vmap:0", "-o", m}).code, 0);
  const Ran partitioned = run_tool({"partition", m});
  EXPECT_EQ(partitioned.code, 2);
  EXPECT_NE(partitioned.err.find("for a batch whose size is not known"), std::string::npos)
      << partitioned.err;
  ASSERT_EQ(
      run_tool({"transform", plain("heat_roll"), "vmap:0", "--batch-size", "5", "-o", m}).code, 0);
  const Json ran = run_tool({"run", m, "--json"}).json();
  EXPECT_EQ(ran["outputs"][0]["type"].get<std::string>().substr(0, 6), "f32[5,");
}

TEST(Transform, GivesGradientsOfTheFirstResult) {
  const std::string program = R"(HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[3] parameter(0)
  n = s32[] parameter(1)
  y = f32[3] multiply(x, x)
  z = f32[] constant(0)
  s = f32[] reduce(y, z), dimensions={0}, to_apply=add
  ROOT t = (f32[], f32[3]) tuple(s, y)
}
)";
  const Ran ran = run_tool({"transform", "-", "grad:0", "--to", "hlo"}, program);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("->(f32[3]{0})"), std::string::npos) << ran.out;
  const Ran wrong = run_tool({"transform", "-", "grad:1"}, program);
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.err.find("gradient with respect to argument 1, s32[]"), std::string::npos)
      << wrong.err;
  EXPECT_EQ(run_tool({"transform", "-", "remat", "vjp"}, program).code, 0);
}

}  // namespace
}  // namespace tessera::testing
