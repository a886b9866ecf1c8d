// SPDX-License-Identifier: Apache-2.0
// Pipelines of passes as text.
#include "src/compiler/pass_pipeline.h"

#include <gtest/gtest.h>

#include "src/ir/hlo/hlo_text.h"

namespace tessera::compiler {
namespace {

constexpr const char* kTwice = R"(HloModule m

ENTRY main {
  x = f32[4]{0} parameter(0)
  unused = f32[4]{0} multiply(x, x)
  one = f32[4]{0} exponential(x)
  two = f32[4]{0} exponential(x)
  ROOT y = f32[4]{0} add(one, two)
}
)";

std::optional<std::size_t> run(const std::string& passes, std::string* text = nullptr) {
  ModulePtr module = ir::parse_hlo(kTwice);
  const auto out = PassPipeline::parse(passes).run(module, true);
  if (text != nullptr) *text = ir::to_string(*module);
  return out;
}

std::string error_of(const std::string& passes) {
  try {
    PassPipeline::parse(passes);
  } catch (const ValueError& e) {
    return e.what();
  }
  return "";
}

TEST(PassPipeline, RunsInOrderAndCounts) {
  EXPECT_EQ(run(""), 0u);
  EXPECT_EQ(run("eliminate-dead"), 1u);
  EXPECT_EQ(run("eliminate-common"), 1u);
  EXPECT_EQ(run("eliminate-dead,eliminate-common,eliminate-dead"), 2u + 0u);
  EXPECT_EQ(run("common"), run("eliminate-common,eliminate-dead"));
  std::string one, other;
  (void)run("common", &one);
  (void)run("repeat<5>(eliminate-common,eliminate-dead)", &other);
  EXPECT_EQ(one, other);
}

TEST(PassPipeline, RepeatsUntilNothingChanges) {
  EXPECT_EQ(run("repeat<7>(eliminate-dead)"), 1u);
  EXPECT_EQ(run("repeat<1>(eliminate-dead)"), 1u);
  EXPECT_EQ(run("simplify<1>,repeat<2>(repeat<2>(eliminate-dead))"), 1u);
}

TEST(PassPipeline, RunsWhatDependsOnChanges) {
  EXPECT_EQ(run("eliminate-dead?(eliminate-common)"), 2u);
  // Nothing to join: the other isn't run.
  EXPECT_EQ(run("join-async?(eliminate-dead)"), 0u);
  EXPECT_EQ(run("(join-async,eliminate-dead)?(eliminate-common)"), 2u);
  EXPECT_EQ(run("raise-manual"), std::nullopt);
  ModulePtr module = ir::parse_hlo(kTwice);
  EXPECT_THROW(PassPipeline::parse("raise-manual?(eliminate-dead)").run(module, true), ValueError);
}

TEST(PassPipeline, FaultsAreNamed) {
  EXPECT_NE(error_of("simplifi").find("'simplifi'"), std::string::npos);
  EXPECT_NE(error_of("a,").find("'a'"), std::string::npos);
  EXPECT_NE(error_of("simplify,").find("expected the name of a pass at ''"), std::string::npos);
  EXPECT_NE(error_of("(simplify").find("expected ')'"), std::string::npos);
  EXPECT_NE(error_of("simplify)").find("expected a comma, or the end at ')'"), std::string::npos);
  EXPECT_NE(error_of("simplify?").find("expected '('"), std::string::npos);
  for (const char* repeat : {"repeat(simplify)", "repeat<0>(simplify)", "repeat<x>(simplify)",
                             "repeat<99999999999999999999>(simplify)", "repeat<>(simplify)"}) {
    EXPECT_NE(error_of(repeat).find("repeat<N>"), std::string::npos) << repeat;
  }
  std::string deep;
  for (int k = 0; k < 100000; ++k) deep += "(";
  EXPECT_NE(error_of(deep).find("50 lists"), std::string::npos);
}

TEST(PassPipeline, GroupsCanBeRead) {
  for (const PassGroup& g : all_groups()) {
    EXPECT_EQ(error_of(g.name), "") << g.name;
    EXPECT_EQ(error_of(g.passes), "") << g.name;
  }
}

}  // namespace
}  // namespace tessera::compiler
