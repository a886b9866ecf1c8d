// SPDX-License-Identifier: Apache-2.0
// `tessera sharding`: what it shows, and errors for invalid flags.
#include <gtest/gtest.h>

#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

TEST(ShardingCommand, ShowsAPlacement) {
  const Ran ran =
      run_tool({"sharding", "--mesh", "x=2,y=4", "--spec", "P('x', None)", "--shape", "8,16"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "devices=[2,1,4]<=[8] last_tile_dim_replicate")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "shard (4, 16)"));
}

TEST(ShardingCommand, MeshesAreBounded) {
  for (const char* mesh : {"data=4294967296,b=4294967296", "data=1000000000",
                           "a=1048576,b=1048576,c=1048576,d=1048576", "a=1024,b=1024,c=2", "a=0"}) {
    const Ran ran = run_tool({"sharding", "--mesh", mesh, "--shape", "8"});
    EXPECT_EQ(ran.code, 2) << mesh << ran.err;
    EXPECT_TRUE(contains(ran.err, std::string("--mesh '") + mesh)) << ran.err;
  }
}

TEST(ShardingCommand, ErrorsAreAboutTheFlagsAndLeaveStdoutEmpty) {
  const struct {
    std::vector<std::string> flags;
    const char* says;
  } cases[] = {
      {{"--mesh", "x=2", "--spec", "P('y')", "--shape", "8"}, "'y'"},
      {{"--mesh", "x=2", "--spec", "P('x')", "--shape", "9"}, "size is 9"},
      {{"--mesh", "x=2", "--spec", "P('x','x')", "--shape", "8,8"}, "'x'"},
      {{"--mesh", "x=2", "--spec", "P(None,'x')", "--shape", "8"}, "rank"},
      {{"--mesh", "a\"b=2", "--spec", "P()", "--shape", "8"}, "name of a mesh axis"},
  };
  for (const auto& c : cases) {
    std::vector<std::string> arguments{"sharding"};
    arguments.insert(arguments.end(), c.flags.begin(), c.flags.end());
    const Ran ran = run_tool(arguments);
    EXPECT_NE(ran.code, 0);
    EXPECT_EQ(ran.out, "") << c.flags[3];
    EXPECT_TRUE(contains(ran.err, c.says)) << ran.err;
    EXPECT_FALSE(contains(ran.err, ".cc:")) << ran.err;
    EXPECT_EQ(ran.err.rfind("tessera: ", 0), 0u) << ran.err;
  }
}

TEST(ModuleFiles, MustBeFiles) {
  const TemporaryFolder folder;
  for (const char* command : {"partition", "run", "convert"}) {
    const Ran ran = run_tool({command, folder.path().string()});
    EXPECT_EQ(ran.code, 1) << command;
    EXPECT_TRUE(contains(ran.err, "is a folder, no file")) << ran.err;
  }
}

TEST(ShardingCommand, BadLinesAreNotBlamedOnTheTool) {
  const Ran ran = run_tool({"sharding", "--jsonl"},
                           R"({"mesh":{"x":2},"device_order":[0,1],"spec":["y"],"shape":[8]})");
  EXPECT_FALSE(contains(ran.out + ran.err, ".cc:")) << ran.out << ran.err;
  EXPECT_TRUE(contains(ran.out + ran.err, "'y'")) << ran.out << ran.err;
}

TEST(ShardingCommand, NumbersAreIntegersOf64Bits) {
  for (const char* line :
       {R"({"mesh":{"x":2},"device_order":[0,1],"spec":["x"],"shape":[922333601718427387903]})",
        R"({"mesh":{"x":2},"device_order":[0,9223372036854775808],"spec":["x"],"shape":[8]})",
        R"({"mesh":{"x":2.5},"device_order":[0,1],"spec":["x"],"shape":[8]})"}) {
    const Ran ran = run_tool({"sharding", "--jsonl"}, line);
    EXPECT_TRUE(contains(ran.out + ran.err, "must be integers of 64 bits")) << ran.out << ran.err;
  }
}

}  // namespace
}  // namespace tessera::testing
