// SPDX-License-Identifier: Apache-2.0
// Where all arrays of a program are while its shardings are solved for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/contains.h"
#include "src/sharding/axes/tensor_sharding.h"
#include "src/spmd/propagation/graph.h"

namespace tessera::spmd::auto_sharding {

struct ModelState {
  const propagation::Graph& graph;
  const MeshRef mesh;
  std::vector<IndexList> groups{};            ///< axes that are placed together
  std::vector<char> active{};                 ///< by group: may be anywhere in the model
  std::vector<TensorSharding> current{};      ///< by value
  std::vector<std::int64_t> element_bytes{};  ///< by value

  bool takes_part(int v) const {
    const propagation::Value& value = graph.values[std::size_t(v)];
    return value.active && value.sharding.kind == TensorSharding::Kind::axes;
  }
  /// Those that stay where they are.
  IndexList without_active(const IndexList& axes) const {
    IndexList out;
    for (const int a : axes) {
      bool moves = false;
      for (std::size_t g = 0; g < groups.size(); ++g) {
        moves |= active[g] && contains(groups[g], a);
      }
      if (!moves) out.push_back(a);
    }
    return out;
  }
  /// By group: whether it stays where it is.
  std::vector<char> inactive() const {
    std::vector<char> out;
    for (const char a : active) out.push_back(!a);
    return out;
  }
  /// Groups of which the program runs per device along an axis are not to be put anywhere.
  void place_manual(const TensorSharding& s, std::vector<char>* placed) const {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const int a : s.manual) {
        if (contains(groups[g], a)) (*placed)[g] = 1;
      }
    }
  }
};

}  // namespace tessera::spmd::auto_sharding
