// SPDX-License-Identifier: Apache-2.0
// Every program of tests/corpus, plain on one device and sharded on eight, from both forms of text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;

/// "CASE/VARIANT.FORM"
std::vector<std::string> programs() {
  std::vector<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(corpus_dir())) {
    const fs::path file = entry.path();
    const std::string name =
        file.parent_path().filename().string() + "/" + file.stem().string() + ".";
    if (file.extension() == ".hlo") out.push_back(name + "hlo");
    if (file.extension() == ".mlir") out.push_back(name + "stablehlo");
  }
  std::sort(out.begin(), out.end());
  return out;
}

class Corpus : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    ran_ = run_tool({"check", corpus_dir().string(), "--json"});
    const Json report = ran_.json();
    for (const Json& row : report["rows"]) {
      rows_[row["case"].get<std::string>() + "/" + row["variant"].get<std::string>() + "." +
            row["form"].get<std::string>()] = row;
    }
  }
  static inline Ran ran_;
  static inline std::map<std::string, Json> rows_;
};

TEST_P(Corpus, GivesItsOutputs) {
  ASSERT_TRUE(rows_.count(GetParam())) << "exit code " << ran_.code << " " << ran_.err;
  const Json& row = rows_[GetParam()];
  EXPECT_TRUE(row["ok"].get<bool>()) << row.value("what", "");
  const bool plain = row["variant"].get<std::string>() == "plain";
  EXPECT_EQ(row["devices"].get<int>(), plain ? 1 : 8);
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Programs, Corpus, ::testing::ValuesIn(programs()), test_name);

/// "CASE/VARIANT", the sharded ones.
std::vector<std::string> sharded() {
  std::vector<std::string> out;
  for (const std::string& p : programs()) {
    if (p.ends_with(".hlo") && !p.ends_with("/plain.hlo")) out.push_back(p.substr(0, p.size() - 4));
  }
  return out;
}

class PartitionedCorpus : public ::testing::TestWithParam<std::string> {};

/// V.json has what XLA's partitioner makes of the program.
TEST_P(PartitionedCorpus, ReceivesNoMoreThanUnderXlaAndStoresLittleMore) {
  const std::string stem = (corpus_dir() / GetParam()).string();
  const Json xla = Json::parse(read_file(stem + ".json"));
  if (xla["xla_wrong"].get<bool>()) return;  // less is easily received for another result
  const Json ours = run_tool({"partition", "--json", stem + ".mlir"}).json();
  EXPECT_LE(std::floor(ours["bytes_received"].get<double>()),  // theirs are rounded down
            xla["xla_collectives"]["total_bytes"].get<double>());
  EXPECT_LE(ours["peak_bytes_per_device"].get<double>(),
            1.25 * xla["xla_peak_bytes"].get<double>());
}

INSTANTIATE_TEST_SUITE_P(Programs, PartitionedCorpus, ::testing::ValuesIn(sharded()), test_name);

TEST(CorpusFolder, IsComplete) {
  const auto all = programs();
  EXPECT_EQ(all.size(), 240u);
  EXPECT_EQ(std::count_if(all.begin(), all.end(),
                          [](const std::string& p) { return p.ends_with("/plain.hlo"); }),
            30);
}

}  // namespace
}  // namespace tessera::testing
