// SPDX-License-Identifier: Apache-2.0
// A* over placements of axes: the cheapest sequence of collectives between two shardings.
#include "src/spmd/reshard/search.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <queue>
#include <string>
#include <unordered_map>

#include "src/base/check.h"

namespace tessera::spmd::reshard {
namespace {

using Kind = ReshardStep::Kind;

// Beyond this many axes the moves that only reorder are limited to those that look useful.
constexpr int kFreeAxes = 4;
constexpr int kMaxPermutes = 128;

struct PlacementHash {
  std::size_t operator()(const Placement& p) const {
    std::uint64_t a, b;
    std::memcpy(&a, p.axis.data(), 8);
    std::memcpy(&b, p.axis.data() + 8, 8);
    std::uint64_t h = a * 0x9E3779B97F4A7C15ull ^ b * 0xC2B2AE3D27D4EB4Full;
    return std::size_t(h ^ h >> 29);
  }
};

/// A placement spread out: the list of axes of each dim.
struct Lists {
  std::array<std::uint8_t, kMaxDims> count{};
  std::array<std::array<std::uint8_t, kMaxAxes>, kMaxDims> axes;
  std::array<std::int64_t, kMaxDims> ways;  ///< all, the fixed ones too
  unsigned unreduced = 0, unused = 0;

  Lists(const SearchProblem& problem, const Placement& p) {
    for (int d = 0; d < problem.dims; ++d) ways[d] = problem.fixed_ways[d];
    for (int a = 0; a < problem.axes; ++a) {
      std::uint8_t c = p.axis[a];
      if (c == Placement::kUnused) {
        unused |= 1u << a;
      } else if (c == Placement::kUnreduced) {
        unreduced |= 1u << a;
      } else {
        axes[c >> 4][c & 15] = std::uint8_t(a);
        ++count[c >> 4];
        ways[c >> 4] *= problem.axis_size[a];
      }
    }
  }
};

std::int64_t extent(const SearchProblem& problem, const Lists& s, int dim) {
  return ceil_div(problem.size[dim], s.ways[dim]);
}

/// One step as it is tried: where it leads is a Placement beside it.
struct Move {
  Kind kind = Kind::slice;
  int dim = -1, to_dim = -1;
  const std::uint8_t* axes = nullptr;
  int axis_count = 0;
  double bytes = 0;  ///< received
  double seconds = 0;
  double operand_bytes = 0;
  int collectives = 0;
};

struct Node {
  Placement state;
  double distance = std::numeric_limits<double>::infinity();
  double estimate = 0;  ///< of what is left
  int parent = -1;
  bool closed = false;
  // The step that led here.
  Kind kind = Kind::slice;
  std::int8_t dim = -1, to_dim = -1;
  std::uint8_t axis_count = 0;
  std::array<std::uint8_t, kMaxAxes> axes;
  double bytes = 0, peak = 0;
  int collectives = 0;
};

/// A* (Hart, Nilsson and Raphael 1968). A state is a Placement: for each axis the dim and the place
/// in that dim's list, or that it is unused or unreduced. Edges are collectives and slices, their
/// price the time in which the busiest device receives what it needs, and a charge for memory; an
/// edge that needs more than the limit is left out. The estimate is one collective that brings the
/// busiest device what it lacks of its target shard over the fastest link: never more than what the
/// rest of the path costs.
///
/// Example: x|- to y|- of f32[16,16] on <x=2, y=4>, where a collective costs as much as 256 bytes.
/// The device at x=0, y=3 has rows 0 to 7 and needs rows 12 to 15: 256 bytes and a collective, an
/// estimate of 512. The path over x,y|- and y,x|- receives just these 256 bytes, in two
/// collectives: 768.
class Search {
 public:
  Search(const SearchProblem& problem, double peak_limit)
      : problem_(problem),
        machine_(*problem.machine),
        limit_(peak_limit),
        step_(machine_.least_of_bytes(cost::kBytesOfStep)),
        target_(problem, problem.target) {
    target_bytes_ = shard_bytes(problem, problem.target);
    both_ends_ = target_bytes_ + shard_bytes(problem, problem.source);
  }

  std::optional<SearchResult> run(int expansions) {
    reach(problem_.source, -1, {});
    while (!queue_.empty()) {
      auto [f, order, index] = queue_.top();
      queue_.pop();
      if (nodes_[index].closed || f > nodes_[index].distance + nodes_[index].estimate) continue;
      nodes_[index].closed = true;
      if (nodes_[index].state == problem_.target) return trace(index);
      if (expansions-- <= 0) return std::nullopt;
      expand(index);
    }
    return std::nullopt;
  }

