// SPDX-License-Identifier: Apache-2.0
// The shortest path between two placements of axes on dims: the planner's core, on small integers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/spmd/cost.h"
#include "src/spmd/reshard/planner.h"

namespace tessera::spmd::reshard {

inline constexpr int kMaxAxes = 16;
inline constexpr int kMaxDims = 13;

/// Where each axis stands: dim and place in the dim's list, or one of the two codes below.
struct Placement {
  static constexpr std::uint8_t kUnused = 0xFF, kUnreduced = 0xFE;
  static std::uint8_t code(int dim, int place) { return std::uint8_t(dim << 4 | place); }

  std::array<std::uint8_t, kMaxAxes> axis;
  /// Bit i: dim i is padded as in the target (always set if source and target pad alike).
  std::uint16_t target_padding = 0;

  Placement() { axis.fill(kUnused); }
  friend bool operator==(const Placement&, const Placement&) = default;
};

struct SearchProblem {
  int axes = 0, dims = 0;
  std::array<double, kMaxAxes> axis_size{};
  std::array<double, kMaxDims> whole{};          ///< extent of the dim where no axis splits it
  std::array<double, kMaxDims> source_padded{};  ///< extent to be cut in equal blocks
  std::array<double, kMaxDims> target_padded{};
  double element_bytes = 4;  ///< times the extents of dims that are left out
  Placement source, target;
  CostModel model;
};

struct SearchStep {
  ReshardStep::Kind kind;
  int dim = 0, to_dim = 0;
  std::vector<std::uint8_t> axes;
  Placement after;
  double bytes = 0;  ///< received by one device
  double peak = 0;   ///< bytes held before and after
};

struct SearchResult {
  std::vector<SearchStep> steps;
  double cost = 0;
};

/// A*: empty if `expansions` states were looked at, or no path keeps to `peak_limit` bytes.
std::optional<SearchResult> search(const SearchProblem& problem, double peak_limit, int expansions);

/// Bytes of one shard.
double shard_bytes(const SearchProblem& problem, const Placement& placement);

}  // namespace tessera::spmd::reshard
