// SPDX-License-Identifier: Apache-2.0
// The edges of the search: the placements that one collective or slice leads to, and what it takes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "src/spmd/reshard/search.h"

namespace tessera::spmd::reshard {

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

inline std::int64_t extent(const SearchProblem& problem, const Lists& s, int dim) {
  return ceil_div(problem.size[dim], s.ways[dim]);
}

/// One step as it is tried: where it leads is a Placement beside it. Its axes are valid while it is
/// handed on.
struct Move {
  ReshardStep::Kind kind = ReshardStep::Kind::slice;
  int dim = -1, to_dim = -1;
  const std::uint8_t* axes = nullptr;
  int axis_count = 0;
  double bytes = 0;  ///< received
  double seconds = 0;
  double operand_bytes = 0;
  int collectives = 0;
};

/// Moves from a placement. They are tried in a fixed order: of paths that cost the same the first
/// is taken.
class Moves {
 public:
  explicit Moves(const SearchProblem& problem)
      : problem_(problem), machine_(*problem.machine), target_(problem, problem.target) {}

  const Lists& target() const { return target_; }

  using Reach = std::function<void(const Placement& next, const Move& move)>;
  /// Slices and collectives that change the shards' shape, or join sums.
  void reshapes(const Placement& state, const Reach& reach);
  /// Other axes on the dims, the shards' shape the same.
  void permutes(const Placement& state, const Reach& reach);
  /// One step for each of these dims, from `before` to `after`, that are gathered in one.
  std::vector<SearchStep> gather_steps(const Placement& before, const Placement& after,
                                       const IndexList& dims, double peak);

 private:
  /// The placement that moves start from.
  struct From {
    const Placement& state;
    const Lists lists;
    const double bytes;  ///< of a shard
    const Reach& reach;
  };

  void slices(const From& from);
  void slice(const From& from, int d, const std::uint8_t* axes, int count);
  /// A copied value becomes a sum: one device along the axis keeps it, the others have zeros.
  void masks(const From& from);
  /// Shards become parts of a sum: each device has its rows, and neutral elements for the others'.
  void unshards(const From& from);
  void all_to_alls(const From& from, int d);
  /// Gathers of one or more dims, which count as one: what is between them doesn't count. `state`
  /// and `bytes`: with those that were gathered yet.
  void gathers(const From& from, const Placement& state, int from_dim, double bytes,
               const Move& before);
  void reductions(const From& from, unsigned clear);
  /// Appends to dim `d` ordered choices of the unreduced axes; only the axes that the target has
  /// there next, if there are too many to try all.
  void scatter(const From& from, unsigned left, int d, std::array<std::uint8_t, kMaxAxes>& axes,
               int count, std::int64_t parts, bool all);
  /// Fills place `place` of dim `d` with every axis that fits. `useful`: with the one that the
  /// target has there, if that fits; behind it only in ascending order.
  void fill(const From& from, Placement& next, unsigned left, int d, int place, std::int64_t ways,
            bool useful, int& budget, int least = 0);
  /// Adds one collective along the axes that brings these bytes.
  void add_collective(Move* move, ir::Opcode kind, double bytes, const std::uint8_t* axes,
                      int count) const;
  /// Adds what it takes that each block of dim `d` can be split into so many parts of one size,
  /// which is returned.
  std::int64_t add_split(Move* move, const From& from, int d, std::int64_t parts);
  /// Adds what it takes that a dim in `ways` blocks of `from` rows gets blocks of `to`. `row`:
  /// bytes of one row. The first axes of the dim in `s`, by which it is split into these.
  void add_reblock(Move* move, const Lists& s, int dim, std::int64_t ways, std::int64_t from,
                   std::int64_t to, double row);
  /// Rows of a dim that a device has, and bytes of one.
  std::int64_t rows(const Lists& s, int d) const { return extent(problem_, s, d); }
  double row(const Lists& s, int d, double bytes) const {
    return rows(s, d) > 0 ? bytes / double(rows(s, d)) : 0;
  }

  const SearchProblem& problem_;
  const cost::Machine& machine_;
  const Lists target_;
  /// By ways, size, and rows of a block before and after.
  std::map<std::array<std::int64_t, 4>, Reblock> reblocks_;
};

}  // namespace tessera::spmd::reshard
