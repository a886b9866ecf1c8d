// SPDX-License-Identifier: Apache-2.0
// Sharding rules: how the dimensions of an operation's operands and results correspond.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tessera/error.h>

namespace tessera {

/// Kinds and sizes of a rule's factors. Factors that aren't listed are pass-through: a mesh axis
/// that splits such a factor in one value splits it in all.
struct ShardingRuleOptions {
  /// Factors of operands that the operation sums over. The per-device function reduces over the
  /// axes that split them.
  std::vector<std::string> reduction_factors{};
  /// Factors that must not be split.
  std::vector<std::string> need_replication_factors{};
  /// Factors along which the operation moves elements, as a reversal or a shift does.
  std::vector<std::string> permutation_factors{};
  /// Sizes of factors that occur in parentheses only; others follow from the shapes.
  std::map<std::string, std::int64_t> factor_sizes{};
};

/// How the dimensions of an operation's operands and results correspond (Shardy's OpShardingRule,
/// in the einsum-like notation of jax.experimental.custom_partitioning).
///
/// For example `"... i k, ... k j -> ... i j"`: values are separated by commas, dimensions by
/// blanks. A dimension is a factor (a letter, then letters, digits and underscores) or several
/// factors in parentheses, major to minor: `"(i k) j -> i k j"`. A leading `...`, or `...1`,
/// `...2`, stands for any number of dimensions, the same ones wherever it occurs. An empty value is
/// a scalar.
class ShardingRule {
 public:
  /// The options' type.
  using Options = ShardingRuleOptions;
  /// The factors of one dimension, major to minor; an ellipsis is {"...", "0"}.
  using Dim = std::vector<std::string>;
  /// The dimensions of one operand or result.
  using Value = std::vector<Dim>;

  /// Parses a rule.
  /// @throws ValueError, with the rule and the position, for unknown characters, parentheses that
  ///   don't match or hold fewer than two factors, ellipses that aren't leading, missing or
  ///   superfluous sizes, and factors that are unknown or listed twice.
  explicit ShardingRule(const std::string& rule, Options options = {},
                        Location location = Location::current());

  /// The operands.
  const std::vector<Value>& operands() const { return operands_; }
  /// The results.
  const std::vector<Value>& results() const { return results_; }
  /// Kinds and sizes of factors.
  const Options& options() const { return options_; }
  /// The text as given.
  const std::string& text() const { return text_; }
  /// Returns JAX's form: "SdyShardingRule(((i, j), (j, k)), ((i, k),), {})".
  std::string to_string() const;
  /// The line that created the rule.
  Location location() const { return location_; }

 private:
  std::string text_;
  Options options_;
  Location location_;
  std::vector<Value> operands_, results_;
};

}  // namespace tessera
