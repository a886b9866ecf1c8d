// SPDX-License-Identifier: Apache-2.0
// The rules of the op families, for factor_rule.cc.
#pragma once

#include <optional>

#include "src/spmd/factor_rule.h"

namespace tessera::spmd::rules {

/// Collects factors and hangs them on dims. Dims that get none by the end get a private one each,
/// which need not be whole (`finish`).
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

/// One pass-through factor per dim, shared by all tensors of the result's rank; tensors of rank 0
/// have none.
FactorRule elementwise(const ir::Instruction& instruction);

std::optional<FactorRule> reshape(const ir::Instruction& instruction);
FactorRule broadcast(const ir::Instruction& instruction);
FactorRule transpose(const ir::Instruction& instruction);
FactorRule result_only(const ir::Instruction& instruction);
FactorRule concatenate(const ir::Instruction& instruction);
FactorRule slice(const ir::Instruction& instruction);
FactorRule pad(const ir::Instruction& instruction);
FactorRule reverse(const ir::Instruction& instruction);
FactorRule bitcast_convert(const ir::Instruction& instruction);

FactorRule dot(const ir::Instruction& instruction);
FactorRule convolution(const ir::Instruction& instruction);
FactorRule reduce(const ir::Instruction& instruction);
FactorRule reduce_window(const ir::Instruction& instruction);
FactorRule select_and_scatter(const ir::Instruction& instruction);
FactorRule sort(const ir::Instruction& instruction);
FactorRule top_k(const ir::Instruction& instruction, std::int64_t dim);
FactorRule fft(const ir::Instruction& instruction);
FactorRule cholesky(const ir::Instruction& instruction);
FactorRule triangular_solve(const ir::Instruction& instruction);
FactorRule batch_norm(const ir::Instruction& instruction);
FactorRule rng_bit_generator(const ir::Instruction& instruction);

FactorRule dynamic_slice(const ir::Instruction& instruction);
FactorRule dynamic_update_slice(const ir::Instruction& instruction);
FactorRule gather(const ir::Instruction& instruction);
FactorRule scatter(const ir::Instruction& instruction);

FactorRule collective(const ir::Instruction& instruction);
std::optional<FactorRule> custom_call(const ir::Instruction& instruction);

}  // namespace tessera::spmd::rules
