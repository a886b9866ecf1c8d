// SPDX-License-Identifier: Apache-2.0
// Estimates what reshards cost.
#include "src/spmd/auto_sharding/placement.h"

#include <array>
#include <utility>

#include "src/base/check.h"

namespace tessera::spmd::auto_sharding {
namespace {

constexpr std::int8_t kUnused = -1, kUnreduced = -2;

}  // namespace

Placements::Placements(MeshRef mesh, cost::Machine machine)
    : mesh_(std::move(mesh)), machine_(std::move(machine)) {}

Placement Placements::of(const TensorSharding& sharding, const Dims& dims,
                         std::int64_t element_bytes) {
  Placement p;
  p.shard_bytes = double(element_bytes);
  std::string key(2 * mesh_->axes.size(), char(kUnused));
  const auto put = [&](int axis, std::int8_t dim, std::int8_t place) {
    key[2 * std::size_t(axis)] = char(dim);
    key[2 * std::size_t(axis) + 1] = char(place);
  };
  for (std::size_t d = 0; d < dims.size(); ++d) {
    std::int8_t place = 0;
    std::int64_t ways = 1;
    for (const int a : sharding.dims[d].axes) {
      const std::int64_t size = mesh_->axes[std::size_t(a)].size;
      ways *= size;
      if (size > 1) put(a, std::int8_t(d), place++);
    }
    p.shard_bytes *= double(ceil_div(dims[d], ways));
  }
  for (const int a : sharding.unreduced) put(a, kUnreduced, 0);
  const auto [it, fresh] = number_.try_emplace(std::move(key), int(all_.size()));
  p.number = it->second;
  if (fresh) {
    all_.emplace_back();
    for (std::size_t a = 0; a < mesh_->axes.size(); ++a) {
      all_.back().push_back({std::int8_t(it->first[2 * a]), std::int8_t(it->first[2 * a + 1])});
    }
    moves_.emplace_back();
  }
  return p;
}

double Placements::price(const Placement& from, const Placement& to) {
  if (from.number == to.number) return 0;
  std::vector<Move>& moves = moves_[std::size_t(from.number)];
  if (moves.size() <= std::size_t(to.number)) moves.resize(all_.size());
  Move& move = moves[std::size_t(to.number)];
  if (move.collectives < 0) find(from.number, to.number, &move);
  if (from.shard_bytes <= 0) return 0;
  if (machine_.is_uniform()) {
    return double(move.collectives) * machine_.start() +
           machine_.least_of_bytes(move.bytes * from.shard_bytes);
  }
  double total = 0;
  for (int k = 0; k < move.collectives; ++k) {
    const Step& s = steps_[std::size_t(move.first_step + k)];
    total += machine_.collective(s.kind, s.bytes * from.shard_bytes, s.route);
  }
  return total;
}

void Placements::find(int from, int to, Move* move) {
  enum { scatter, reduce, exchange, permute, gather, kinds };
  std::array<double, kinds> ways;
  ways.fill(1);
  std::array<cost::Route, kinds> routes;
  double slice = 1;
  for (std::size_t a = 0; a < mesh_->axes.size(); ++a) {
    const At f = all_[std::size_t(from)][a], t = all_[std::size_t(to)][a];
    if (f == t) continue;
    const double n = double(mesh_->axes[a].size);
    if (f.dim == kUnused) {
      if (t.dim >= 0) slice *= n;
      continue;
    }
    const auto kind = std::size_t(f.dim == kUnreduced ? (t.dim >= 0 ? scatter : reduce)
                                  : t.dim < 0         ? gather
                                  : t.dim != f.dim    ? exchange
                                                      : permute);
    ways[kind] *= n;
    if (!machine_.is_uniform()) machine_.extend(&routes[kind], *mesh_, int(a));
  }
  double size = 1 / slice;
  move->collectives = 0;
  move->first_step = int(steps_.size());
  const auto step = [&](ir::Opcode opcode, std::size_t kind, double bytes) {
    ++move->collectives;
    move->bytes += bytes;
    if (!machine_.is_uniform()) steps_.push_back({opcode, bytes, routes[kind]});
  };
  using ir::Opcode;
  if (ways[scatter] > 1) {
    step(Opcode::reduce_scatter, scatter, size * (ways[scatter] - 1) / ways[scatter]);
    size /= ways[scatter];
  }
  if (ways[reduce] > 1) {
    step(Opcode::all_reduce, reduce, cost::received_bytes(Opcode::all_reduce, size, ways[reduce]));
  }
  if (ways[exchange] > 1) {
    step(Opcode::all_to_all, exchange,
         cost::received_bytes(Opcode::all_to_all, size, ways[exchange]));
  }
  if (ways[permute] > 1) step(Opcode::collective_permute, permute, size);
  if (ways[gather] > 1) step(Opcode::all_gather, gather, size * (ways[gather] - 1));
}

}  // namespace tessera::spmd::auto_sharding
