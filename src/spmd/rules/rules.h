// SPDX-License-Identifier: Apache-2.0
// The factor rules of ops, and what they are built with.
#pragma once

#include <optional>

#include "src/spmd/rules/factor_rule.h"

namespace tessera::spmd::rules {

/// Collects factors and hangs them on dims. Dims that get none by the end get a private one each,
/// which need not be complete (`finish`).
class RuleBuilder {
 public:
  /// Tensors are the operands, then the leaves of the result.
  explicit RuleBuilder(const ir::Instruction& instruction);

  int operand_count() const { return int(rule_.operands.size()); }
  int result_count() const { return int(rule_.results.size()); }
  const Dims& operand_dims(int i) const { return operand_shapes_[std::size_t(i)].dims; }
  const Dims& result_dims(int i) const { return result_shapes_[std::size_t(i)].dims; }

  int factor(std::int64_t size, FactorKind kind = FactorKind::pass_through, bool blocked = false);
  /// Appends a factor to a dim; -1 for the dim: the tensor hasn't got it.
  RuleBuilder& operand(int i, std::int64_t dim, int factor);
  RuleBuilder& result(int i, std::int64_t dim, int factor);
  /// A factor of one dim of the first operand and of the result.
  RuleBuilder& shared(std::int64_t dim, std::int64_t size,
                      FactorKind kind = FactorKind::pass_through);
  RuleBuilder& all_operands(std::int64_t dim, int factor);
  RuleBuilder& all_results(std::int64_t dim, int factor);
  /// A factor for dims that no other tensor shares.
  RuleBuilder& private_operand(int i, std::int64_t dim, FactorKind kind, bool blocked = false);
  RuleBuilder& private_result(int i, std::int64_t dim, FactorKind kind, bool blocked = false);

  FactorRule finish();

 private:
  FactorRule rule_;
  std::vector<Shape> operand_shapes_, result_shapes_;
};

/// The rule of ops that have none: they are computed in full on every device.
inline std::optional<FactorRule> none(const ir::Instruction&) { return std::nullopt; }

// The rules that the op table names; nullopt for an instruction that has none after all.
#define OP(enumerator, text, operands, attributes, types, shape, factors, ...) \
  std::optional<FactorRule> factors(const ir::Instruction&);
#include "src/ir/opcode_list.inc"

}  // namespace tessera::spmd::rules
