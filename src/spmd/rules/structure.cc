// SPDX-License-Identifier: Apache-2.0
// Rules of ops that only arrange elements.
#include <algorithm>
#include <numeric>

#include "src/base/contains.h"
#include "src/spmd/rules/rules.h"

namespace tessera::spmd::rules {

std::optional<FactorRule> broadcast(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const Dims& map = instruction.get<ir::DimensionsAttrs>().dims;
  const Dims &from = rule.operand_dims(0), &to = rule.result_dims(0);
  for (std::size_t d = 0; d < to.size(); ++d) {
    int f = rule.factor(to[d]);
    rule.result(0, std::int64_t(d), f);
    auto i = std::find(map.begin(), map.end(), std::int64_t(d)) - map.begin();
    // A dim of size 1 that is expanded is another dim.
    if (i < std::ptrdiff_t(map.size()) && from[std::size_t(i)] == to[d]) rule.operand(0, i, f);
  }
  return rule.finish();
}

std::optional<FactorRule> transpose(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const Dims& permutation = instruction.get<ir::DimensionsAttrs>().dims;
  for (std::size_t d = 0; d < permutation.size(); ++d) {
    int f = rule.factor(rule.result_dims(0)[d]);
    rule.result(0, std::int64_t(d), f).operand(0, permutation[d], f);
  }
  return rule.finish();
}

std::optional<FactorRule> result_only(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  return rule.finish();
}

std::optional<FactorRule> reshape(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const Dims &from = rule.operand_dims(0), &to = rule.result_dims(0);
  if (contains(from, 0)) return std::nullopt;
  std::size_t i = 0, j = 0;
  std::int64_t left = 1, right = 1;              // what remains of dims i and j
  std::int64_t left_count = 1, right_count = 1;  // elements gone by, major to minor
  bool i_open = false, j_open = false;
  auto advance = [](const Dims& dims, std::size_t& d, bool& open, std::int64_t& rest) {
    // Skips dims of size 1.
    while (!open && d < dims.size()) {
      if (dims[d] > 1) {
        open = true;
        rest = dims[d];
      } else {
        ++d;
      }
    }
  };
  auto take = [](std::size_t& d, bool& open, std::int64_t& rest, std::int64_t size) {
    rest /= size;
    if (rest == 1) {
      open = false;
      ++d;
    }
  };
  for (;;) {
    advance(from, i, i_open, left);
    advance(to, j, j_open, right);
    if (!i_open || !j_open) break;
    std::int64_t common = std::gcd(left, right);
    if (common > 1 && left_count == right_count) {
      int f = rule.factor(common);
      rule.operand(0, std::int64_t(i), f).result(0, std::int64_t(j), f);
      left_count *= common;
      right_count *= common;
      take(i, i_open, left, common);
      take(j, j_open, right, common);
      continue;
    }
    // The shapes diverge: private factors until both have passed equally many elements.
    do {
      if (left_count <= right_count) {
        rule.operand(0, std::int64_t(i), rule.factor(left));
        left_count *= left;
        take(i, i_open, left, left);
        if (left_count != right_count) advance(from, i, i_open, left);
      } else {
        rule.result(0, std::int64_t(j), rule.factor(right));
        right_count *= right;
        take(j, j_open, right, right);
        if (left_count != right_count) advance(to, j, j_open, right);
      }
    } while (left_count != right_count);
  }
  return rule.finish();
}

std::optional<FactorRule> concatenate(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const std::int64_t along = instruction.get<ir::DimensionsAttrs>().dims.at(0);
  for (std::int64_t d = 0; d < std::int64_t(rule.result_dims(0).size()); ++d) {
    FactorKind kind = FactorKind::pass_through;
    if (d == along) {
      // Rolls and halos are written as concatenations of slices.
      bool slices = std::all_of(instruction.operands().begin(), instruction.operands().end(),
                                [](const auto* o) { return o->is(ir::Opcode::slice); });
      kind = slices ? FactorKind::permutation : FactorKind::need_replication;
    }
    int f = rule.factor(rule.result_dims(0)[std::size_t(d)], kind);
    rule.all_operands(d, f).result(0, d, f);
  }
  return rule.finish();
}

std::optional<FactorRule> slice(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const auto& attrs = instruction.get<ir::SliceAttrs>();
  const Dims &from = rule.operand_dims(0), &to = rule.result_dims(0);
  for (std::size_t d = 0; d < from.size(); ++d) {
    bool full = attrs.starts[d] == 0 && to[d] == from[d];
    rule.shared(std::int64_t(d), from[d],
                full ? FactorKind::pass_through : FactorKind::permutation);
  }
  return rule.finish();
}

std::optional<FactorRule> pad(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const auto& attrs = instruction.get<ir::PadAttrs>();
  const Dims &from = rule.operand_dims(0), &to = rule.result_dims(0);
  for (std::size_t d = 0; d < from.size(); ++d) {
    bool same = attrs.dims[d] == ir::PadDim{};
    rule.shared(std::int64_t(d), std::max(from[d], to[d]),
                same ? FactorKind::pass_through : FactorKind::permutation);
  }
  return rule.finish();
}

std::optional<FactorRule> reverse(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const Dims& dims = instruction.get<ir::DimensionsAttrs>().dims;
  for (std::int64_t d = 0; d < std::int64_t(rule.result_dims(0).size()); ++d) {
    bool reversed = contains(dims, d);
    rule.shared(d, rule.result_dims(0)[std::size_t(d)],
                reversed ? FactorKind::permutation : FactorKind::pass_through);
  }
  return rule.finish();
}

std::optional<FactorRule> bitcast_convert(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const auto from = std::int64_t(rule.operand_dims(0).size());
  const auto to = std::int64_t(rule.result_dims(0).size());
  for (std::int64_t d = 0; d < std::min(from, to); ++d) {
    rule.shared(d, rule.result_dims(0)[std::size_t(d)]);
  }
  // The bytes of one element.
  if (from > to) rule.private_operand(0, to, FactorKind::need_replication);
  if (to > from) rule.private_result(0, from, FactorKind::need_replication);
  return rule.finish();
}

}  // namespace tessera::spmd::rules
