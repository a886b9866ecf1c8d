// SPDX-License-Identifier: Apache-2.0
// Rules of ops whose operands are indexed by values, and of custom calls.
#include <algorithm>
#include <array>
#include <string_view>

#include "src/base/contains.h"
#include "src/ir/analysis/indexed_dims.h"
#include "src/ir/constraint.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/hooks.h"
#include "src/ir/rewrite/builder.h"
#include "src/spmd/rules/rules.h"
#include "src/spmd/sharding_queries.h"

namespace tessera::spmd::rules {
namespace {

std::int64_t find(const Dims& dims, std::int64_t d) {
  auto it = std::find(dims.begin(), dims.end(), d);
  return it == dims.end() ? -1 : std::int64_t(it - dims.begin());
}

}  // namespace

std::optional<FactorRule> dynamic_slice(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const Dims &from = rule.operand_dims(0), &to = rule.result_dims(0);
  for (std::size_t u = 0; u < from.size(); ++u) {
    auto d = std::int64_t(u);
    if (from[u] == to[u]) {
      rule.shared(d, from[u]);
    } else {
      rule.private_operand(0, d, FactorKind::need_replication, true);
      rule.private_result(0, d, FactorKind::need_replication, true);
    }
  }
  return rule.finish();
}

std::optional<FactorRule> dynamic_update_slice(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const Dims &operand = rule.operand_dims(0), &update = rule.operand_dims(1);
  for (std::size_t u = 0; u < operand.size(); ++u) {
    auto d = std::int64_t(u);
    int f = rule.factor(operand[u]);
    rule.operand(0, d, f).result(0, d, f);
    if (operand[u] == update[u]) {
      rule.operand(1, d, f);
    } else {
      rule.private_operand(1, d, FactorKind::need_replication);
    }
  }
  return rule.finish();
}

std::optional<FactorRule> gather(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const ir::IndexedDims dims = ir::indexed_dims(instruction);
  const Dims &operand = rule.operand_dims(0), &indices = rule.operand_dims(1);
  for (std::int64_t d = 0, next = 0; d < std::int64_t(indices.size()); ++d) {
    if (d == dims.vector_dim) {
      rule.private_operand(1, d, FactorKind::need_replication);
      continue;
    }
    int f = rule.factor(indices[std::size_t(d)]);
    rule.operand(1, d, f).result(0, dims.batch[std::size_t(next)], f);
    if (std::int64_t i = find(dims.batching, next++); i >= 0) {
      rule.operand(0, dims.array_batching[std::size_t(i)], f);
    }
  }
  for (std::int64_t d = 0; d < std::int64_t(operand.size()); ++d) {
    std::int64_t size = operand[std::size_t(d)], taken = dims.sizes[std::size_t(d)];
    if (contains(dims.array_batching, d)) continue;
    // Some rows of many: who has them gives them, the others add nothing. Those that no index
    // names are the first ones.
    const bool named = contains(dims.mapped, d);
    FactorKind picked = size > 1 && named ? FactorKind::reduction : FactorKind::need_replication;
    const std::int64_t out = dims.in_other(d);
    if (out < 0) {
      rule.private_operand(0, d, picked);
      continue;
    }
    if (taken == size) {
      int f = rule.factor(size);
      rule.operand(0, d, f).result(0, out, f);
    } else if (taken == 1) {
      rule.private_operand(0, d, picked);
      rule.private_result(0, out, FactorKind::need_replication);
    } else {
      rule.private_operand(0, d, picked, true);
      rule.private_result(0, out, FactorKind::need_replication, true);
    }
  }
  return rule.finish();
}

std::optional<FactorRule> scatter(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const ir::IndexedDims dims = ir::indexed_dims(instruction);
  const int inputs = (rule.operand_count() - 1) / 2;
  const int index_operand = inputs;
  const Dims &operand = rule.operand_dims(0), &indices = rule.operand_dims(index_operand),
             &update = rule.operand_dims(index_operand + 1);
  auto each = [&](std::int64_t operand_dim, std::int64_t update_dim, int f) {
    for (int i = 0; i < inputs; ++i) {
      rule.operand(i, operand_dim, f).result(i, operand_dim, f);
      rule.operand(index_operand + 1 + i, update_dim, f);
    }
  };
  // Updates in several places may be added up by several devices if their order doesn't matter.
  bool sums = inputs == 1 && ir::as_binary_reducer(*instruction.called().at(0)).has_value();
  for (std::int64_t d = 0, next = 0; d < std::int64_t(indices.size()); ++d) {
    if (d == dims.vector_dim) {
      rule.private_operand(index_operand, d, FactorKind::need_replication);
      continue;
    }
    const std::int64_t update_dim = dims.batch[std::size_t(next)];
    const std::int64_t i = find(dims.batching, next++);
    FactorKind kind = i >= 0 ? FactorKind::pass_through
                             : (sums ? FactorKind::reduction : FactorKind::need_replication);
    int f = rule.factor(indices[std::size_t(d)], kind);
    rule.operand(index_operand, d, f);
    each(i >= 0 ? dims.array_batching[std::size_t(i)] : -1, update_dim, f);
  }
  for (std::int64_t d = 0; d < std::int64_t(operand.size()); ++d) {
    if (contains(dims.array_batching, d)) continue;
    int f = rule.factor(operand[std::size_t(d)]);
    const std::int64_t window = dims.in_other(d);
    if (window < 0) {
      each(d, -1, f);
      continue;
    }
    if (update[std::size_t(window)] == operand[std::size_t(d)]) {
      each(d, window, f);
    } else {
      each(d, -1, f);
      int g = rule.factor(update[std::size_t(window)], FactorKind::need_replication);
      for (int i = 0; i < inputs; ++i) rule.operand(index_operand + 1 + i, window, g);
    }
  }
  return rule.finish();
}

std::optional<FactorRule> identity(const ir::Instruction& instruction) {
  if (!instruction.shape.is_array()) return std::nullopt;
  return elementwise(instruction);
}

std::optional<FactorRule> custom_partitioning(const ir::Instruction& instruction) {
  if (const auto& hook = instruction.get<ir::CustomPartitioningAttrs>().partitioner) {
    std::vector<ir::ShapeWithSharding> args, results;
    for (const ir::Instruction* operand : instruction.operands()) {
      std::vector<Shape> leaves = flatten(operand->shape);
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        args.push_back({leaves[i], std::nullopt});
        if (i < operand->sharding.size()) args.back().sharding = operand->sharding[i];
      }
    }
    for (const Shape& leaf : flatten(instruction.shape)) results.push_back({leaf, std::nullopt});
    const ir::Module* module = instruction.parent ? instruction.parent->module() : nullptr;
    auto spec = hook->rule(module ? module->mesh : nullptr, args, results);
    if (!spec) return std::nullopt;
    return from_spec(*spec);
  }
  if (auto spec = ir::custom_call_rule(instruction)) return from_spec(*spec);
  return std::nullopt;
}

std::optional<FactorRule> custom_call(const ir::Instruction& instruction) {
  const auto& attrs = instruction.get<ir::CustomCallAttrs>();
  static constexpr std::array<std::string_view, 8> kIdentities = {
      "LayoutConstraint", "MoveToHost",  "MoveToDevice", "X64Combine",
      "X64SplitHigh",     "X64SplitLow", "mhlo.erf",     "annotate_device_placement"};
  if (contains(kIdentities, attrs.target) && instruction.shape.is_array()) {
    return elementwise(instruction);
  }
  if (auto spec = ir::custom_call_rule(instruction)) return from_spec(*spec);
  return std::nullopt;
}

}  // namespace tessera::spmd::rules
