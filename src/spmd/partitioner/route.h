// SPDX-License-Identifier: Apache-2.0
// Redistribution of rows along one dim among the devices of a group: which rows of which part each
// device needs, grouped by how far they travel, so that one permute per distance moves only them.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/shape.h"

namespace tessera::spmd {

/// A local array that is laid along the destination's index space: on the device at coordinate c,
/// row r is row start[c] + r of the destination, and rows lo[c] <= i < hi[c] of it are valid.
struct RoutePart {
  std::int64_t rows = 0;
  Dims start, lo, hi;      ///< one per coordinate
  bool everywhere = false;  ///< each device holds it all: nothing travels
};

/// Rows of one part that travel the same distance.
struct RouteMove {
  std::size_t part = 0;
  std::int64_t key = 0;     ///< distance, or the sum of coordinates if mirrored
  bool travels = false;     ///< needs a permute
  std::int64_t rows = 0;    ///< that are sent
  Dims cut;                 ///< by source coordinate: first row sent
  Dims place;               ///< by destination coordinate: where that row goes (may be negative)
  Dims lo, hi;              ///< by destination coordinate: valid rows; lo == hi: none
};

struct RoutePlan {
  std::int64_t ways = 1;
  std::int64_t block = 0;  ///< rows of the destination's shards
  bool mirrored = false;
  std::vector<RouteMove> moves;
  /// Rows that a device receives from others.
  std::int64_t rows_received = 0;
  int permutes = 0;
  /// Destination coordinate for a source coordinate, under a move.
  std::int64_t target(const RouteMove& m, std::int64_t source) const;
  std::int64_t source(const RouteMove& m, std::int64_t target) const;
};

/// The destination has `size` rows in blocks of `block`. `mirrored`: group by the sum of source and
/// target coordinates (reversals) rather than by their difference.
RoutePlan plan_route(const std::vector<RoutePart>& parts, std::int64_t ways, std::int64_t size,
                     std::int64_t block, bool mirrored = false);

/// Blocks of `from` rows of an array of `size` rows, as a part.
RoutePart block_part(std::int64_t ways, std::int64_t size, std::int64_t from);

}  // namespace tessera::spmd
