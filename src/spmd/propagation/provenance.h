// SPDX-License-Identifier: Apache-2.0
// Why each array got its sharding: what set each axis, back to what the program states.
// Also called: optimisation remarks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/spmd/propagation/graph.h"

namespace tessera::spmd::propagation {

/// Axes that came to stand on one dim of a value, and where from.
struct Cause {
  enum class Kind : std::uint8_t {
    stated,    ///< the program states them: Value::given_by
    adopted,   ///< a constraint on this very array states them: `from`
    rule,      ///< along a factor of `op`, from a dim of `from`
    callback,  ///< a callback of custom_partitioning named them
  };
  Kind kind = Kind::stated;
  int dim = 0;
  IndexList axes;  ///< of Provenance::mesh
  int op = -1;     ///< of graph.ops; of graph.callbacks for a callback
  int from = -1, from_dim = -1;
  int factor = -1;  ///< of the op's rule
  int priority = 0, level = 0;
  bool aggressive = false;
};

/// Filled by propagate(), if asked for. Its instructions are those of the propagated module.
struct Provenance {
  Graph graph;
  MeshRef mesh;                            ///< the fine mesh of all causes and values
  std::vector<std::vector<Cause>> causes;  ///< by value, in the order of events
  std::vector<TensorSharding> stated;      ///< by value: as the program states it

  /// What put an axis on a dim of a value; null if nothing did.
  const Cause* find(int value, int dim, int axis) const;
  /// Of this mesh the axes that make up an axis of another refinement of the same named axes.
  IndexList pieces_of(const MeshAxis& axis) const;

  // While propagating: under which rules.
  int priority = 0, level = 0;
  bool aggressive = false;
  void state(const Graph& graph);
  void add(int value, Cause cause);
};

}  // namespace tessera::spmd::propagation
