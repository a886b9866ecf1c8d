// SPDX-License-Identifier: Apache-2.0
// The einsum-like language of sharding rules.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tessera/error.h>

namespace tessera {

/// What a rule says besides its text.
struct ShardingRuleOptions {
  std::vector<std::string> reduction_factors{};
  std::vector<std::string> need_replication_factors{};
  std::vector<std::string> permutation_factors{};
  /// Sizes of factors that stand in parentheses only.
  std::map<std::string, std::int64_t> factor_sizes{};
};

/// How an operation's operands and results hang together, dim by dim (Shardy's OpShardingRule).
///
/// `"... i k, ... k j -> ... i j"`: values are separated by commas, dims by blanks. A dim is a
/// factor (a letter, then letters, digits, underscores), or several in parentheses, major to minor:
/// `"(i k) j -> i k j"`; a leading `...` or `...1` stands for any number of dims, the same ones for
/// the same number. Nothing between commas is a scalar. Factors are pass-through unless listed as
/// reduction (in operands only; the per-device function must reduce itself), need_replication
/// (never split) or permutation.
class ShardingRule {
 public:
  using Options = ShardingRuleOptions;
  /// One dim: its factors; an ellipsis is {"...", "0"}.
  using Dim = std::vector<std::string>;
  using Value = std::vector<Dim>;

  /// ValueError with the rule, the place and what is wrong: unknown characters, parentheses that
  /// don't match or hold fewer than two factors, ellipses that don't lead, sizes missing or given
  /// twice, factors unknown or listed in two sets.
  explicit ShardingRule(const std::string& rule, Options options = {},
                        Location location = Location::current());

  const std::vector<Value>& operands() const { return operands_; }
  const std::vector<Value>& results() const { return results_; }
  const Options& options() const { return options_; }
  /// The text as given.
  const std::string& text() const { return text_; }
  /// Canonical: "SdyShardingRule(((i, j), (j, k)), ((i, k),), {})".
  std::string to_string() const;
  Location location() const { return location_; }

 private:
  std::string text_;
  Options options_;
  Location location_;
  std::vector<Value> operands_, results_;
};

}  // namespace tessera
