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

namespace {

/// Axes that one collective goes along.
struct Along {
  double ways = 1;
  cost::Route route;
};

}  // namespace

double estimated_price(const Placement& from, const Placement& to, const LogicalMesh& mesh,
                       const cost::Machine& machine) {
  Along scatter, reduce, exchange, gather, permute;
  double slice = 1;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    const Placement::At f = from.axes[a], t = to.axes[a];
    if (f.dim == t.dim && f.place == t.place) continue;
    const double n = double(mesh.axes[a].size);
    if (f.dim == Placement::kUnused) {
      if (t.dim >= 0) slice *= n;
      continue;
    }
    Along& along = f.dim == Placement::kUnreduced ? (t.dim >= 0 ? scatter : reduce)
                   : t.dim < 0                    ? gather
                   : t.dim != f.dim               ? exchange
                                                  : permute;
    along.ways *= n;
    if (!machine.is_uniform()) machine.extend(&along.route, mesh, int(a));
  }
  double size = from.shard_bytes / slice, total = 0;
  const auto step = [&](ir::Opcode kind, double bytes, const Along& along) {
    total += machine.collective(kind, bytes, along.route);
  };
  if (scatter.ways > 1) {
    step(ir::Opcode::reduce_scatter, size * (scatter.ways - 1) / scatter.ways, scatter);
    size /= scatter.ways;
  }
  if (reduce.ways > 1) {
    step(ir::Opcode::all_reduce, cost::received_bytes(ir::Opcode::all_reduce, size, reduce.ways),
         reduce);
  }
  if (exchange.ways > 1) {
    step(ir::Opcode::all_to_all, cost::received_bytes(ir::Opcode::all_to_all, size, exchange.ways),
         exchange);
  }
  if (permute.ways > 1) step(ir::Opcode::collective_permute, size, permute);
  if (gather.ways > 1) step(ir::Opcode::all_gather, size * (gather.ways - 1), gather);
  return total;
}

}  // namespace tessera::spmd::auto_sharding