 private:
  /// Bytes that the busiest device must yet receive, at least, however they are sent.
  double estimate(const Placement& p) const {
    Lists s(problem_, p);
    // Devices may have any part of what is to be a sum, whatever they have now.
    if (target_.unreduced & ~s.unreduced) return 0;
    double left;
    if (s.unreduced & ~target_.unreduced) {
      left = target_bytes_;
    } else {
      bool nested = true;
      double overlap = problem_.element_bytes;
      for (int d = 0; d < problem_.dims && nested; ++d) {
        int common = std::min(s.count[d], target_.count[d]);
        nested = std::equal(s.axes[d].begin(), s.axes[d].begin() + common, target_.axes[d].begin());
        overlap *= double(std::min(extent(problem_, s, d), extent(problem_, target_, d)));
      }
      left = nested ? target_bytes_ - overlap : target_bytes_;
      if (left <= 0) return 0;
    }
    return machine_.least(left);
  }

  void reach(const Placement& state, int parent, const Move& move) {
    double peak = 0, step = 0;
    if (parent >= 0) {
      // A sum is formed in its operand's place.
      bool in_place = move.kind == Kind::all_reduce || move.kind == Kind::reduce_scatter;
      peak = in_place ? move.operand_bytes : move.operand_bytes + shard_bytes(problem_, state);
      if (move.kind != Kind::slice && peak > limit_ * (1 + 1e-9)) return;
      step = step_ + move.seconds;
      if (move.kind != Kind::slice) {
        step += cost::kPassesOfPeak * machine_.pass(std::max(0.0, peak - both_ends_));
      }
      TESSERA_CHECK(step >= step_, "a step that takes " + std::to_string(move.seconds) + " s");
    }
    double distance = parent < 0 ? 0 : nodes_[parent].distance + step;
    if (distance > goal_) return;
    auto [it, fresh] = index_.try_emplace(state, int(nodes_.size()));
    if (fresh) {
      nodes_.emplace_back();
      nodes_.back().state = state;
      nodes_.back().estimate = estimate(state);
    }
    Node& node = nodes_[it->second];
    // Written so that no distance that isn't a number passes: parents would run in a circle.
    if (!(distance < node.distance)) return;
    if (state == problem_.target) goal_ = distance;
    node.distance = distance;
    node.closed = false;
    node.parent = parent;
    node.kind = move.kind;
    node.dim = std::int8_t(move.dim);
    node.to_dim = std::int8_t(move.to_dim);
    node.axis_count = std::uint8_t(move.axis_count);
    std::copy(move.axes, move.axes + move.axis_count, node.axes.begin());
    node.bytes = move.bytes;
    node.peak = peak;
    node.collectives = move.collectives;
    queue_.push({distance + node.estimate, order_++, it->second});
  }

  /// Adds one collective along the axes that brings these bytes.
  void add_collective(Move* move, ir::Opcode kind, double bytes, const std::uint8_t* axes,
                      int count) const {
    cost::Route route;
    for (int k = 0; k < count; ++k) route.add(problem_.route[axes[k]]);
    move->bytes += bytes;
    ++move->collectives;
    // Of an array without elements too there is something to start.
    move->seconds += bytes > 0 ? machine_.collective(kind, bytes, route) : machine_.start();
  }

