// SPDX-License-Identifier: Apache-2.0
// The command on StableHLO in bytecode.
#include <gtest/gtest.h>

#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

TEST(Convert, ReadsBytecode) {
  const std::filesystem::path folder = source_dir() / "tests/fixtures/bytecode";
  const std::string bytes = (folder / "layer.1.17.0.mlirbc").string();
  const Ran hlo = run_tool({"convert", bytes});
  ASSERT_EQ(hlo.code, 0) << hlo.err;
  EXPECT_EQ(hlo.out.substr(0, 9), "HloModule");
  EXPECT_NE(hlo.out.find("make_bytecode.py"), std::string::npos);
  const Ran text = run_tool({"convert", bytes, "--to", "stablehlo"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("stablehlo.dot_general"), std::string::npos);
  for (const char* command : {"run", "explain"}) {
    const Ran ran = run_tool({command, (folder / "sharded.1.17.0.mlirbc").string()});
    EXPECT_EQ(ran.code, 0) << command << ran.err;
  }
}

}  // namespace
}  // namespace tessera::testing
