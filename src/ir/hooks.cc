// SPDX-License-Identifier: Apache-2.0
// Prints factor rules that custom calls and custom partitioners give.
#include "src/ir/hooks.h"

namespace tessera::ir {

namespace {

/// Shardy's symbol of a factor: i to z, then z_1, z_2, ...
std::string symbol(int factor) {
  constexpr int kLetters = 'z' - 'i' + 1;
  if (factor < kLetters) return std::string(1, char('i' + factor));
  return "z_" + std::to_string(factor - kLetters + 1);
}

std::string tensors_text(const std::vector<std::vector<IndexList>>& tensors) {
  std::string out = "(";
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    out += t ? ", [" : "[";
    for (std::size_t d = 0; d < tensors[t].size(); ++d) {
      if (d) out += ", ";
      for (int f : tensors[t][d]) out += symbol(f);
    }
    out += "]";
  }
  return out + ")";
}

std::string set_text(const std::string& name, const IndexList& factors) {
  if (factors.empty()) return "";
  std::string out = " " + name + "={";
  for (std::size_t i = 0; i < factors.size(); ++i) out += (i ? ", " : "") + symbol(factors[i]);
  return out + "}";
}

}  // namespace

std::string FactorRuleSpec::to_string() const {
  std::string out = tensors_text(operands) + "->" + tensors_text(results) + " {";
  for (std::size_t f = 0; f < factor_sizes.size(); ++f) {
    out += (f ? ", " : "") + symbol(int(f)) + "=" + std::to_string(factor_sizes[f]);
  }
  return "#sdy.op_sharding_rule<" + out + "}" + set_text("reduction", reduction) +
         set_text("need_replication", need_replication) + set_text("permutation", permutation) +
         set_text("blocked_propagation", blocked) + ", custom>";
}

}  // namespace tessera::ir