  /// Adds what it takes that a dim in `ways` blocks of `from` rows gets blocks of `to`. `row`:
  /// bytes of one row. The first axes of the dim in `s`, by which it is split into these.
  void add_reblock(Move* move, const Lists& s, int dim, std::int64_t ways, std::int64_t from,
                   std::int64_t to, double row) const {
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

  void expand(int index) {
    const Placement state = nodes_[index].state;
    const Lists s(problem_, state);
    const double bytes = shard_bytes(problem_, state);
    slices(index, state, s, bytes);
    masks(index, state, s, bytes);
    unshards(index, state, s, bytes);
    for (int d = 0; d < problem_.dims; ++d) all_to_alls(index, state, s, bytes, d);
    Move gather;
    gather.kind = Kind::all_gather;
    gather.operand_bytes = bytes;
    gathers(index, state, s, 0, bytes, gather);
    if (unsigned clear = s.unreduced & ~target_.unreduced; clear != 0) {
      reductions(index, state, s, bytes, clear);
    }
    // The goal was reached for less than any permute takes.
    if (nodes_[index].distance + step_ + machine_.least(bytes) > goal_) return;
    Placement next = cleared(state, s);
    bool few = problem_.axes <= kFreeAxes;
    int budget = few ? std::numeric_limits<int>::max() : kMaxPermutes;
    fill(index, s, bytes, next, s.unused | used(s), 0, 0, 1, !few, budget);
  }

  /// Rows of a dim that a device has, and bytes of one.
  std::int64_t rows(const Lists& s, int d) const { return extent(problem_, s, d); }
  double row(const Lists& s, int d, double bytes) const {
    return rows(s, d) > 0 ? bytes / double(rows(s, d)) : 0;
  }

  void slices(int index, const Placement& state, const Lists& s, double bytes) {
    for (int d = 0; d < problem_.dims; ++d) {
      for (int a = 0; a < problem_.axes; ++a) {
        std::uint8_t axis = std::uint8_t(a);
        if (s.unused >> a & 1) slice(index, state, s, bytes, d, &axis, 1);
      }
      // Uneven blocks of blocks are no blocks: the target's are cut at once.
      const std::uint8_t* next = target_.axes[d].data() + s.count[d];
      int run = 0;
      while (s.count[d] + run < target_.count[d] && (s.unused >> next[run] & 1)) ++run;
      for (int count = 2; count <= run; ++count) slice(index, state, s, bytes, d, next, count);
    }
  }

  void slice(int index, const Placement& state, const Lists& s, double bytes, int d,
             const std::uint8_t* axes, int count) {
    Placement next = state;
    std::int64_t parts = 1;
    for (int k = 0; k < count; ++k) {
      next.axis[axes[k]] = Placement::code(d, s.count[d] + k);
      parts *= problem_.axis_size[axes[k]];
    }
    Move move;
    move.dim = move.to_dim = d;
    move.axes = axes;
    move.axis_count = count;
    move.operand_bytes = bytes;
    std::int64_t block = ceil_div(problem_.size[d], s.ways[d] * parts);
    add_reblock(&move, s, d, s.ways[d], rows(s, d), parts * block, row(s, d, bytes));
    reach(next, index, move);
  }

  /// A copied value becomes a sum: one device along the axis keeps it, the others have zeros.
  void masks(int index, const Placement& state, const Lists& s, double bytes) {
    unsigned requested = s.unused & target_.unreduced;
    for (int a = 0; a < problem_.axes; ++a) {
      if (!(requested >> a & 1)) continue;
      Placement next = state;
      next.axis[a] = Placement::kUnreduced;
      std::uint8_t axis = std::uint8_t(a);
      Move move;
      move.axes = &axis;
      move.axis_count = 1;
      move.operand_bytes = bytes;
      reach(next, index, move);
    }
  }

  /// Shards become parts of a sum: each device has its rows, and neutral elements for the others'.
  void unshards(int index, const Placement& state, const Lists& s, double bytes) {
    for (int d = 0; d < problem_.dims; ++d) {
      Placement next = state;
      std::int64_t parts = 1;
      for (int first = s.count[d] - 1; first >= 0; --first) {
        const int a = s.axes[d][first];
        if (!(target_.unreduced >> a & 1)) break;
        next.axis[a] = Placement::kUnreduced;
        parts *= problem_.axis_size[a];
        Move move;
        move.kind = Kind::unshard;
        move.dim = move.to_dim = d;
        move.axes = s.axes[d].data() + first;
        move.axis_count = s.count[d] - first;
        move.operand_bytes = bytes;
        const std::int64_t ways = s.ways[d] / parts;
        add_reblock(&move, s, d, ways, rows(s, d) * parts, ceil_div(problem_.size[d], ways),
                    row(s, d, bytes));
        reach(next, index, move);
      }
    }
  }

  void all_to_alls(int index, const Placement& state, const Lists& s, double bytes, int d) {
    Placement gathered = state;
    std::int64_t parts = 1;
    for (int first = s.count[d] - 1; first >= 0; --first) {
      int moved = s.count[d] - first;
      const std::uint8_t* axes = s.axes[d].data() + first;
      gathered.axis[axes[0]] = Placement::kUnused;
      parts *= problem_.axis_size[axes[0]];
      for (int to = 0; to < problem_.dims; ++to) {
        if (to == d) continue;
        Placement next = gathered;
        for (int k = 0; k < moved; ++k) {
          next.axis[axes[k]] = Placement::code(to, s.count[to] + k);
        }
        Move move;
        move.kind = Kind::all_to_all;
        move.dim = d;
        move.to_dim = to;
        move.axes = axes;
        move.axis_count = moved;
        move.operand_bytes = bytes;
        // What travels is padded to full blocks.
        std::int64_t block = ceil_div(problem_.size[to], s.ways[to] * parts);
        add_reblock(&move, s, to, s.ways[to], rows(s, to), parts * block, row(s, to, bytes));
        double sent = row(s, to, bytes) * double(parts * block);
        add_collective(&move, ir::Opcode::all_to_all,
                       cost::received_bytes(ir::Opcode::all_to_all, sent, double(parts)), axes,
                       moved);
        std::int64_t ways = s.ways[d] / parts, joined = rows(s, d) * parts;
        double line = rows(s, d) > 0 ? sent / double(joined) : 0;
        add_reblock(&move, s, d, ways, joined, ceil_div(problem_.size[d], ways), line);
        reach(next, index, move);
      }
    }
  }

  /// Gathers of one or more dims, which count as one: what is between them doesn't count.
  void gathers(int index, const Placement& state, const Lists& s, int from_dim, double bytes,
               const Move& before) {
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
        reach(next, index, move);
        gathers(index, next, s, d + 1, shard_bytes(problem_, next), move);
      }
    }
  }

