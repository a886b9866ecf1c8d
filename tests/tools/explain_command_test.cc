// SPDX-License-Identifier: Apache-2.0
// `tessera explain`: text, JSON and page, as a user requests them.
#include <gtest/gtest.h>

#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

TEST(ExplainCommand, PrintsTextToStdout) {
  const Ran ran = run_tool({"explain", of_case("mlp_forward/s1.mlir")});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  for (const char* part : {"jit_mlp_forward on 8 devices", "all-gather", "s1.mlir:4", "argument 1",
                           "it is sharded so because:", "to avoid it:"}) {
    EXPECT_TRUE(contains(ran.out, part)) << part << " is not in:\n" << ran.out;
  }
  const Ran quick = run_tool({"explain", "--no-suggestions", of_case("mlp_forward/s1.mlir")});
  EXPECT_EQ(quick.code, 0) << quick.err;
  EXPECT_FALSE(contains(quick.out, "to avoid it:"));
}

TEST(ExplainCommand, JsonAgreesWithPartition) {
  const Ran ran = run_tool({"explain", "--json", of_case("mlp_train_step/s1.mlir")});
  EXPECT_EQ(ran.code, 0) << ran.err;
  const Json report = ran.json();
  const Json stats = run_tool({"partition", "--json", of_case("mlp_train_step/s1.mlir")}).json();
  EXPECT_NEAR(report["total_bytes"].get<double>(), stats["bytes_received"].get<double>(), 1e-6);
  EXPECT_FALSE(report["entries"].empty());
  for (const Json& e : report["entries"]) {
    // The text says the lines of operations, not those of arguments.
    const bool argument = e["op"].get<std::string>().rfind("argument ", 0) == 0;
    EXPECT_TRUE(argument || !e["location"].get<std::string>().empty()) << e.dump();
    EXPECT_FALSE(e["collectives"].empty()) << e.dump();
  }
}

TEST(ExplainCommand, WritesAPage) {
  const TemporaryFolder folder;
  const std::string module = of_case("mlp_forward/s1.mlir"), page = folder / "page.html";
  const Ran both = run_tool({"explain", module, "--html", page});
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_TRUE(contains(both.out, "jit_mlp_forward"));
  EXPECT_TRUE(contains(read_file(page), "<!DOCTYPE html>"));
  const Ran to_stdout = run_tool({"explain", module, "--html", "-"});
  EXPECT_EQ(to_stdout.code, 0) << to_stdout.err;
  EXPECT_EQ(to_stdout.out, read_file(page));
}

TEST(ExplainCommand, TakesAnotherMesh) {
  const Ran ran = run_tool({"explain", of_case("mlp_forward/plain.mlir"), "--mesh", "x=4",
                            "--in-shardings", "P('x');P();P();P();P()"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "on 4 devices (x=4)")) << ran.out;
}

TEST(ExplainCommand, RefusesInvalidFlags) {
  const std::string module = of_case("mlp_forward/s1.mlir");
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"explain"},
                                                    {"explain", module, "--trials", "0"},
                                                    {"explain", module, "--json", "--html", "-"},
                                                    {"explain", module, "--html", "-", "--json"},
                                                    {"explain", module, "--frobnicate"}}) {
    const Ran ran = run_tool(arguments);
    EXPECT_EQ(ran.code, 2) << arguments.back() << ran.err;
    EXPECT_EQ(ran.out, "");
  }
  const Ran missing = run_tool({"explain", "/nowhere/module.mlir"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_TRUE(contains(missing.err, "/nowhere/module.mlir"));
  EXPECT_EQ(run_tool({"explain", module, "--html", "/nowhere/page.html"}).code, 1);
}

}  // namespace
}  // namespace tessera::testing
