// SPDX-License-Identifier: Apache-2.0
// Goes back from results to donated parameters.
#include "src/frontend/run/donated_placement.h"

#include <algorithm>
#include <deque>
#include <tuple>
#include <unordered_map>

namespace tessera::frontend {
namespace {

/// What is further back, or behind more ops, isn't looked for.
constexpr int kFurthest = 24;
constexpr std::size_t kMostOps = 400;

/// What a value is made of by elements, or goes on from in a loop.
std::vector<const ir::Instruction*> before(const ir::Instruction& i) {
  std::vector<const ir::Instruction*> out;
  if (i.opcode == ir::Opcode::get_tuple_element) {
    const ir::Instruction* whole = i.operands()[0];
    const auto k = std::size_t(i.get<ir::GetTupleElementAttrs>().index);
    if (whole->is(ir::Opcode::while_)) whole = whole->operands()[0];
    if (whole->is(ir::Opcode::tuple)) out.push_back(whole->operands()[k]);
    return out;
  }
  const bool passes = ir::is_elementwise(i.opcode) || i.is(ir::Opcode::copy) ||
                      i.is(ir::Opcode::dynamic_update_slice) || i.is(ir::Opcode::scatter);
  if (!passes) return out;
  for (const ir::Instruction* operand : i.operands()) {
    if (operand->shape.is_array() && operand->shape.dims == i.shape.dims) out.push_back(operand);
  }
  return out;
}

struct Pair {
  int distance;
  std::size_t result, parameter;
  bool operator<(const Pair& other) const {
    return std::tie(distance, result, parameter) <
           std::tie(other.distance, other.result, other.parameter);
  }
};

void find_pairs(const ir::Instruction* result, std::size_t number, const std::vector<bool>& donors,
                std::vector<Pair>* pairs) {
  std::unordered_map<const ir::Instruction*, int> distance{{result, 0}};
  std::deque<const ir::Instruction*> next{result};
  while (!next.empty() && distance.size() < kMostOps) {
    const ir::Instruction* i = next.front();
    next.pop_front();
    const int here = distance[i];
    if (const auto* p = i->attrs.get_if<ir::ParameterAttrs>()) {
      const auto n = std::size_t(p->number);
      if (donors[n] && i->shape == result->shape) pairs->push_back({here, number, n});
      continue;
    }
    if (here == kFurthest) continue;
    for (const ir::Instruction* operand : before(*i)) {
      if (distance.try_emplace(operand, here + 1).second) next.push_back(operand);
    }
  }
}

}  // namespace

std::vector<std::optional<std::size_t>> donors_of_results(const ir::Module& module,
                                                          const std::vector<bool>& open,
                                                          const std::vector<bool>& donors) {
  const ir::Computation& entry = *module.entry();
  std::vector<const ir::Instruction*> results{entry.root()};
  if (entry.root()->is(ir::Opcode::tuple)) {
    results.assign(entry.root()->operands().begin(), entry.root()->operands().end());
  }
  std::vector<std::optional<std::size_t>> out(open.size());
  if (results.size() != open.size()) return out;
  std::vector<Pair> pairs;
  for (std::size_t r = 0; r < results.size(); ++r) {
    // A result that isn't open may be the successor that a parameter has.
    find_pairs(results[r], r, donors, &pairs);
  }
  std::sort(pairs.begin(), pairs.end());
  std::vector<bool> taken(donors.size(), false), settled(results.size(), false);
  const auto settle = [&](std::size_t r, std::size_t p) {
    taken[p] = settled[r] = true;
    if (open[r]) out[r] = p;
  };
  for (const Pair& pair : pairs) {
    if (!taken[pair.parameter] && !settled[pair.result]) settle(pair.result, pair.parameter);
  }
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (settled[r] || !open[r]) continue;
    for (std::size_t p = 0; p < donors.size(); ++p) {
      if (!donors[p] || taken[p] || !(entry.parameter(p)->shape == results[r]->shape)) continue;
      settle(r, p);
      break;
    }
  }
  return out;
}

}  // namespace tessera::frontend
