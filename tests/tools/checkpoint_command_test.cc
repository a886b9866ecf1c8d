// SPDX-License-Identifier: Apache-2.0
// tessera checkpoint.
#include <tessera/checkpoint.h>

#include <gtest/gtest.h>
#include <tessera/ops.h>
#include <tessera/placement.h>

#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

TEST(CheckpointCommand, ShowsAndVerifies) {
  const TemporaryFolder folder;
  const std::string run = folder / "run";
  const Mesh mesh = make_mesh({{"x", 2}, {"y", 4}});
  const std::map<std::string, Array> tree{
      {"w", device_put(ones({8, 4}), NamedSharding(mesh, P("y")))}, {"b", ones({4}, bf16)}};
  save_checkpoint(run, tree, 3);
  save_checkpoint(run, tree, 5, {.metadata = {{"commit", "4f1d"}}});
  const Ran text = run_tool({"checkpoint", run});
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* part : {"steps: 3 5", "step: 5", "commit = 4f1d", "f32[8,4]", "['w']",
                           "PartitionSpec('y') on {\"x\":2,\"y\":4}", "bf16[4]"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  }
  const Json report = run_tool({"checkpoint", run, "--step", "3", "--verify", "--json"}).json();
  EXPECT_EQ(report["step"], 3);
  EXPECT_EQ(report["steps"], Json({3, 5}));
  EXPECT_EQ(report["arrays"].size(), 2u);
  EXPECT_TRUE(report["damages"].empty());

  const std::string file = run + "/step_00000005/arrays-0-0.safetensors";
  std::string bytes = read_file(file);
  bytes.back() ^= 1;
  write_file(file, bytes);
  EXPECT_EQ(run_tool({"checkpoint", run}).code, 0);
  const Ran damaged = run_tool({"checkpoint", run, "--verify"});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_NE(damaged.err.find(file + " is damaged within array"), std::string::npos) << damaged.err;

  const Ran none = run_tool({"checkpoint", folder / "none"});
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("no checkpoint in"), std::string::npos) << none.err;
  EXPECT_EQ(run_tool({"checkpoint", run, "--step", "-1"}).code, 2);
  EXPECT_EQ(run_tool({"checkpoint", run, "--step", "4"}).code, 1);
}

}  // namespace
}  // namespace tessera::testing
