// SPDX-License-Identifier: Apache-2.0
// Exit codes, streams and flags of the command.
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <cstdlib>

#include "src/base/arrays/literal_util.h"
#include "src/base/files/npy.h"
#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

std::string of_case(const std::string& name) { return (corpus_dir() / name).string(); }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

constexpr const char* kAdd = R"(HloModule add

ENTRY main {
  a = f32[8]{0} parameter(0)
  b = f32[8]{0} parameter(1)
  ROOT sum = f32[8]{0} add(a, b)
}
)";

/// --tol and exit code 1; anything a user may get wrong in usage is 2.
TEST(Command, WrongUsageIsExitCode2) {
  const TemporaryFolder folder;
  const std::string module = folder / "add.hlo";
  write_file(module, kAdd);
  const std::vector<std::vector<std::string>> all = {
      {},
      {"frobnicate"},
      {"run"},
      {"run", module, "--frobnicate"},
      {"run", module, "--repeat", "many"},
      {"run", module, "--repeat", "-1"},
      {"run", module, "--devices", "-3"},
      {"run", module, "--devices", "0"},
      {"check", folder.path().string(), "--devices", "0"},
      {"run", module, "--layouts", "fast"},
      {"partition", module, "--layouts", "fast"},
      {"explain", module, "--layouts", ""},
      {"check", folder.path().string(), "--layouts", "fast"},
      {"run", module, "--mesh", "data"},
      {"run", module, "--mesh", "data=two"},
      {"run", module, "--mesh", "data=0"},
      {"run", module, "--mesh", "data=2,data=2"},
      {"run", module, "--mesh", "data=2", "--devices", "4"},
      {"run", module, "--in-shardings", "P();P()"},
      {"run", module, "--mesh", "x=2", "--in-shardings", "P('x')"},
      {"run", module, "--mesh", "x=2", "--in-shardings", "P('x';P()"},
      {"check"},
      {"check", folder.path().string(), "--form", "protobuf"},
      {"convert", module, "--to", "onnx"},
      {"opt", module, "--passes", "frobnicate"},
      {"opt"},
      {"sharding"},
      {"sharding", "--mesh", "x", "--shape", "8"},
  };
  for (const auto& arguments : all) {
    const Ran ran = run_tool(arguments);
    std::string words;
    for (const std::string& a : arguments) words += " " + a;
    EXPECT_EQ(ran.code, 2) << words << "\n" << ran.err;
    EXPECT_EQ(ran.out, "") << words;
    EXPECT_TRUE(contains(ran.err, "--help")) << words << "\n" << ran.err;
  }
}

TEST(Command, UnknownSubcommandsAreNamed) {
  EXPECT_TRUE(contains(run_tool({"frobnicate"}).err, "no subcommand 'frobnicate'"));
}

