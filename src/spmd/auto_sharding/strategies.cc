// SPDX-License-Identifier: Apache-2.0
// Groups strategies by what they ask of tensors.
#include "src/spmd/auto_sharding/strategies.h"

#include <string>
#include <unordered_map>

namespace tessera::spmd::auto_sharding {

Columns columns_of(const FactorRule& rule, const Strategies& strategies,
                   const std::vector<TensorUse>& tensors) {
  std::vector<char> matters(rule.factors.size(), 0);
  for (const TensorUse& t : tensors) {
    for (const IndexList& dim : *t.factors) {
      for (const int f : dim) matters[std::size_t(f)] = 1;
    }
    for (std::size_t f = 0; t.is_result && f < matters.size(); ++f) {
      matters[f] |= !strategies.uses[f].in_result;
    }
  }
  Columns out;
  std::unordered_map<std::string, int> known;
  std::string key;
  for (std::size_t k = 0; k < strategies.list.size(); ++k) {
    key.clear();
    for (std::size_t f = 0; f < matters.size(); ++f) {
      if (!matters[f]) continue;
      for (const int a : strategies.list[k][f]) key.push_back(char(a + 1));
      key.push_back(0);
    }
    const auto [it, fresh] = known.try_emplace(key, int(out.example.size()));
    if (fresh) out.example.push_back(k);
    out.of.push_back(it->second);
  }
  return out;
}

std::vector<std::vector<std::size_t>> blocks(std::size_t groups) {
  std::vector<std::vector<std::size_t>> out;
  if (groups <= 2) {
    out.emplace_back(groups);
    for (std::size_t g = 0; g < groups; ++g) out.back()[g] = g;
    return out;
  }
  for (std::size_t a = 0; a < groups; ++a) {
    for (std::size_t b = a + 1; b < groups; ++b) out.push_back({a, b});
  }
  return out;
}

}  // namespace tessera::spmd::auto_sharding
