// SPDX-License-Identifier: Apache-2.0
// Estimates what reshards cost.
#include "src/spmd/auto_sharding/placement.h"

#include "src/base/check.h"

namespace tessera::spmd::auto_sharding {

Placement placement_of(const TensorSharding& sharding, const LogicalMesh& mesh, const Dims& dims,
                       std::int64_t element_bytes) {
  Placement p;
  p.axes.resize(mesh.axes.size());
  p.shard_bytes = double(element_bytes);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    std::int8_t place = 0;
    for (const int a : sharding.dims[d].axes) {
      if (mesh.axes[std::size_t(a)].size > 1) {
        p.axes[std::size_t(a)] = {std::int8_t(d), place++};
      }
    }
    p.shard_bytes *= double(ceil_div(dims[d], sharding.shards(std::int64_t(d))));
  }
  for (const int a : sharding.unreduced) p.axes[std::size_t(a)].dim = Placement::kUnreduced;
  return p;
}

double estimated_price(const Placement& from, const Placement& to, const LogicalMesh& mesh,
                       const TransferCost& cost) {
  double slice = 1, scatter = 1, reduce = 1, exchange = 1, gather = 1;
  bool permute = false;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    const Placement::At f = from.axes[a], t = to.axes[a];
    if (f.dim == t.dim && f.place == t.place) continue;
    const double n = double(mesh.axes[a].size);
    if (f.dim == Placement::kUnused) {
      if (t.dim >= 0) slice *= n;
    } else if (f.dim == Placement::kUnreduced) {
      (t.dim >= 0 ? scatter : reduce) *= n;
    } else if (t.dim < 0) {
      gather *= n;
    } else if (t.dim != f.dim) {
      exchange *= n;
    } else {
      permute = true;
    }
  }
  double size = from.shard_bytes / slice, total = 0;
  const auto step = [&](double bytes) { total += bytes + cost.latency_bytes; };
  if (scatter > 1) {
    step(size * (scatter - 1) / scatter);
    size /= scatter;
  }
  if (reduce > 1) step(2 * size * (reduce - 1) / reduce);
  if (exchange > 1) step(size * (exchange - 1) / exchange);
  if (permute) step(size);
  if (gather > 1) step(size * (gather - 1));
  return total;
}

}  // namespace tessera::spmd::auto_sharding
