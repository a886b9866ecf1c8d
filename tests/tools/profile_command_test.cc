// SPDX-License-Identifier: Apache-2.0
// tessera run --profile and --trace.
#include <gtest/gtest.h>

#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

const char* const kProgram = R"(HloModule dots, num_partitions=4

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[64,32] parameter(0), sharding={devices=[1,4]<=[4]}
  w = f32[32,16] parameter(1), sharding={devices=[4,1]<=[4]}
  d = f32[64,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={source_file="model.py" source_line=12}
  ROOT e = f32[64,16] tanh(d)
}
)";

TEST(RunProfile, PrintsOperationsAndLines) {
  const TemporaryFolder folder;
  write_file(folder / "dots.hlo", kProgram);
  const Ran text = run_tool({"run", folder / "dots.hlo", "--repeat", "3", "--profile"});
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* part : {"runs: ", "dot ", "model.py:12", "compilation: ", "build-plan",
                           "kernels, and why they were taken:", "dot/", "loop/"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  }
  const Json report = run_tool({"run", folder / "dots.hlo", "--profile", "--json"}).json();
  bool dot = false, exchange = false;
  for (const Json& row : report["profile"]) {
    if (row["op"] == "dot") {
      dot = true;
      EXPECT_EQ(row["location"], "model.py:12");
      EXPECT_EQ(row["calls"], 4);
      EXPECT_EQ(row["kernel"].get<std::string>().rfind("dot/", 0), 0u) << row.dump();
      EXPECT_NE(text.out.find(row["kernel"].get<std::string>() + " "), std::string::npos);
      EXPECT_NE(text.out.find(row["reason"].get<std::string>() + "\n"), std::string::npos);
      EXPECT_EQ(row["bytes"], 4 * 4 * (64 * 8 + 8 * 16 + 64 * 16));
    }
    exchange |= row["kind"] == "exchange" && row["bytes"] > 0;
  }
  EXPECT_TRUE(dot && exchange) << report.dump();
  EXPECT_FALSE(run_tool({"run", folder / "dots.hlo", "--json"}).json().contains("profile"));
}

TEST(RunProfile, WritesATrace) {
  const TemporaryFolder folder;
  write_file(folder / "dots.hlo", kProgram);
  EXPECT_EQ(run_tool({"run", folder / "dots.hlo", "--trace", folder / "trace.json"}).code, 0);
  const Json trace = Json::parse(read_file(folder / "trace.json"));
  int dots = 0;
  for (const Json& e : trace["traceEvents"]) dots += e["name"] == "dot" && e["pid"] == 2;
  EXPECT_EQ(dots, 4);
  const Ran refused = run_tool({"run", folder / "dots.hlo", "--trace", folder / "no/trace.json"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("no/trace.json"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace tessera::testing
