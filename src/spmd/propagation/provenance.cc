// SPDX-License-Identifier: Apache-2.0
// Records the cause of each propagated axis.
#include "src/spmd/propagation/provenance.h"

#include <algorithm>

#include "src/base/contains.h"

namespace tessera::spmd::propagation {

const Cause* Provenance::find(int value, int dim, int axis) const {
  const std::vector<Cause>& list = causes[std::size_t(value)];
  // The last word counts: a callback may have replaced what rules had set.
  for (auto c = list.rbegin(); c != list.rend(); ++c) {
    if (c->dim == dim && contains(c->axes, axis)) {
      return &*c;
    }
  }
  return nullptr;
}

IndexList Provenance::pieces_of(const MeshAxis& axis) const {
  IndexList out;
  for (std::size_t a = 0; a < mesh->axes.size(); ++a) {
    const MeshAxis& piece = mesh->axes[a];
    // Parts of a named axis by the stretch of it that they stand for: [pre, pre * size).
    if (piece.name == axis.name && piece.pre < axis.pre * axis.size &&
        axis.pre < piece.pre * piece.size) {
      out.push_back(int(a));
    }
  }
  return out;
}

void Provenance::state(const Graph& from) {
  causes.resize(from.values.size());
  stated.resize(from.values.size());
  for (std::size_t v = 0; v < from.values.size(); ++v) {
    const Value& value = from.values[v];
    if (!value.given && value.adopted < 0) continue;
    stated[v] = value.sharding;
    for (std::size_t d = 0; d < value.sharding.dims.size(); ++d) {
      const DimSharding& dim = value.sharding.dims[d];
      if (dim.axes.empty()) continue;
      Cause c;
      c.kind = value.given ? Cause::Kind::stated : Cause::Kind::adopted;
      c.dim = c.from_dim = int(d);
      c.axes = dim.axes;
      c.from = value.adopted;
      c.priority = dim.priority;
      causes[v].push_back(std::move(c));
    }
  }
}

void Provenance::add(int value, Cause cause) {
  cause.priority = priority;
  cause.level = level;
  cause.aggressive = aggressive;
  causes[std::size_t(value)].push_back(std::move(cause));
}

}  // namespace tessera::spmd::propagation
