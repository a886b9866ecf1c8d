// SPDX-License-Identifier: Apache-2.0
// The steps that lead from one placement of axes to others.
#include "src/spmd/reshard/moves.h"

#include <limits>

namespace tessera::spmd::reshard {
namespace {

using Kind = ReshardStep::Kind;

// Beyond this many axes the moves that only reorder are limited to those that look useful.
constexpr int kFreeAxes = 4;
constexpr int kMaxPermutes = 128;

}  // namespace

void Moves::reshapes(const Placement& state, const Reach& reach) {
  const From from{state, Lists(problem_, state), shard_bytes(problem_, state), reach};
  slices(from);
  masks(from);
  unshards(from);
  for (int d = 0; d < problem_.dims; ++d) all_to_alls(from, d);
  Move gather;
  gather.kind = Kind::all_gather;
  gather.operand_bytes = from.bytes;
  gathers(from, state, 0, from.bytes, gather);
  if (unsigned clear = from.lists.unreduced & ~target_.unreduced; clear != 0) {
    reductions(from, clear);
  }
}

void Moves::permutes(const Placement& state, const Reach& reach) {
  const From from{state, Lists(problem_, state), shard_bytes(problem_, state), reach};
  // All axes that stand on dims are free to stand elsewhere.
  Placement next = state;
  unsigned free = from.lists.unused;
  for (int d = 0; d < problem_.dims; ++d) {
    for (int k = 0; k < from.lists.count[d]; ++k) {
      const int a = from.lists.axes[d][k];
      next.axis[a] = Placement::kUnused;
      free |= 1u << a;
    }
  }
  const bool few = problem_.axes <= kFreeAxes;
  int budget = few ? std::numeric_limits<int>::max() : kMaxPermutes;
  fill(from, next, free, 0, 0, 1, !few, budget);
}

void Moves::slices(const From& from) {
  for (int d = 0; d < problem_.dims; ++d) {
    for (int a = 0; a < problem_.axes; ++a) {
      std::uint8_t axis = std::uint8_t(a);
      if (from.lists.unused >> a & 1) slice(from, d, &axis, 1);
    }
    // Uneven blocks of blocks are no blocks: the target's are cut at once.
    const std::uint8_t* next = target_.axes[d].data() + from.lists.count[d];
    int run = 0;
    while (from.lists.count[d] + run < target_.count[d] && (from.lists.unused >> next[run] & 1))
      ++run;
    for (int count = 2; count <= run; ++count) slice(from, d, next, count);
  }
}

void Moves::slice(const From& from, int d, const std::uint8_t* axes, int count) {
  Placement next = from.state;
  std::int64_t parts = 1;
  for (int k = 0; k < count; ++k) {
    next.axis[axes[k]] = Placement::code(d, from.lists.count[d] + k);
    parts *= problem_.axis_size[axes[k]];
  }
  Move move;
  move.dim = move.to_dim = d;
  move.axes = axes;
  move.axis_count = count;
  move.operand_bytes = from.bytes;
  add_split(&move, from, d, parts);
  from.reach(next, move);
}

void Moves::masks(const From& from) {
  unsigned requested = from.lists.unused & target_.unreduced;
  for (int a = 0; a < problem_.axes; ++a) {
    if (!(requested >> a & 1)) continue;
    Placement next = from.state;
    next.axis[a] = Placement::kUnreduced;
    std::uint8_t axis = std::uint8_t(a);
    Move move;
    move.axes = &axis;
    move.axis_count = 1;
    move.operand_bytes = from.bytes;
    from.reach(next, move);
  }
}

void Moves::unshards(const From& from) {
  for (int d = 0; d < problem_.dims; ++d) {
    Placement next = from.state;
    std::int64_t parts = 1;
    for (int first = from.lists.count[d] - 1; first >= 0; --first) {
      const int a = from.lists.axes[d][first];
      if (!(target_.unreduced >> a & 1)) break;
      next.axis[a] = Placement::kUnreduced;
      parts *= problem_.axis_size[a];
      Move move;
      move.kind = Kind::unshard;
      move.dim = move.to_dim = d;
      move.axes = from.lists.axes[d].data() + first;
      move.axis_count = from.lists.count[d] - first;
      move.operand_bytes = from.bytes;
      const std::int64_t ways = from.lists.ways[d] / parts;
      add_reblock(&move, from.lists, d, ways, rows(from.lists, d) * parts,
                  ceil_div(problem_.size[d], ways), row(from.lists, d, from.bytes));
      from.reach(next, move);
    }
  }
}

void Moves::all_to_alls(const From& from, int d) {
  Placement gathered = from.state;
  std::int64_t parts = 1;
  for (int first = from.lists.count[d] - 1; first >= 0; --first) {
    int moved = from.lists.count[d] - first;
    const std::uint8_t* axes = from.lists.axes[d].data() + first;
    gathered.axis[axes[0]] = Placement::kUnused;
    parts *= problem_.axis_size[axes[0]];
    for (int to = 0; to < problem_.dims; ++to) {
      if (to == d) continue;
      Placement next = gathered;
      for (int k = 0; k < moved; ++k) {
        next.axis[axes[k]] = Placement::code(to, from.lists.count[to] + k);
      }
      Move move;
      move.kind = Kind::all_to_all;
      move.dim = d;
      move.to_dim = to;
      move.axes = axes;
      move.axis_count = moved;
      move.operand_bytes = from.bytes;
      // What travels is padded to full blocks.
      const std::int64_t block = add_split(&move, from, to, parts);
      double sent = row(from.lists, to, from.bytes) * double(parts * block);
      add_collective(&move, ir::Opcode::all_to_all,
                     cost::received_bytes(ir::Opcode::all_to_all, sent, double(parts)), axes,
                     moved);
      std::int64_t ways = from.lists.ways[d] / parts, joined = rows(from.lists, d) * parts;
      double line = rows(from.lists, d) > 0 ? sent / double(joined) : 0;
      add_reblock(&move, from.lists, d, ways, joined, ceil_div(problem_.size[d], ways), line);
      from.reach(next, move);
    }
  }
}

void Moves::gathers(const From& from, const Placement& state, int from_dim, double bytes,
                    const Move& before) {
  const Lists& s = from.lists;
  for (int d = from_dim; d < problem_.dims; ++d) {
    Placement next = state;
    std::int64_t parts = 1;
    for (int first = s.count[d] - 1; first >= 0; --first) {
      int a = s.axes[d][first];
      next.axis[a] = Placement::kUnused;
      parts *= problem_.axis_size[a];
      Move move = before;
      // What is gathered is `parts` times what was there.
      add_collective(&move, ir::Opcode::all_gather, bytes * double(parts - 1),
                     s.axes[d].data() + first, s.count[d] - first);
      std::int64_t ways = s.ways[d] / parts;
      add_reblock(&move, s, d, ways, rows(s, d) * parts, ceil_div(problem_.size[d], ways),
                  row(s, d, bytes));
      from.reach(next, move);
      gathers(from, next, d + 1, shard_bytes(problem_, next), move);
    }
  }
}

void Moves::reductions(const From& from, unsigned clear) {
  std::array<std::uint8_t, kMaxAxes> axes;
  Move move;
  move.kind = Kind::all_reduce;
  move.axes = axes.data();
  move.operand_bytes = from.bytes;
  double parts = 1;
  Placement next = from.state;
  for (int a = 0; a < problem_.axes; ++a) {
    if (!(clear >> a & 1)) continue;
    axes[move.axis_count++] = std::uint8_t(a);
    parts *= double(problem_.axis_size[a]);
    next.axis[a] = Placement::kUnused;
  }
  add_collective(&move, ir::Opcode::all_reduce,
                 cost::received_bytes(ir::Opcode::all_reduce, from.bytes, parts), axes.data(),
                 move.axis_count);
  from.reach(next, move);
  const bool all = move.axis_count <= kFreeAxes;
  for (int d = 0; d < problem_.dims; ++d) {
    scatter(from, clear, d, axes, 0, 1, all);
  }
}

void Moves::scatter(const From& from, unsigned left, int d,
                    std::array<std::uint8_t, kMaxAxes>& axes, int count, std::int64_t parts,
                    bool all) {
  for (int a = 0; a < problem_.axes; ++a) {
    if (!(left >> a & 1)) continue;
    int place = from.lists.count[d] + count;
    bool next_of_target = place < target_.count[d] && target_.axes[d][place] == a;
    if (!all && count > 0 && !next_of_target) continue;
    axes[count] = std::uint8_t(a);
    std::int64_t all_parts = parts * problem_.axis_size[a];
    Placement next = from.state;
    for (int k = 0; k <= count; ++k)
      next.axis[axes[k]] = Placement::code(d, from.lists.count[d] + k);
    Move move;
    move.kind = Kind::reduce_scatter;
    move.dim = move.to_dim = d;
    move.axes = axes.data();
    move.axis_count = count + 1;
    move.operand_bytes = from.bytes;
    const std::int64_t block = add_split(&move, from, d, all_parts);
    add_collective(&move, ir::Opcode::reduce_scatter,
                   row(from.lists, d, from.bytes) * double(block) * double(all_parts - 1),
                   axes.data(), count + 1);
    from.reach(next, move);
    scatter(from, left & ~(1u << a), d, axes, count + 1, all_parts, all);
  }
}

void Moves::fill(const From& from, Placement& next, unsigned left, int d, int place,
                 std::int64_t ways, bool useful, int& budget, int least) {
  if (budget <= 0) return;
  if (d == problem_.dims) {
    if (next == from.state) return;
    --budget;
    Move move;
    move.kind = Kind::permute;
    move.operand_bytes = from.bytes;
    std::array<std::uint8_t, kMaxAxes> changed;
    int count = 0;
    for (int a = 0; a < problem_.axes; ++a) {
      if (next.axis[a] != from.state.axis[a]) changed[count++] = std::uint8_t(a);
    }
    add_collective(&move, ir::Opcode::collective_permute, from.bytes, changed.data(), count);
    from.reach(next, move);
    return;
  }
  const std::int64_t all_ways = from.lists.ways[d] / problem_.fixed_ways[d];
  if (ways == all_ways) {
    fill(from, next, left, d + 1, 0, 1, useful, budget);
    return;
  }
  auto fits = [&](int a) {
    return (left >> a & 1) && all_ways % (ways * problem_.axis_size[a]) == 0;
  };
  auto use = [&](int a, int next_least) {
    next.axis[a] = Placement::code(d, place);
    fill(from, next, left & ~(1u << a), d, place + 1, ways * problem_.axis_size[a], useful, budget,
         next_least);
    next.axis[a] = Placement::kUnused;
  };
  if (useful && least == 0 && place < target_.count[d] && fits(target_.axes[d][place])) {
    use(target_.axes[d][place], 0);
    return;
  }
  for (int a = useful ? least : 0; a < problem_.axes; ++a) {
    if (fits(a)) use(a, useful ? a + 1 : 0);
  }
}

void Moves::add_collective(Move* move, ir::Opcode kind, double bytes, const std::uint8_t* axes,
                           int count) const {
  cost::Route route;
  for (int k = 0; k < count; ++k) route.add(problem_.route[axes[k]]);
  move->bytes += bytes;
  ++move->collectives;
  // Of an array without elements too there is something to start.
  move->seconds += bytes > 0 ? machine_.collective(kind, bytes, route) : machine_.start();
}

std::int64_t Moves::add_split(Move* move, const From& from, int d, std::int64_t parts) {
  const Lists& s = from.lists;
  const std::int64_t block = ceil_div(problem_.size[d], s.ways[d] * parts);
  add_reblock(move, s, d, s.ways[d], rows(s, d), parts * block, row(s, d, from.bytes));
  return block;
}

void Moves::add_reblock(Move* move, const Lists& s, int dim, std::int64_t ways, std::int64_t from,
                        std::int64_t to, double row) {
  if (from == to || ways == 1) return;
  const auto [known, fresh] =
      reblocks_.try_emplace({ways, std::int64_t(problem_.size[dim]), from, to});
  if (fresh) known->second = reblock(ways, problem_.size[dim], from, to);
  const Reblock& r = known->second;
  cost::Route route;
  std::int64_t covered = problem_.fixed_ways[dim];
  for (int k = 0; k < s.count[dim] && covered < ways; ++k) {
    route.add(problem_.route[s.axes[dim][k]]);
    covered *= problem_.axis_size[s.axes[dim][k]];
  }
  move->bytes += double(r.rows) * row;
  move->collectives += r.permutes;
  move->seconds += machine_.permutes(double(r.rows) * row, r.permutes, route);
}

std::vector<SearchStep> Moves::gather_steps(const Placement& from, const Placement& to,
                                            const IndexList& dims, double peak) {
  const Lists before(problem_, from), after(problem_, to);
  std::vector<SearchStep> gathers;
  Placement state = from;
  for (int d : dims) {
    SearchStep step;
    step.kind = Kind::all_gather;
    step.dim = step.to_dim = d;
    double bytes = shard_bytes(problem_, state);
    std::int64_t parts = before.ways[d] / after.ways[d];
    for (int k = after.count[d]; k < before.count[d]; ++k) {
      int a = before.axes[d][k];
      step.axes.push_back(std::uint8_t(a));
      state.axis[a] = Placement::kUnused;
    }
    Move move;
    move.bytes = bytes * double(parts - 1);
    move.collectives = 1;
    add_reblock(&move, before, d, after.ways[d], rows(before, d) * parts, rows(after, d),
                row(before, d, bytes));
    step.bytes = move.bytes;
    step.collectives = move.collectives;
    step.after = state;
    step.peak = peak;
    gathers.push_back(std::move(step));
  }
  return gathers;
}

double shard_bytes(const SearchProblem& problem, const Placement& p) {
  std::array<std::int64_t, kMaxDims> ways;
  for (int d = 0; d < problem.dims; ++d) ways[d] = problem.fixed_ways[d];
  for (int a = 0; a < problem.axes; ++a) {
    if (p.axis[a] < Placement::kUnreduced) ways[p.axis[a] >> 4] *= problem.axis_size[a];
  }
  double bytes = problem.element_bytes;
  for (int d = 0; d < problem.dims; ++d) bytes *= double(ceil_div(problem.size[d], ways[d]));
  return bytes;
}

}  // namespace tessera::spmd::reshard