TEST(Command, HelpAndVersionAreResults) {
  const Ran help = run_tool({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.err, "");
  for (const char* word :
       {"run", "partition", "explain", "opt", "convert", "check", "devices", "sharding"}) {
    EXPECT_TRUE(contains(help.out, word)) << word;
    EXPECT_EQ(run_tool({word, "--help"}).code, 0) << word;
  }
  EXPECT_TRUE(contains(run_tool({"--version"}).out, "tessera "));
}

TEST(Command, FailedWorkIsExitCode1AndNamesTheCause) {
  const TemporaryFolder folder;
  const std::string module = folder / "add.hlo";
  write_file(module, kAdd);
  auto fails = [&](const std::vector<std::string>& arguments, const std::string& message) {
    const Ran ran = run_tool(arguments);
    EXPECT_EQ(ran.code, 1) << message << "\n" << ran.err;
    EXPECT_EQ(ran.out, "") << message;
    EXPECT_TRUE(contains(ran.err, message)) << message << " is not in: " << ran.err;
  };
  for (const char* command : {"run", "partition", "convert"}) {
    fails({command, folder / "missing.mlir"}, "missing.mlir");
  }
  const std::string text = folder / "text";
  write_file(text, "once upon a time");
  fails({"run", text}, "neither 'HloModule' nor 'module'");
  write_file(text, "");
  fails({"partition", text}, "it is empty");
  write_file(text, std::string("ML\xefR\0\1", 6));
  fails({"run", text}, "cut off or damaged");
  write_file(text, "HloModule m\n\nENTRY main {\n  ROOT x = f32[2]{0} frobnicate()\n}\n");
  fails({"run", text}, ":4:");

  fails({"run", module, "--inputs", folder.path().string()}, "arg0.npy");
  write_npy(folder / "arg0.npy", Literal(Shape(DType::f32, {8})));
  write_npy(folder / "arg1.npy", Literal(Shape(DType::f32, {9})));
  fails({"run", module, "--inputs", folder.path().string()}, "f32[9], and f32[8] is needed");
  write_npy(folder / "arg1.npy", Literal(Shape(DType::f64, {8})));
  fails({"run", module, "--inputs", folder.path().string()}, "f64[8], and f32[8] is needed");
  write_file(folder / "arg1.npy", "\x93NUMPY");
  fails({"run", module, "--inputs", folder.path().string()}, "cut short");

  fails({"run", module, "--mesh", "x=3", "--in-shardings", "P('x');P()"}, "argument 0 (f32[8])");
  fails({"run", module, "--mesh", "x=2", "--in-shardings", "P('y');P()"}, "y");
  fails({"run", of_case("mlp_forward/s1.hlo"), "--devices", "4"}, "8 devices");
  fails({"check", folder / "nowhere"}, "nowhere");
  // Lines of the command's own sources say nothing to its user.
  const std::string lost = folder / "lost/file";
  fails({"run", module, "--trace", lost}, "tessera: can't write " + lost + ": No such file");
  fails({"partition", module, "-o", lost}, "tessera: can't write " + lost + ": No such file");
  fails({"run", lost}, "tessera: can't read " + lost + ": No such file");
  fails({"checkpoint", lost}, "tessera: there is no checkpoint in " + lost);
  fails({"check", folder.path().string()}, "no case");
}

TEST(Command, OutputThatCantBeWrittenIsAFailure) {
  const TemporaryFolder folder;
  write_file(folder / "add.hlo", kAdd);
  for (const std::string arguments :
       {"devices", "run add.hlo", "run add.hlo --json", "convert add.hlo", "explain add.hlo",
        "opt --list", "opt add.hlo --passes expand-scans",
        "sharding --mesh x=2 --shape 8 --spec 'P(\"x\")'"}) {
    const std::string line = "cd " + folder.path().string() + " && " + TESSERA_TOOL + " " +
                             arguments + " >/dev/full 2>err";
    const int status = std::system(line.c_str());
    EXPECT_EQ(WEXITSTATUS(status), 1) << arguments;
    EXPECT_TRUE(contains(read_file(folder / "err"), "can't write to standard output")) << arguments;
  }
}

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

TEST(Partition, ListsNoCollectiveThatALoopOfRowsDoesWithout) {
  const char* text = R"(HloModule rows, num_partitions=8
any { a = pred[] parameter(0)
  b = pred[] parameter(1)
  ROOT r = pred[] or(a, b) }
test { s = (s32[16]) parameter(0)
  x = s32[16] get-tuple-element(s), index=0
  zero = s32[] constant(0)
  zeros = s32[16] broadcast(zero), dimensions={}
  go = pred[16] compare(x, zeros), direction=GT
  no = pred[] constant(false)
  ROOT p = pred[] reduce(go, no), dimensions={0}, to_apply=any }
body { s = (s32[16]) parameter(0)
  x = s32[16] get-tuple-element(s), index=0
  zero = s32[] constant(0)
  zeros = s32[16] broadcast(zero), dimensions={}
  go = pred[16] compare(x, zeros), direction=GT
  one = s32[] constant(1)
  ones = s32[16] broadcast(one), dimensions={}
  less = s32[16] subtract(x, ones)
  next = s32[16] select(go, less, x)
  ROOT t = (s32[16]) tuple(next) }
ENTRY e { x = s32[16] parameter(0), sharding={devices=[8]<=[8]}
  s = (s32[16]) tuple(x)
  w = (s32[16]) while(s), condition=test, body=body
  ROOT r = s32[16] get-tuple-element(w), index=0, sharding={devices=[8]<=[8]} })";
  const TemporaryFolder folder;
  const Ran ran = run_tool({"partition", "-", "--json", "-o", folder / "out.hlo"}, text);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["bytes_received"], 0);
  EXPECT_TRUE(ran.json()["collectives"].empty()) << ran.out;
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
    const Ran ran = run_tool({"run", "-", "--seed", seed, "--output-dir", folder / where}, kAdd);
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

