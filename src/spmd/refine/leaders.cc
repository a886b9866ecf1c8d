// SPDX-License-Identifier: Apache-2.0
// Chooses the arguments whose shardings are tried first.
#include "src/spmd/refine/leaders.h"

#include <algorithm>

namespace tessera::spmd {
namespace {

/// So many arguments, the largest, may lead; and of the rest the one that is cut in the most parts
/// along a dim.
constexpr std::size_t kMostLeaders = 3;

}  // namespace

std::vector<const ir::Instruction*> leading_arguments(const ir::Module& module) {
  struct Leader {
    const ir::Instruction* argument = nullptr;
    std::int64_t parts = 0;  ///< of the dim that is cut in the most
    std::int64_t elements = 0;
  };
  std::vector<Leader> leaders;
  for (const ir::Instruction* p : module.entry()->parameters()) {
    if (!p->shape.is_array() || p->sharding.empty() || p->sharding.front().is_replicated()) {
      continue;
    }
    const Dims shards = p->sharding.front().shards();
    if (shards.empty()) continue;  // a scalar that is a partial sum
    leaders.push_back(
        {p, *std::max_element(shards.begin(), shards.end()), p->shape.element_count()});
  }
  if (leaders.size() < 2) return {};
  std::stable_sort(leaders.begin(), leaders.end(),
                   [](const Leader& a, const Leader& b) { return a.elements > b.elements; });
  // A batch is cut in the most parts, and may be small beside the weights.
  std::stable_sort(leaders.begin() + std::ptrdiff_t(std::min(leaders.size(), kMostLeaders)),
                   leaders.end(),
                   [](const Leader& a, const Leader& b) { return a.parts > b.parts; });
  leaders.resize(std::min(leaders.size(), kMostLeaders + 1));
  std::vector<const ir::Instruction*> out;
  for (const Leader& leader : leaders) out.push_back(leader.argument);
  return out;
}

}  // namespace tessera::spmd
