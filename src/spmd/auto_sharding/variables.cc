// SPDX-License-Identifier: Apache-2.0
// Joins arrays that have one sharding.
#include "src/spmd/auto_sharding/variables.h"

#include <algorithm>
#include <numeric>

namespace tessera::spmd::auto_sharding {

using ir::Opcode;
using propagation::Op;
using propagation::Value;

bool Variables::joins(const Op& op) {
  const Opcode code = op.instruction->opcode;
  return op.elementwise &&
         (ir::is_elementwise(code) || code == Opcode::tuple || code == Opcode::get_tuple_element);
}

int Variables::find(int v) {
  while (root_[std::size_t(v)] != v) {
    root_[std::size_t(v)] = root_[std::size_t(root_[std::size_t(v)])];
    v = root_[std::size_t(v)];
  }
  return v;
}

Variables::Variables(const ModelState& state) : state_(state) {
  const propagation::Graph& graph = state.graph;
  const auto is_free = [&](int v) {
    const Value& value = graph.values[std::size_t(v)];
    return state.takes_part(v) && !value.given && !value.boundary;
  };
  root_.resize(graph.values.size());
  std::iota(root_.begin(), root_.end(), 0);
  for (const Op& op : graph.ops) {
    if (!joins(op)) continue;
    for (const int r : op.results) {
      if (!is_free(r)) continue;
      const Value& result = graph.values[std::size_t(r)];
      for (const int o : op.operands) {
        if (!is_free(o)) continue;
        const Value& operand = graph.values[std::size_t(o)];
        if (operand.dims != result.dims || operand.sharding.manual != result.sharding.manual) {
          continue;
        }
        const int a = find(o), b = find(r);
        root_[std::size_t(std::max(a, b))] = std::min(a, b);
      }
    }
  }
  for (std::size_t v = 0; v < root_.size(); ++v) {
    root_[v] = find(int(v));
    members_[root_[v]].push_back(int(v));
  }
  first_met_.resize(graph.ops.size());
  std::vector<char> seen(root_.size(), 0);
  for (std::size_t o = 0; o < graph.ops.size(); ++o) {
    for (const IndexList* list : {&graph.ops[o].operands, &graph.ops[o].results}) {
      for (const int v : *list) {
        const int root = root_of(v);
        if (!state.takes_part(v) || seen[std::size_t(root)]) continue;
        seen[std::size_t(root)] = 1;
        first_met_[o].push_back(root);
      }
    }
  }
}

bool Variables::is_one(const Op& op) const {
  if (!joins(op)) return false;
  int root = -1;
  for (const IndexList* list : {&op.operands, &op.results}) {
    for (const int v : *list) {
      if (!state_.takes_part(v)) continue;
      if (root >= 0 && root_of(v) != root) return false;
      root = root_of(v);
    }
  }
  return true;
}

}  // namespace tessera::spmd::auto_sharding