  void reductions(int index, const Placement& state, const Lists& s, double bytes, unsigned clear) {
    std::array<std::uint8_t, kMaxAxes> axes;
    Move move;
    move.kind = Kind::all_reduce;
    move.axes = axes.data();
    move.operand_bytes = bytes;
    double parts = 1;
    Placement next = state;
    for (int a = 0; a < problem_.axes; ++a) {
      if (!(clear >> a & 1)) continue;
      axes[move.axis_count++] = std::uint8_t(a);
      parts *= double(problem_.axis_size[a]);
      next.axis[a] = Placement::kUnused;
    }
    add_collective(&move, ir::Opcode::all_reduce,
                   cost::received_bytes(ir::Opcode::all_reduce, bytes, parts), axes.data(),
                   move.axis_count);
    reach(next, index, move);
    const bool all = move.axis_count <= kFreeAxes;
    for (int d = 0; d < problem_.dims; ++d) {
      scatter(index, state, s, bytes, clear, d, axes, 0, 1, all);
    }
  }

  /// Appends to dim `d` ordered choices of the unreduced axes; only the axes that the target has
  /// there next, if there are too many to try all.
  void scatter(int index, const Placement& state, const Lists& s, double bytes, unsigned left,
               int d, std::array<std::uint8_t, kMaxAxes>& axes, int count, std::int64_t parts,
               bool all) {
    for (int a = 0; a < problem_.axes; ++a) {
      if (!(left >> a & 1)) continue;
      int place = s.count[d] + count;
      bool next_of_target = place < target_.count[d] && target_.axes[d][place] == a;
      if (!all && count > 0 && !next_of_target) continue;
      axes[count] = std::uint8_t(a);
      std::int64_t all_parts = parts * problem_.axis_size[a];
      Placement next = state;
      for (int k = 0; k <= count; ++k) next.axis[axes[k]] = Placement::code(d, s.count[d] + k);
      Move move;
      move.kind = Kind::reduce_scatter;
      move.dim = move.to_dim = d;
      move.axes = axes.data();
      move.axis_count = count + 1;
      move.operand_bytes = bytes;
      std::int64_t block = ceil_div(problem_.size[d], s.ways[d] * all_parts);
      add_reblock(&move, s, d, s.ways[d], rows(s, d), all_parts * block, row(s, d, bytes));
      add_collective(&move, ir::Opcode::reduce_scatter,
                     row(s, d, bytes) * double(block) * double(all_parts - 1), axes.data(),
                     count + 1);
      reach(next, index, move);
      scatter(index, state, s, bytes, left & ~(1u << a), d, axes, count + 1, all_parts, all);
    }
  }

  // --- permutes: other axes on the dims, the shards' shape the same -----------------------------

  static unsigned used(const Lists& s) {
    unsigned mask = 0;
    for (std::size_t d = 0; d < kMaxDims; ++d) {
      for (int k = 0; k < s.count[d]; ++k) mask |= 1u << s.axes[d][k];
    }
    return mask;
  }

  Placement cleared(const Placement& state, const Lists& s) const {
    Placement next = state;
    for (int d = 0; d < problem_.dims; ++d) {
      for (int k = 0; k < s.count[d]; ++k) next.axis[s.axes[d][k]] = Placement::kUnused;
    }
    return next;
  }

