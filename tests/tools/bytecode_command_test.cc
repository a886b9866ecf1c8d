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

TEST(Convert, WritesBytecode) {
  const std::string file =
      (source_dir() / "tests/fixtures/bytecode/per_device.1.17.0.mlirbc").string();
  const Ran bytes = run_tool({"convert", file, "--to", "bytecode"});
  ASSERT_EQ(bytes.code, 0) << bytes.err;
  EXPECT_EQ(bytes.out.substr(0, 4), "ML\xefR");
  const auto as_text = [](const std::string& module, const std::string& in) {
    return run_tool({"convert", module, "--to", "stablehlo"}, in).out;
  };
  EXPECT_EQ(as_text("-", bytes.out), as_text(file, ""));
  // Each of the commands takes it from standard input, too.
  for (const char* command : {"run", "partition", "explain", "opt", "convert"}) {
    const Ran ran = run_tool({command, "-"}, bytes.out);
    EXPECT_EQ(ran.code, 0) << command << ran.err;
    EXPECT_NE(ran.out, "") << command;
  }
  const Ran remat = run_tool({"transform", file, "remat", "--to", "bytecode"});
  EXPECT_EQ(remat.out.substr(0, 4), "ML\xefR") << remat.err;
}

TEST(Convert, NamesTheSectionThatIsDamaged) {
  const std::string file = (source_dir() / "tests/fixtures/bytecode/layer.1.17.0.mlirbc").string();
  const std::string bytes = run_tool({"convert", file, "--to", "bytecode"}).out;
  const Ran cut = run_tool({"convert", "-"}, bytes.substr(0, bytes.size() - 10));
  EXPECT_EQ(cut.code, 1);
  EXPECT_NE(cut.err.find("of <stdin>: the section of properties has"), std::string::npos)
      << cut.err;
}

}  // namespace
}  // namespace tessera::testing
