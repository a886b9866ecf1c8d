// SPDX-License-Identifier: Apache-2.0
// Factor rules: printing, conversion from specs, dispatch by opcode.
#include "src/spmd/factor_rule.h"

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
  auto list = [&](const char* label, auto wanted) {
    std::string names;
    for (std::size_t f = 0; f < factors.size(); ++f) {
      if (wanted(factors[f])) names += (names.empty() ? "" : ", ") + factor_name(int(f));
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
  rule.operands = spec.operands;
  rule.results = spec.results;
  return rule;
}

std::optional<FactorRule> rule_for(const ir::Instruction& instruction) {
  using ir::Opcode;
  switch (instruction.opcode) {
    case Opcode::broadcast:
      return rules::broadcast(instruction);
    case Opcode::reshape:
      return rules::reshape(instruction);
    case Opcode::transpose:
      return rules::transpose(instruction);
    case Opcode::iota:
    case Opcode::rng:
      return rules::result_only(instruction);
    case Opcode::rng_bit_generator:
      return rules::rng_bit_generator(instruction);
    case Opcode::concatenate:
      return rules::concatenate(instruction);
    case Opcode::slice:
      return rules::slice(instruction);
    case Opcode::pad:
      return rules::pad(instruction);
    case Opcode::reverse:
      return rules::reverse(instruction);
    case Opcode::bitcast_convert:
      return rules::bitcast_convert(instruction);
    case Opcode::dot:
      return rules::dot(instruction);
    case Opcode::convolution:
      return rules::convolution(instruction);
    case Opcode::reduce:
      return rules::reduce(instruction);
    case Opcode::reduce_window:
      return rules::reduce_window(instruction);
    case Opcode::select_and_scatter:
      return rules::select_and_scatter(instruction);
    case Opcode::sort:
      return rules::sort(instruction);
    case Opcode::topk:
      return rules::top_k(instruction, instruction.operand(0)->shape.rank() - 1);
    case Opcode::fft:
      return rules::fft(instruction);
    case Opcode::cholesky:
      return rules::cholesky(instruction);
    case Opcode::triangular_solve:
      return rules::triangular_solve(instruction);
    case Opcode::batch_norm_training:
    case Opcode::batch_norm_inference:
    case Opcode::batch_norm_grad:
      return rules::batch_norm(instruction);
    case Opcode::dynamic_slice:
      return rules::dynamic_slice(instruction);
    case Opcode::dynamic_update_slice:
      return rules::dynamic_update_slice(instruction);
    case Opcode::gather:
      return rules::gather(instruction);
    case Opcode::scatter:
      return rules::scatter(instruction);
    case Opcode::custom_call:
      return rules::custom_call(instruction);
    case Opcode::all_reduce:
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
    case Opcode::all_to_all:
    case Opcode::collective_permute:
    case Opcode::collective_broadcast:
      if (instruction.operands().size() != flatten(instruction.shape).size()) return std::nullopt;
      return rules::collective(instruction);
    case Opcode::map:
      return rules::elementwise(instruction);
    default:
      break;
  }
  if (ir::is_elementwise(instruction.opcode) && instruction.shape.is_array()) {
    return rules::elementwise(instruction);
  }
  return std::nullopt;
}

}  // namespace tessera::spmd
