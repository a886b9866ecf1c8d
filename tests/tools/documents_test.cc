// SPDX-License-Identifier: Apache-2.0
// What documents say of the command and of variables: all that there is, and nothing that there
// isn't.
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "src/base/env.h"
#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

Names matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  Names out;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) {
    out.insert(at->str(1));
  }
  return out;
}

/// The lines of `text` that begin so, one after the other.
std::vector<std::string> lines_like(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (std::regex_search(line, regex)) out.push_back(line);
  }
  return out;
}

/// Of each subcommand, its flags: each is a list of names, "-o,--output".
std::map<std::string, std::vector<std::string>> commands() {
  std::map<std::string, std::vector<std::string>> out;
  const std::string help = run_tool({"--help"}).out;
  const std::string list = help.substr(help.find("Subcommands:"));
  for (const std::string& name : matches(list, "\n  ([a-z]+) ")) {
    for (const std::string& line : lines_like(run_tool({name, "--help"}).out, "^  -{1,2}[a-z]")) {
      out[name].push_back(line.substr(2, line.find(' ', 2) - 2));
    }
  }
  return out;
}

std::vector<fs::path> documents() {
  std::vector<fs::path> out = {source_dir() / "README.md", source_dir() / "CONTRIBUTING.md"};
  for (const auto& entry : fs::recursive_directory_iterator(source_dir() / "docs")) {
    if (entry.path().extension() == ".md") out.push_back(entry.path());
  }
  return out;
}

constexpr const char* kFlag = "(?:^|[^-\\w])(--?[a-z][a-z-]*)";

TEST(Documents, NameAllFlagsOfTheCommand) {
  const std::string text = read_file((source_dir() / "docs/cli.md").string());
  const auto all = commands();
  EXPECT_GE(all.size(), 14u);
  for (const auto& [name, flags] : all) {
    const std::size_t begin = text.find("\n## `tessera " + name);
    ASSERT_NE(begin, std::string::npos) << "docs/cli.md has no part on tessera " << name;
    const std::string part = text.substr(begin, text.find("\n## ", begin + 1) - begin);
    const Names named = matches(part, kFlag);
    for (const std::string& flag : flags) {
      bool found = flag.find("--help") != std::string::npos || flag == "--json";  // of all
      std::istringstream in(flag);
      for (std::string alias; std::getline(in, alias, ',');) found |= named.count(alias) > 0;
      EXPECT_TRUE(found) << "docs/cli.md doesn't say what tessera " << name << " " << flag << " is";
    }
  }
}

TEST(Documents, NameNoFlagsThatThereArent) {
  const auto all = commands();
  const Names top = matches(run_tool({"--help"}).out, kFlag);
  const std::regex call("tessera ([a-z]+) ([^`|#'\"\n]*)");
  for (const fs::path& document : documents()) {
    const std::string text = read_file(document.string());
    for (std::sregex_iterator at(text.begin(), text.end(), call), end; at != end; ++at) {
      const auto command = all.find(at->str(1));
      if (command == all.end()) continue;
      for (const std::string& flag : matches(at->str(2), kFlag)) {
        bool known = top.count(flag) > 0;
        for (const std::string& names : command->second) {
          known |= ("," + names + ",").find("," + flag + ",") != std::string::npos;
        }
        EXPECT_TRUE(known) << document << ": " << at->str();
      }
    }
  }
}

TEST(Documents, StandOnTheSite) {
  const std::string text = read_file((source_dir() / "site/build.py").string());
  for (const fs::path& document : documents()) {
    const fs::path page = fs::relative(document, source_dir() / "docs").replace_extension();
    // Others are found by their folder, or stand elsewhere.
    const std::string folder = page.begin()->string();
    if (folder == ".." || folder == "internals") continue;
    const bool stands = text.find('"' + page.string()) != std::string::npos ||
                        text.find("\"docs/" + page.string() + ".md\"") != std::string::npos;
    EXPECT_TRUE(stands) << "site/build.py doesn't say where " << document << " stands on the site";
  }
}

TEST(Documents, NameAllVariables) {
  const std::string text = read_file((source_dir() / "docs/environment.md").string());
  for (const EnvVariable& variable : env_table()) {
    const std::string name(variable.name);
    EXPECT_NE(text.find("`" + name + "`"), std::string::npos)
        << "docs/environment.md doesn't say what " << name << " is";
  }
}

}  // namespace
}  // namespace tessera::testing
