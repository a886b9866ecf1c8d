// SPDX-License-Identifier: Apache-2.0
// Builds factor rules, and the rule of elementwise ops.
#include <algorithm>

#include "src/base/check.h"
#include "src/spmd/rules/rules.h"

namespace tessera::spmd::rules {

RuleBuilder::RuleBuilder(const ir::Instruction& instruction) {
  operand_shapes_.reserve(instruction.operands().size());
  for (const ir::Instruction* operand : instruction.operands()) {
    if (!operand->shape.is_tuple) {
      operand_shapes_.push_back(operand->shape);
      continue;
    }
    for (Shape& leaf : flatten(operand->shape)) operand_shapes_.push_back(std::move(leaf));
  }
  result_shapes_ = flatten(instruction.shape);
  rule_.operands.reserve(operand_shapes_.size());
  rule_.results.reserve(result_shapes_.size());
  std::size_t rank = 0;
  for (const Shape& s : operand_shapes_) rank = std::max(rank, s.dims.size());
  for (const Shape& s : result_shapes_) rank = std::max(rank, s.dims.size());
  rule_.factors.reserve(rank + 2);
  for (const Shape& s : operand_shapes_) rule_.operands.emplace_back(s.dims.size());
  for (const Shape& s : result_shapes_) rule_.results.emplace_back(s.dims.size());
}

int RuleBuilder::factor(std::int64_t size, FactorKind kind, bool blocked) {
  rule_.factors.push_back({size, kind, blocked});
  return int(rule_.factors.size()) - 1;
}

RuleBuilder& RuleBuilder::operand(int i, std::int64_t dim, int factor) {
  if (dim >= 0) rule_.operands[std::size_t(i)][std::size_t(dim)].push_back(factor);
  return *this;
}

RuleBuilder& RuleBuilder::result(int i, std::int64_t dim, int factor) {
  if (dim >= 0) rule_.results[std::size_t(i)][std::size_t(dim)].push_back(factor);
  return *this;
}

RuleBuilder& RuleBuilder::shared(std::int64_t dim, std::int64_t size, FactorKind kind) {
  const int f = factor(size, kind);
  return operand(0, dim, f).result(0, dim, f);
}

RuleBuilder& RuleBuilder::all_operands(std::int64_t dim, int factor) {
  for (int i = 0; i < operand_count(); ++i) {
    if (dim < std::int64_t(operand_dims(i).size())) operand(i, dim, factor);
  }
  return *this;
}

RuleBuilder& RuleBuilder::all_results(std::int64_t dim, int factor) {
  for (int i = 0; i < result_count(); ++i) {
    if (dim < std::int64_t(result_dims(i).size())) result(i, dim, factor);
  }
  return *this;
}

RuleBuilder& RuleBuilder::private_operand(int i, std::int64_t dim, FactorKind kind, bool blocked) {
  return operand(i, dim, factor(operand_dims(i)[std::size_t(dim)], kind, blocked));
}

RuleBuilder& RuleBuilder::private_result(int i, std::int64_t dim, FactorKind kind, bool blocked) {
  return result(i, dim, factor(result_dims(i)[std::size_t(dim)], kind, blocked));
}

FactorRule RuleBuilder::finish() {
  auto complete = [&](std::vector<TensorFactors>& tensors, const std::vector<Shape>& shapes) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      for (std::size_t d = 0; d < tensors[i].size(); ++d) {
        if (tensors[i][d].empty()) tensors[i][d].push_back(factor(shapes[i].dims[d]));
      }
    }
  };
  complete(rule_.operands, operand_shapes_);
  complete(rule_.results, result_shapes_);
  return std::move(rule_);
}

std::optional<FactorRule> elementwise(const ir::Instruction& instruction) {
  if (!instruction.shape.is_array()) return std::nullopt;
  RuleBuilder rule(instruction);
  const Dims& dims = rule.result_dims(0);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    int f = rule.factor(dims[d]);
    for (int i = 0; i < rule.operand_count(); ++i) {
      if (rule.operand_dims(i).size() == dims.size()) rule.operand(i, std::int64_t(d), f);
    }
    for (int i = 0; i < rule.result_count(); ++i) {
      if (rule.result_dims(i).size() == dims.size()) rule.result(i, std::int64_t(d), f);
    }
  }
  return rule.finish();
}

}  // namespace tessera::spmd::rules
