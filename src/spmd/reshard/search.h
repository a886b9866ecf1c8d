// SPDX-License-Identifier: Apache-2.0
// The shortest path between two placements of axes on dims: the planner's core, on small integers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/cost/machine.h"
#include "src/spmd/reshard/planner.h"

namespace tessera::spmd::reshard {

inline constexpr int kMaxAxes = 16;
inline constexpr int kMaxDims = 13;

/// Where each axis stands: dim and place in the dim's list, or one of the two codes below.
struct Placement {
  static constexpr std::uint8_t kUnused = 0xFF, kUnreduced = 0xFE;
  static std::uint8_t code(int dim, int place) { return std::uint8_t(dim << 4 | place); }

  std::array<std::uint8_t, kMaxAxes> axis;

  Placement() { axis.fill(kUnused); }
  friend bool operator==(const Placement&, const Placement&) = default;
};

struct SearchProblem {
  int axes = 0, dims = 0;
  std::array<std::int64_t, kMaxAxes> axis_size{};
  std::array<cost::Route, kMaxAxes> route{};  ///< of each axis; empty where links are all alike
  std::array<std::int64_t, kMaxDims> size{};
  /// Parts that a dim is always in, by axes that stay where they are.
  std::array<std::int64_t, kMaxDims> fixed_ways{};
  double element_bytes = 4;  ///< times the extents of dims that are left out
  Placement source, target;
  const cost::Machine* machine = nullptr;
};

struct SearchStep {
  ReshardStep::Kind kind;
  int dim = 0, to_dim = 0;
  std::vector<std::uint8_t> axes;
  Placement after;
  double bytes = 0;  ///< received by one device
  double peak = 0;   ///< bytes live before and after
  int collectives = 0;
};

struct SearchResult {
  std::vector<SearchStep> steps;
  double cost = 0;  ///< seconds
};

/// A*: empty if `expansions` states were looked at, or no path keeps to `peak_limit` bytes.
std::optional<SearchResult> search(const SearchProblem& problem, double peak_limit, int expansions);

/// Moving an uneven dim from blocks of `from` rows on each of `ways` devices to blocks of `to`.
struct Reblock {
  std::int64_t rows = 0;  ///< received by one device
  int permutes = 0;
};
Reblock reblock(std::int64_t ways, std::int64_t size, std::int64_t from, std::int64_t to);

/// Bytes of one shard.
double shard_bytes(const SearchProblem& problem, const Placement& placement);

}  // namespace tessera::spmd::reshard
