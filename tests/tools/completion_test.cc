// SPDX-License-Identifier: Apache-2.0
// The scripts of `tessera completion`, as shells use them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

/// What bash offers for the last of the words.
std::vector<std::string> offered(const TemporaryFolder& folder, const std::string& words,
                                 int number) {
  write_file(folder / "ask.sh", "source '" + (folder / "tessera.bash") + "'\nCOMP_WORDS=(" + words +
                                    ")\nCOMP_CWORD=" + std::to_string(number) +
                                    "\n_tessera\nprintf '%s\\n' \"${COMPREPLY[@]}\" > '" +
                                    (folder / "out") + "'\n");
  EXPECT_EQ(std::system(("bash '" + (folder / "ask.sh") + "'").c_str()), 0);
  std::istringstream lines(read_file(folder / "out"));
  std::vector<std::string> out;
  for (std::string line; std::getline(lines, line);) out.push_back(line);
  return out;
}

TEST(Completion, OfSubcommandsOptionsAndValues) {
  const TemporaryFolder folder;
  const Ran script = run_tool({"completion", "bash"});
  ASSERT_EQ(script.code, 0) << script.err;
  write_file(folder / "tessera.bash", script.out);
  const std::vector<std::string> layouts{"propagated", "solved"};
  EXPECT_EQ(offered(folder, "tessera con", 1), std::vector<std::string>{"convert"});
  EXPECT_EQ(offered(folder, "tessera run --lay", 2), std::vector<std::string>{"--layouts"});
  EXPECT_EQ(offered(folder, "tessera run --layouts ''", 3), layouts);
  EXPECT_EQ(offered(folder, "tessera completion z", 2), std::vector<std::string>{"zsh"});
  // Elsewhere files.
  write_file(folder / "module.mlir", "");
  EXPECT_EQ(offered(folder, "tessera run " + (folder / "mod"), 2),
            std::vector<std::string>{folder / "module.mlir"});
}

TEST(Completion, NamesEachSubcommandInEachShell) {
  const Ran help = run_tool({"--help"});
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Ran script = run_tool({"completion", shell});
    ASSERT_EQ(script.code, 0) << script.err;
    for (const char* name : {"run", "partition", "explain", "checkpoint", "completion"}) {
      EXPECT_NE(help.out.find(name), std::string::npos);
      EXPECT_NE(script.out.find(name), std::string::npos) << shell;
    }
    EXPECT_NE(script.out.find("in-shardings"), std::string::npos) << shell;
  }
  const Ran wrong = run_tool({"completion", "tcsh"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("{bash,zsh,fish}"), std::string::npos) << wrong.err;
}

}  // namespace
}  // namespace tessera::testing
