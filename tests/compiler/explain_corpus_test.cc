// SPDX-License-Identifier: Apache-2.0
// Reports of all sharded programs of the corpus: their bytes are those of the device program.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/spmd/collectives/optimize.h"
#include "tests/compiler/explain_case.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using compiler::explain_module;
using Json = nlohmann::ordered_json;

std::vector<std::string> sharded_programs() {
  std::vector<std::string> out;
  for (const auto& file :
       fs::recursive_directory_iterator(fs::path(TESSERA_SOURCE_DIR) / "tests/corpus")) {
    const std::string name = file.path().filename().string();
    if (name[0] == 's' && file.path().extension() == ".mlir") {
      out.push_back(file.path().parent_path().filename().string() + "/" + name);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

class ExplainCorpus : public ::testing::TestWithParam<std::string> {};

TEST_P(ExplainCorpus, BytesAreThoseOfTheTextAndAllIsExplained) {
  const std::string path = (fs::path(TESSERA_SOURCE_DIR) / "tests/corpus" / GetParam()).string();
  const auto module = compiler::read_module(compiler::read_file(path), path);
  ExplainOptions few;
  few.most_trials = 4;
  const Explanation e = explain_module(*module, {}, few);
  double sum = 0;
  for (const ExplainEntry& entry : e.entries()) sum += entry.bytes;
  EXPECT_NEAR(sum, text_bytes(*module), 1e-6 * (1 + sum));
  EXPECT_NEAR(e.total_bytes(), sum, 1e-6 * (1 + sum));
  for (const ExplainEntry& entry : e.entries()) {
    EXPECT_FALSE(entry.op.empty());
    EXPECT_FALSE(entry.reason.empty()) << entry.to_text();
    EXPECT_FALSE(entry.from_because.empty() && entry.to_because.empty() && entry.conflicts.empty())
        << entry.to_text();
    if (entry.suggestion) {
      EXPECT_LT(entry.suggestion->total_bytes, e.total_bytes()) << entry.to_text();
    }
  }
  EXPECT_EQ(Json::parse(e.to_json())["entries"].size(), e.entries().size());
  EXPECT_FALSE(e.to_html().empty());
  EXPECT_FALSE(e.to_text().empty());
}

// What is tried is only measured.
TEST_P(ExplainCorpus, MeasuringGivesTheBytesOfCompiling) {
  const std::string path = (fs::path(TESSERA_SOURCE_DIR) / "tests/corpus" / GetParam()).string();
  const auto module = compiler::read_module(compiler::read_file(path), path);
  compiler::Options options;
  options.layouts = Layouts::propagated;
  const auto run = compiler::explain::run_stages_for(*module, options);
  const auto bytes = [&](const compiler::Purpose& purpose) {
    const auto again = compiler::explain::run_prepared(run->prepared->clone(), options, purpose);
    return cost::count_communication(*again->compilation.module).total_bytes;
  };
  EXPECT_EQ(bytes(compiler::kMeasuring), bytes(compiler::kComparing));
  try {
    EXPECT_EQ(bytes(compiler::kEstimatingQuickly), bytes(compiler::kComparing));
  } catch (const spmd::StepTakenBack&) {
    EXPECT_EQ(bytes(compiler::kEstimating), bytes(compiler::kComparing));
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, ExplainCorpus, ::testing::ValuesIn(sharded_programs()),
                         [](const ::testing::TestParamInfo<std::string>& info) {
                           std::string name = info.param;
                           for (char& c : name) {
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace tessera::testing
