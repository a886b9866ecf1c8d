// SPDX-License-Identifier: Apache-2.0
// Exit codes, streams and flags that subcommands share; the smaller subcommands.
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "src/base/arrays/literal_util.h"
#include "src/base/files/npy.h"
#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

/// --tol and exit code 1; anything a user may get wrong in usage is 2.
TEST(Command, WrongUsageIsExitCode2) {
  const TemporaryFolder folder;
  const std::string module = folder / "add.hlo";
  write_file(module, kAddModule);
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
  write_file(module, kAddModule);
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
  write_file(folder / "add.hlo", kAddModule);
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

}  // namespace
}  // namespace tessera::testing
