// SPDX-License-Identifier: Apache-2.0
// The table of extensions in docs/jax-plugin.md says which there are.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "tests/pjrt/api_client.h"

namespace tessera::pjrt_tests {
namespace {

/// The lines of a file of the repository.
std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream in(std::string(TESSERA_SOURCE_DIR "/") + path);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  EXPECT_FALSE(out.empty()) << path;
  return out;
}

/// By name.
std::map<std::string, int> types_of_the_api() {
  static const std::regex type("  PJRT_Extension_Type_(\\w+) = (\\d+),");
  std::map<std::string, int> out;
  for (const std::string& line : lines_of("src/pjrt/abi/types.h")) {
    std::smatch m;
    if (std::regex_match(line, m, type)) out[m[1]] = std::stoi(m[2]);
  }
  return out;
}

TEST(PjrtDocument, TellsOfAllExtensions) {
  std::set<int> there;
  for (const auto* e = api().extension_start; e != nullptr; e = e->next) {
    EXPECT_TRUE(there.insert(int(e->type)).second) << "twice: " << e->type;
  }
  std::map<std::string, int> types = types_of_the_api();
  EXPECT_GE(types.size(), 25U);
  static const std::regex row("\\| (\\w+) \\| (yes|no) \\| .+ \\|");
  bool in_table = false;
  for (const std::string& line : lines_of("docs/jax-plugin.md")) {
    std::smatch m;
    in_table = line.rfind("| extension | there |", 0) == 0 || (in_table && line[0] == '|');
    if (!in_table || !std::regex_match(line, m, row)) continue;
    const auto found = types.find(m[1]);
    ASSERT_NE(found, types.end()) << "no extension, or a second row of it: " << line;
    EXPECT_EQ(there.count(found->second) == 1, m[2] == "yes") << line;
    types.erase(found);
  }
  for (const auto& [name, type] : types) ADD_FAILURE() << "not in docs/jax-plugin.md: " << name;
}

}  // namespace
}  // namespace tessera::pjrt_tests