TEST(Partition, PrintsOneDevicesProgram) {
  const TemporaryFolder folder;
  const Ran ran = run_tool({"partition", of_case("rnn_scan/s0.hlo"), "--stats"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out.substr(0, 9), "HloModule");
  EXPECT_TRUE(contains(ran.out, "num_partitions=8"));
  EXPECT_TRUE(contains(ran.out, "known_trip_count"));
  EXPECT_TRUE(contains(ran.err, "flops"));
  // The text is a module again.
  const Ran again = run_tool({"opt", "-"}, ran.out);
  EXPECT_EQ(again.code, 0) << again.err;

  const std::string file = folder / "out.hlo";
  const Ran json = run_tool({"partition", of_case("mlp_forward/s1.hlo"), "-o", file, "--json"});
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(json.err, "");
  const Json stats = json.json();
  EXPECT_EQ(stats["devices"], 8);
  EXPECT_GT(stats["flops"].get<double>(), 0);
  EXPECT_GT(stats["peak_bytes_per_device"].get<double>(), 0);
  ASSERT_FALSE(stats["collectives"].empty());
  for (const Json& c : stats["collectives"]) {
    for (const char* key : {"kind", "bytes", "op", "location", "from", "to", "reason"}) {
      EXPECT_TRUE(c.contains(key)) << key;
    }
  }
  EXPECT_EQ(read_file(file).substr(0, 9), "HloModule");
}

TEST(Partition, ForAMeshThatIsNotThereOnADescribedNetwork) {
  const std::vector<std::string> what = {"partition", of_case("transformer_block/plain.hlo"),
                                         "--mesh", "data=64,model=32"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), what.begin(), what.end());
    return run_tool(more);
  };
  const Ran plain = with({"--stats"});
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_TRUE(contains(plain.out, "num_partitions=2048"));
  EXPECT_FALSE(contains(plain.err, "estimated")) << plain.err;

  const TemporaryFolder folder;
  write_file(folder / "net.txt", "data=50GB/s:2us  # slow, between boxes\n*=300GB/s\nflops=1T\n");
  const Ran ran = run_tool(
      {"partition", of_case("mlp_forward/s1.hlo"), "--network", folder / "net.txt", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json cost = ran.json()["cost"];
  EXPECT_EQ(cost["network"], "data=50GB/s:2us, *=300GB/s:1us, flops=1T, memory=1000GB/s");
  double sum = 0, bytes = 0;
  ASSERT_FALSE(cost["collectives"].empty());
  for (const Json& c : cost["collectives"]) {
    EXPECT_GT(c["seconds"].get<double>(), 0);
    EXPECT_FALSE(c["axes"].empty());
    sum += c["seconds"].get<double>() * c["times"].get<double>();
    bytes += c["bytes"].get<double>() * c["times"].get<double>();
  }
  EXPECT_NEAR(cost["collective_seconds"].get<double>(), sum, 1e-9 * sum);
  EXPECT_NEAR(ran.json()["bytes_received"].get<double>(), bytes, 1e-9 * bytes);
  EXPECT_NEAR(cost["step_seconds"].get<double>(), cost["compute_seconds"].get<double>() + sum,
              1e-9 * sum);
  EXPECT_LE(cost["overlapped_seconds"], cost["step_seconds"]);
  EXPECT_GE(cost["overlapped_seconds"], cost["collective_seconds"]);

  const Ran table =
      run_tool({"partition", of_case("mlp_forward/s1.hlo"), "--network", "*=300GB/s:1us"});
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_TRUE(contains(table.err, "estimated: ")) << table.err;
  EXPECT_TRUE(contains(table.err, "bytes received")) << table.err;

  const Ran wrong = with({"--network", "data=fast"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(contains(wrong.err, "network 'data=fast': expected a positive bandwidth"))
      << wrong.err;
  EXPECT_EQ(with({"--network", folder / "none.txt"}).code, 1);
}

TEST(Convert, GivesTheOtherFormAndBack) {
  for (const auto& [file, begin] :
       {std::pair("mlp_forward/s1.hlo", "module"), std::pair("mlp_forward/s1.mlir", "HloModule")}) {
    const Ran other = run_tool({"convert", of_case(file)});
    ASSERT_EQ(other.code, 0) << other.err;
    EXPECT_EQ(other.out.substr(0, std::string(begin).size()), begin);
    const std::vector<std::string> check = {
        "run",   "-", "--inputs", of_case("mlp_forward"), "--expect", of_case("mlp_forward"),
        "--json"};
    const Ran ran = run_tool(check, other.out);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.json()["devices"], 8);
    EXPECT_NE(ran.json()["form"], file == std::string("mlp_forward/s1.hlo") ? "hlo" : "stablehlo");
    const Ran back = run_tool({"convert", "-"}, other.out);
    ASSERT_EQ(back.code, 0) << back.err;
    EXPECT_EQ(run_tool(check, back.out).code, 0);
    // The form that it has already: printed anew.
    const Ran same =
        run_tool({"convert", "-", "--to", ran.json()["form"].get<std::string>()}, other.out);
    EXPECT_EQ(same.out.substr(0, std::string(begin).size()), begin) << same.err;
  }
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

TEST(Opt, RunsTheNamedPasses) {
  const std::string module =
      "HloModule m\n\nENTRY main {\n  x = f32[4]{0} parameter(0)\n"
      "  unused = f32[4]{0} multiply(x, x)\n  one = f32[4]{0} exponential(x)\n"
      "  two = f32[4]{0} exponential(x)\n  ROOT y = f32[4]{0} add(one, two)\n}\n";
  auto count = [](const std::string& text, const std::string& word) {
    int n = 0;
    for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  const Ran nothing = run_tool({"opt", "-"}, module);
  EXPECT_EQ(count(nothing.out, "exponential("), 2) << nothing.err;
  EXPECT_EQ(count(nothing.out, "multiply("), 1);
  const Ran both = run_tool({"opt", "-", "--passes", "eliminate-common,eliminate-dead"}, module);
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_EQ(count(both.out, "exponential("), 1) << both.out;
  EXPECT_EQ(count(both.out, "multiply("), 0);
  const Ran together =
      run_tool({"opt", "-", "--pipeline", "repeat<3>(eliminate-common?(eliminate-dead))"}, module);
  EXPECT_EQ(together.code, 0) << together.err;
  EXPECT_EQ(together.out, both.out);
  const Ran stages = run_tool({"opt", "--stages"});
  EXPECT_TRUE(contains(stages.out, "\npartition inline-calls: inline-calls; there are no calls"))
      << stages.out;
  EXPECT_TRUE(contains(stages.out, "\nsimplify simplify: cpu-simplify\n")) << stages.out;
  const Ran sharded =
      run_tool({"opt", of_case("mlp_forward/s1.hlo"), "--passes", "propagate,partition"});
  EXPECT_EQ(sharded.code, 0) << sharded.err;
  EXPECT_TRUE(contains(sharded.out, "num_partitions=8"));
  const Ran list = run_tool({"opt", "--list"});
  EXPECT_EQ(list.code, 0);
  for (const char* pass : {"propagate", "partition", "simplify<N>", "eliminate-dead",
                           "expand-collective-matmuls<N>", "cpu-simplify"}) {
    EXPECT_TRUE(contains(list.out, pass)) << pass;
  }
  EXPECT_TRUE(contains(list.out, "\nmove-collectives-out-of-loops  ")) << list.out;
  for (const char* pass : {"simplifi", "eliminate-dead<2>", "expand-collective-matmuls<many>",
                           "repeat(simplify)", "simplify?", "(simplify"}) {
    const Ran refused = run_tool({"opt", "-", "--passes", pass}, module);
    EXPECT_EQ(refused.code, 2) << pass;
    EXPECT_TRUE(contains(refused.err, "pass")) << refused.err;
  }
}

TEST(Check, ReportsErrors) {
  const TemporaryFolder folder;
  namespace fs = std::filesystem;
  fs::copy(corpus_dir() / "batched_matmul", folder.path() / "batched_matmul");
  fs::copy(corpus_dir() / "cond_switch", folder.path() / "cond_switch");
  const std::vector<std::string> command = {"check", folder.path().string(), "--form", "hlo"};
  const Ran right = run_tool(command);
  EXPECT_EQ(right.code, 0) << right.out << right.err;
  EXPECT_EQ(right.err, "");  // no progress line: this is no terminal
  EXPECT_TRUE(contains(right.out, "8 right, 0 wrong")) << right.out;
  Literal spoilt = read_npy(folder / "cond_switch/out0.npy");
  spoilt.mutable_data<float>()[0] += 1;
  write_npy(folder / "cond_switch/out0.npy", spoilt);
  auto json = command;
  json.push_back("--json");
  const Ran wrong = run_tool(json);
  EXPECT_EQ(wrong.code, 1);
  const Json report = wrong.json();
  EXPECT_EQ(report["right"], 4);
  EXPECT_EQ(report["wrong"], 4);
  for (const Json& row : report["rows"]) {
    EXPECT_EQ(row["ok"].get<bool>(), row["case"] == "batched_matmul");
    EXPECT_EQ(row["devices"].get<int>(), row["variant"] == "plain" ? 1 : 8);
    if (!row["ok"].get<bool>()) {
      EXPECT_TRUE(contains(row["what"].get<std::string>(), "out0 at [0,0]"));
    }
  }
  auto one = json;
  one.insert(one.end(), {"--only", "batched_matmul/s2", "--devices", "1"});
  const Json rows = run_tool(one).json()["rows"];
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["devices"], 1);
  EXPECT_EQ(rows[0]["ok"], true);
}

TEST(Command, LayoutsAreThoseRequested) {
  const std::string module = of_case("mlp_train_step") + "/s1.mlir";
  const Json usual = run_tool({"partition", module, "--json"}).json();
  EXPECT_EQ(usual["layouts"], "solved");
  const Json propagated =
      run_tool({"partition", module, "--json", "--layouts", "propagated"}).json();
  EXPECT_EQ(propagated["layouts"], "propagated");
  const Json solved = run_tool({"partition", module, "--json", "--layouts", "solved"}).json();
  EXPECT_EQ(solved, usual);
  const Json explained =
      run_tool({"explain", module, "--json", "--no-suggestions", "--layouts", "propagated"}).json();
  EXPECT_EQ(explained["layouts"], "propagated");
  EXPECT_EQ(explained["total_bytes"], propagated["bytes_received"]);
  EXPECT_TRUE(contains(run_tool({"partition", module, "--stats", "--layouts", "propagated"}).err,
                       "layouts: propagated"));
  EXPECT_EQ(run_tool({"run", module, "--json", "--layouts", "propagated"}).json()["layouts"],
            "propagated");
  const Ran bad = run_tool({"run", module, "--layouts", "fast"});
  for (const char* part : {"--layouts", "fast", "propagated", "solved"}) {
    EXPECT_TRUE(contains(bad.err, part)) << bad.err;
  }
  // Right in all variants, too.
  const Ran checked = run_tool({"check", corpus_dir().string(), "--only", "^(mlp|rnn|cond)",
                                "--form", "hlo", "--layouts", "propagated"});
  EXPECT_EQ(checked.code, 0) << checked.out;
  ::setenv("TESSERA_LAYOUTS", "propagated", 1);
  EXPECT_EQ(run_tool({"partition", module, "--json"}).json()["layouts"], "propagated");
  EXPECT_EQ(run_tool({"partition", module, "--json", "--layouts", "solved"}).json()["layouts"],
            "solved");
  ::setenv("TESSERA_LAYOUTS", "fast", 1);
  const Ran variable = run_tool({"run", module});
  EXPECT_EQ(variable.code, 1);
  EXPECT_TRUE(contains(variable.err, "TESSERA_LAYOUTS is 'fast'; valid: propagated, solved"))
      << variable.err;
  ::unsetenv("TESSERA_LAYOUTS");
}

TEST(Devices, AreListed) {
  const Ran lines = run_tool({"devices"});
  EXPECT_EQ(lines.code, 0);
  EXPECT_TRUE(contains(lines.out, "cpu:0\n"));
  const Json json = run_tool({"devices", "--json"}).json();
  ASSERT_FALSE(json["devices"].empty());
  EXPECT_EQ(json["devices"][0]["id"], 0);
  EXPECT_EQ(json["devices"][0]["platform"], "cpu");
}

TEST(ShardingCommand, ShowsAPlacement) {
  const Ran ran =
      run_tool({"sharding", "--mesh", "x=2,y=4", "--spec", "P('x', None)", "--shape", "8,16"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "devices=[2,1,4]<=[8] last_tile_dim_replicate")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "shard (4, 16)"));
}

}  // namespace
}  // namespace tessera::testing