  /// Fills place `place` of dim `d` with every axis that fits. `useful`: with the one that the
  /// target has there, if that fits; behind it only in ascending order.
  void fill(int index, const Lists& s, double bytes, Placement& next, unsigned left, int d,
            int place, std::int64_t ways, bool useful, int& budget, int least = 0) {
    if (budget <= 0) return;
    if (d == problem_.dims) {
      if (next == nodes_[index].state) return;
      --budget;
      Move move;
      move.kind = Kind::permute;
      move.operand_bytes = bytes;
      std::array<std::uint8_t, kMaxAxes> changed;
      int count = 0;
      for (int a = 0; a < problem_.axes; ++a) {
        if (next.axis[a] != nodes_[index].state.axis[a]) changed[count++] = std::uint8_t(a);
      }
      add_collective(&move, ir::Opcode::collective_permute, bytes, changed.data(), count);
      reach(next, index, move);
      return;
    }
    const std::int64_t all_ways = s.ways[d] / problem_.fixed_ways[d];
    if (ways == all_ways) {
      fill(index, s, bytes, next, left, d + 1, 0, 1, useful, budget);
      return;
    }
    auto fits = [&](int a) {
      return (left >> a & 1) && all_ways % (ways * problem_.axis_size[a]) == 0;
    };
    auto use = [&](int a, int next_least) {
      next.axis[a] = Placement::code(d, place);
      fill(index, s, bytes, next, left & ~(1u << a), d, place + 1, ways * problem_.axis_size[a],
           useful, budget, next_least);
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

  std::optional<SearchResult> trace(int index) const {
    SearchResult result;
    result.cost = nodes_[index].distance;
    for (int i = index; nodes_[i].parent >= 0; i = nodes_[i].parent) {
      const Node& n = nodes_[i];
      if (n.kind == Kind::all_gather) {
        trace_gathers(n, &result.steps);
        continue;
      }
      SearchStep step;
      step.kind = n.kind;
      step.dim = n.dim;
      step.to_dim = n.to_dim;
      step.axes.assign(n.axes.begin(), n.axes.begin() + n.axis_count);
      step.after = n.state;
      step.bytes = n.bytes;
      step.peak = n.peak;
      step.collectives = n.collectives;
      result.steps.push_back(std::move(step));
    }
    std::reverse(result.steps.begin(), result.steps.end());
    return result;
  }

  /// One step a dim, last first. The dims that grow least come first, so that little is live
  /// between.
  void trace_gathers(const Node& n, std::vector<SearchStep>* steps) const {
    const Lists before(problem_, nodes_[n.parent].state), after(problem_, n.state);
    IndexList dims;
    for (int d = 0; d < problem_.dims; ++d) {
      if (before.count[d] != after.count[d]) dims.push_back(d);
    }
    std::stable_sort(dims.begin(), dims.end(), [&](int a, int b) {
      return before.ways[a] / after.ways[a] < before.ways[b] / after.ways[b];
    });
    const std::vector<SearchStep> gathers = gather_steps(n, before, after, dims);
    steps->insert(steps->end(), gathers.rbegin(), gathers.rend());
  }

  std::vector<SearchStep> gather_steps(const Node& n, const Lists& before, const Lists& after,
                                       const IndexList& dims) const {
    std::vector<SearchStep> gathers;
    Placement state = nodes_[n.parent].state;
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
      step.peak = n.peak;
      gathers.push_back(std::move(step));
    }
    return gathers;
  }

  struct Item {
    double f;
    std::uint64_t order;
    int index;
    bool operator<(const Item& o) const { return f != o.f ? f > o.f : order > o.order; }
  };

  const SearchProblem& problem_;
  const cost::Machine& machine_;
  const double limit_, step_;
  const Lists target_;
  double target_bytes_ = 0, both_ends_ = 0;
  double goal_ = std::numeric_limits<double>::infinity();  ///< least distance of the target yet
  std::vector<Node> nodes_;
  std::unordered_map<Placement, int, PlacementHash> index_;
  /// By ways, size, and rows of a block before and after.
  mutable std::map<std::array<std::int64_t, 4>, Reblock> reblocks_;
  std::priority_queue<Item> queue_;
  std::uint64_t order_ = 0;
};

}  // namespace

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

std::optional<SearchResult> search(const SearchProblem& problem, double peak_limit,
                                   int expansions) {
  return Search(problem, peak_limit).run(expansions);
}

}  // namespace tessera::spmd::reshard
