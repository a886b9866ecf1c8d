// SPDX-License-Identifier: Apache-2.0
// Factor rules: printing, conversion from specs, dispatch by opcode.
#include "src/spmd/rules/factor_rule.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/spmd/rules/rules.h"

namespace tessera::spmd {
namespace {

/// i, j, ..., z, z_1, z_2, ...
std::string factor_name(int factor) {
  if (factor <= 'z' - 'i') return std::string(1, char('i' + factor));
  return "z_" + std::to_string(factor - ('z' - 'i'));
}

std::string tensor_text(const TensorFactors& tensor) {
  std::string text = "[";
  for (std::size_t d = 0; d < tensor.size(); ++d) {
    if (d > 0) text += ", ";
    for (int f : tensor[d]) text += factor_name(f);
  }
  return text + "]";
}

std::string tensors_text(const std::vector<TensorFactors>& tensors) {
  std::string text = "(";
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (i > 0) text += ", ";
    text += tensor_text(tensors[i]);
  }
  return text + ")";
}

}  // namespace

std::string FactorRule::to_string() const {
  std::string text = tensors_text(operands) + "->" + tensors_text(results) + " {";
  for (std::size_t f = 0; f < factors.size(); ++f) {
    if (f > 0) text += ", ";
    text += factor_name(int(f)) + "=" + std::to_string(factors[f].size);
  }
  text += "}";
  auto list = [&](const char* label, auto is_listed) {
    std::string names;
    for (std::size_t f = 0; f < factors.size(); ++f) {
      if (is_listed(factors[f])) names += (names.empty() ? "" : ", ") + factor_name(int(f));
    }
    if (!names.empty()) text += std::string(" ") + label + "={" + names + "}";
  };
  list("reduction", [](const Factor& f) { return f.kind == FactorKind::reduction; });
  list("need_replication", [](const Factor& f) { return f.kind == FactorKind::need_replication; });
  list("permutation", [](const Factor& f) { return f.kind == FactorKind::permutation; });
  list("blocked_propagation", [](const Factor& f) { return f.blocked; });
  return text;
}

FactorRule from_spec(const ir::FactorRuleSpec& spec) {
  FactorRule rule;
  for (std::int64_t size : spec.factor_sizes) rule.factors.push_back({size});
  auto mark = [&](const IndexList& list, FactorKind kind) {
    for (int f : list) {
      TESSERA_CHECK(f >= 0 && std::size_t(f) < rule.factors.size(),
                    "a sharding rule marks factor " + std::to_string(f) + ", which it lacks");
      rule.factors[std::size_t(f)].kind = kind;
    }
  };
  mark(spec.reduction, FactorKind::reduction);
  mark(spec.need_replication, FactorKind::need_replication);
  mark(spec.permutation, FactorKind::permutation);
  for (const int f : spec.blocked) {
    TESSERA_CHECK(f >= 0 && std::size_t(f) < rule.factors.size(),
                  "a sharding rule blocks factor " + std::to_string(f) + ", which it lacks");
    rule.factors[std::size_t(f)].blocked = true;
  }
  rule.operands = spec.operands;
  rule.results = spec.results;
  return rule;
}

std::optional<FactorRule> rule_for(const ir::Instruction& instruction) {
  switch (instruction.opcode) {
#define OP(enumerator, text, operands, attributes, types, shape, factors, ...) \
  case ir::Opcode::enumerator:                                                 \
    return rules::factors(instruction);
#include "src/ir/opcode_list.inc"
  }
  return std::nullopt;
}

}  // namespace tessera::spmd
