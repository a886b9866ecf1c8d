// SPDX-License-Identifier: Apache-2.0
// The language of custom_partitioning's sharding rules.
#include <tessera/sharding/sharding_rule.h>

#include <limits>

#include <tessera/custom_partitioning.h>

#include "src/frontend/custom/sharding_rule_factors.h"
#include "tests/frontend/frontend_testing.h"

// Compiled apart: includes private headers, whose `internal` others take for testing::internal.
namespace tessera::testing {
namespace {

using frontend::to_factors;

void refused(const std::string& rule, const std::vector<std::string>& parts,
             const ShardingRule::Options& options = {}) {
  std::vector<std::string> all{"'" + rule + "'"};
  all.insert(all.end(), parts.begin(), parts.end());
  const std::string text = expect_error<ValueError>([&] { ShardingRule(rule, options); }, all);
  EXPECT_TRUE(has(text, "sharding_rule_test.cc:")) << text;
}

TEST(ShardingRule, Behaviour_272_Parentheses) {
  refused("(i) j -> i j", {"two factors or more", "1", "character 0"});
  refused("() j -> j", {"two factors or more", "0"});
  refused("((i j) k) -> i", {"nested", "character 1"});
  refused("(i j -> i j", {"'(' without ')'", "character 0"});
  refused("i j) -> i j", {"')' without '('", "character 3"});
}

TEST(ShardingRule, Behaviour_273_EllipsesAndOddCharacters) {
  refused("(... i) -> i", {"'...' inside of parentheses", "character 1"});
  refused("i ... -> i", {"'...' must come first", "character 2"});
  refused("i . j -> i", {"a '.' that is no '...'", "character 2"});
  refused("i \u2026 -> i", {"unknown character '\u2026'", "character 2"});
  refused("i ; j -> i", {"unknown character ';'", "character 2"});
}

TEST(ShardingRule, Behaviour_274_NamesAndArrow) {
  refused("1i -> 1i", {"must start with a letter", "'1'", "character 0"});
  refused("_i -> _i", {"must start with a letter", "'_'"});
  refused("i j", {"no '->'"});
  refused("i -> j -> k", {"two '->'", "character 7"});
}

TEST(ShardingRule, Behaviour_275_SizesOfFactors) {
  refused("i j -> i j", {"'k'", "no factor"}, {.factor_sizes = {{"k", 2}}});
  refused("(i j) -> (i j)", {"'i'", "size must be given"}, {.factor_sizes = {{"j", 2}}});
  refused("i j -> (i j)", {"'i'", "follows from the shapes"}, {.factor_sizes = {{"i", 2}}});
  refused("(i j) -> i j", {"'j'", "follows from the shapes"}, {.factor_sizes = {{"j", 2}}});
  refused("(i j) -> (i j)", {"'i'", "positive", "-1"}, {.factor_sizes = {{"i", -1}, {"j", 2}}});
}

TEST(ShardingRule, Behaviour_276_SpecialSets) {
  refused("i j -> i", {"reduction_factors", "'k'"}, {.reduction_factors = {"k"}});
  refused("i j -> i", {"need_replication_factors", "'k'"}, {.need_replication_factors = {"k"}});
  refused("i j -> i", {"permutation_factors", "'k'"}, {.permutation_factors = {"k"}});
  refused("i j -> i", {"'j'", "twice", "reduction_factors"}, {.reduction_factors = {"j", "j"}});
  refused("i j -> i", {"'j'", "reduction_factors", "permutation_factors"},
          {.reduction_factors = {"j"}, .permutation_factors = {"j"}});
}

TEST(ShardingRule, Behaviour_277_Scalars) {
  const ShardingRule none("->");
  EXPECT_EQ(none.operands(), (std::vector<ShardingRule::Value>{{}}));
  EXPECT_EQ(none.results(), (std::vector<ShardingRule::Value>{{}}));
  EXPECT_EQ(none.to_string(), "SdyShardingRule(((),), ((),), {})");
  const ShardingRule middle("i j, , k->j");
  ASSERT_EQ(middle.operands().size(), 3u);
  EXPECT_TRUE(middle.operands()[1].empty());
  EXPECT_EQ(middle.operands()[0], (ShardingRule::Value{{"i"}, {"j"}}));
  EXPECT_EQ(middle.results()[0], (ShardingRule::Value{{"j"}}));
}

TEST(ShardingRule, Behaviour_278_GroupsOfEllipses) {
  const ShardingRule rule("...0 i j, ...1 i j -> ...i j");
  EXPECT_EQ(rule.operands()[0][0], (ShardingRule::Dim{"...", "0"}));
  EXPECT_EQ(rule.operands()[1][0], (ShardingRule::Dim{"...", "1"}));
  EXPECT_EQ(rule.results()[0][0], (ShardingRule::Dim{"...", "0"}));
  EXPECT_EQ(rule.results()[0].size(), 3u);
  const ShardingRule big("...87 i,  -> ...87 i");
  EXPECT_EQ(big.results()[0][0], (ShardingRule::Dim{"...", "87"}));
  EXPECT_TRUE(big.operands()[1].empty());
}

TEST(ShardingRule, Behaviour_279_CountsAndRanks) {
  const ShardingRule rule("i j, j k -> i k");
  auto fail = [&](const std::vector<Dims>& in, const std::vector<Dims>& out,
                  const std::vector<std::string>& parts) {
    expect_error<ValueError>([&] { to_factors(rule, in, out); }, parts);
  };
  fail({{2, 3}}, {{2, 4}}, {"2 operands", "1"});
  fail({{2, 3}, {3, 4}}, {{2, 4}, {1, 1}}, {"1 results", "2"});
  fail({{2, 3}, {3, 4, 5}}, {{2, 4}}, {"operand 1", "rank 3", "2 dims"});
  fail({{2, 3}, {3, 4}}, {{2}}, {"result 0", "rank 1", "2 dims"});
}

TEST(ShardingRule, Behaviour_280_TheSmallestSizeWins) {
  const ir::FactorRuleSpec spec =
      to_factors(ShardingRule("i j, j, j -> i"), {{4, 16}, {32}, {8}}, {{4}});
  EXPECT_EQ(spec.factor_sizes, (Dims{4, 8}));
}

TEST(ShardingRule, Behaviour_281_DimsOfAnEllipsisAgree) {
  const ShardingRule rule("... i, ... i -> ... i");
  expect_error<ValueError>(
      [&] {
        to_factors(rule, {{32, 4}, {64, 4}}, {{32, 4}});
      },
      {"'...0'", "dim 0", "32", "64"});
  expect_error<ValueError>(
      [&] {
        to_factors(rule, {{2, 32, 4}, {32, 4}}, {{2, 32, 4}});
      },
      {"'...0'", "2 dims", "1 in operand 1"});
}

TEST(ShardingRule, Behaviour_282_ProductsOfCompounds) {
  const ShardingRule rule("i j -> (i j)");
  expect_error<ValueError>(
      [&] {
        to_factors(rule, {{2, 4}}, {{9}});
      },
      {"size 9", "i=2", "j=4", "= 8"});
  EXPECT_EQ(to_factors(rule, {{2, 4}}, {{8}}).results[0][0], (std::vector<int>{0, 1}));
}

TEST(ShardingRule, Behaviour_283_FewerDimsThanWritten) {
  expect_error<ValueError>(
      [] {
        to_factors(ShardingRule("... i j -> i j"), {{4}}, {{4, 4}});
      },
      {"operand 0", "rank 1", "2 dims or more"});
}

TEST(ShardingRule, Behaviour_284_EllipsesOfNoDims) {
  const ShardingRule rule("..., ... -> ...");
  const ir::FactorRuleSpec none = to_factors(rule, {{}, {}}, {{}});
  EXPECT_TRUE(none.factor_sizes.empty());
  EXPECT_EQ(none.to_string(), "#sdy.op_sharding_rule<([], [])->([]) {}, custom>");
  const ir::FactorRuleSpec two = to_factors(rule, {{3, 5}, {3, 5}}, {{3, 5}});
  EXPECT_EQ(two.factor_sizes, (Dims{3, 5}));
  EXPECT_EQ(two.to_string(),
            "#sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=3, j=5}, custom>");
}

TEST(ShardingRule, Behaviour_285_ReductionsArePrinted) {
  const ShardingRule rule("... m k, ... k n -> ... m n", {.reduction_factors = {"k"}});
  EXPECT_EQ(to_factors(rule, {{7, 16, 32}, {7, 32, 8}}, {{7, 16, 8}}).to_string(),
            "#sdy.op_sharding_rule<([i, j, k], [i, k, l])->([i, j, l]) {i=7, j=16, k=32, l=8} "
            "reduction={k}, custom>");
}

TEST(ShardingRule, Behaviour_286_TwoGroups) {
  const ir::FactorRuleSpec spec = to_factors(ShardingRule("...1 j, ...2 k -> ...2 j k"),
                                             {{2, 3, 4}, {5, 6, 7, 8}}, {{5, 6, 7, 4, 8}});
  EXPECT_EQ(spec.factor_sizes, (Dims{2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(spec.operands[1], (std::vector<IndexList>{{3}, {4}, {5}, {6}}));
  EXPECT_EQ(spec.results[0], (std::vector<IndexList>{{3}, {4}, {5}, {2}, {6}}));
}

TEST(ShardingRule, Behaviour_287_Text) {
  const ShardingRule rule("... (i k) j -> j i, ",
                          {.reduction_factors = {"k"}, .factor_sizes = {{"k", 3}}});
  EXPECT_EQ(rule.to_string(),
            "SdyShardingRule((('...0', ('i', 'k'), 'j'),), (('j', 'i'), ()), {'k': 3} "
            "reduction={'k'})");
  const ShardingRule all("i j k -> i", {.reduction_factors = {"j"},
                                        .need_replication_factors = {"k"},
                                        .permutation_factors = {"i"}});
  EXPECT_EQ(all.to_string(),
            "SdyShardingRule((('i', 'j', 'k'),), (('i',),), {} reduction={'j'} "
            "need_replication={'k'} permutation={'i'})");
}

TEST(ShardingRule, ProductsOfFactorsBeyond64Bits) {
  const ShardingRule rule(
      "(i j) -> (i j)",
      {.factor_sizes = {{"i", std::numeric_limits<std::int64_t>::max()}, {"j", 2}}});
  // The product would wrap to -2.
  for (const std::int64_t size : {16, -2}) {
    expect_error<ValueError>([&] { to_factors(rule, {{size}}, {{size}}); },
                             {"i=9223372036854775807 * j=2", "more than 64 bits hold"});
  }
}

}  // namespace
}  // namespace tessera::testing
