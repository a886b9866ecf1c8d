// SPDX-License-Identifier: Apache-2.0
// tessera report and tessera network.
#include <gtest/gtest.h>
#include <tessera/network.h>

#include <algorithm>

#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

/// A chain of ops, one of which needs a handler that isn't there.
const char* const kProgram = R"(HloModule chain

ENTRY main {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  a = f32[8] add(x, y)
  b = f32[8] tanh(a)
  c = f32[8] exponential(b)
  d = f32[8] custom-call(c), custom_call_target="nobody_has_this"
  e = f32[8] multiply(d, d)
  f = f32[8] cosine(e)
  ROOT g = f32[8] subtract(f, x)
}
)";

TEST(Report, WithoutAProgramSaysWhatTheMachineIs) {
  const Ran ran = run_tool({"report", "-o", "-"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"// version: ", "// compiler: ", "// system: ", "glibc",
                           "// processor: ", "// memory: ", "// devices: ", "// set: TESSERA_"}) {
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
  }
}

TEST(Report, ReducesAProgramThatFails) {
  const TemporaryFolder folder;
  write_file(folder / "chain.hlo", kProgram);
  const Ran ran = run_tool({"report", folder / "chain.hlo", "-o", folder / "report.txt"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::string report = read_file(folder / "report.txt");
  EXPECT_NE(report.find("outcome: exit code 1"), std::string::npos) << report;
  EXPECT_NE(report.find("nobody_has_this"), std::string::npos) << report;
  EXPECT_NE(report.find("instructions: 9, reduced to 6"), std::string::npos) << report;
  for (const char* gone : {"tanh(", "exponential(", "multiply(", "cosine(", "subtract("}) {
    EXPECT_EQ(report.find(gone), std::string::npos) << gone << "\n" << report;
  }
  // The report is the program, and fails as the program did.
  const Ran again = run_tool({"run", folder / "report.txt"});
  EXPECT_EQ(again.code, 1);
  EXPECT_NE(again.err.find("nobody_has_this"), std::string::npos) << again.err;
}

TEST(Report, ReducesByACommand) {
  const TemporaryFolder folder;
  const std::string program = std::string(kProgram);
  write_file(folder / "chain.hlo", program);
  const Ran ran = run_tool({"report", folder / "chain.hlo", "-o", folder / "report.txt", "--if",
                            "grep -q 'exponential(' \"$1\""});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::string report = read_file(folder / "report.txt");
  EXPECT_NE(report.find("exponential("), std::string::npos) << report;
  for (const char* gone : {"tanh(", "multiply(", "cosine(", "subtract(", "custom-call("}) {
    EXPECT_EQ(report.find(gone), std::string::npos) << gone << "\n" << report;
  }
}

TEST(Report, SaysThatNothingFails) {
  const TemporaryFolder folder;
  write_file(folder / "fine.hlo",
             "HloModule fine\n\nENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n");
  const Ran ran = run_tool({"report", folder / "fine.hlo", "-o", "-"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(ran.err.find("shows no fault"), std::string::npos) << ran.err;
  EXPECT_NE(ran.out.find("not reduced"), std::string::npos) << ran.out;
  EXPECT_EQ(run_tool({"report", folder / "nothing.hlo"}).code, 1);
  EXPECT_EQ(run_tool({"report", "--timeout", "0"}).code, 2);
}

TEST(NetworkCommand, PrintsANetworkThatIsRead) {
  const Json found =
      run_tool({"network", "--mesh", "x=4,y=2", "--megabytes", "0.1", "--json"}).json();
  EXPECT_TRUE(found["pairs"].empty());
  const Network network = Network::parse(found["network"].get<std::string>());
  EXPECT_EQ(network.axes.size(), 2u);
  EXPECT_GT(network.link("x").bytes_per_second, 1e6);
  EXPECT_LT(network.link("y").latency_seconds, 1);
  EXPECT_GT(network.flops_per_second, 1e6);
  const Ran wrong = run_tool({"network", "--mesh", "x=3"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("--mesh is of 3 devices; there are 8"), std::string::npos) << wrong.err;
}

}  // namespace
}  // namespace tessera::testing
