// SPDX-License-Identifier: Apache-2.0
// Redistribution of rows along one dim among the devices of a group: which rows of which part each
// device needs, put together in as few permutes as there are partners.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/shape.h"

namespace tessera::spmd {

/// A local array that is laid along the destination's index space: on the device at coordinate c,
/// row r is row start[c] + r of the destination, and rows lo[c] <= i < hi[c] of it are valid.
struct RoutePart {
  std::size_t array = 0;    ///< which of the local arrays
  std::int64_t rows = 0;    ///< of the local array
  Dims start, lo, hi;       ///< one per coordinate
  bool everywhere = false;  ///< each device holds it all: nothing travels
};

/// Rows of one part that travel in one permute: each device sends to one other at most and receives
/// from one at most.
struct RouteMove {
  Dims array;             ///< by source coordinate: whose rows
  bool travels = false;   ///< needs a permute
  std::int64_t rows = 0;  ///< that are sent
  Dims target;            ///< by source coordinate; -1: sends nothing
  Dims cut;               ///< by source coordinate: first row sent
  Dims place;             ///< by target coordinate: where that row goes (may be negative)
  Dims lo, hi;            ///< by target coordinate: valid rows; lo == hi: none
};

struct RoutePlan {
  std::int64_t block = 0;  ///< rows of the destination's shards
  std::vector<RouteMove> moves;
  /// Rows that the busiest device receives from others.
  std::int64_t rows_received = 0;
  /// Rows of all permutes together, of which a device may take part in some only.
  std::int64_t rows_moved = 0;
  int permutes = 0;
};

/// Rows in a row on both sides: of a source's local array, and of a target's.
struct RoutePiece {
  std::int64_t source = 0, target = 0;  ///< coordinates
  std::int64_t from = 0, to = 0, rows = 0;
  std::size_t array = 0;
  std::int64_t array_rows = 0;
};

/// Moves these pieces to targets of `block` rows each, on `ways` devices.
RoutePlan plan_pieces(const std::vector<RoutePiece>& pieces, std::int64_t ways, std::int64_t block);

/// The destination has `size` rows in blocks of `block`. `mirrored`: rows whose source and target
/// coordinates have the same sum (reversals), rather than the same difference, go together first.
RoutePlan plan_route(const std::vector<RoutePart>& parts, std::int64_t ways, std::int64_t size,
                     std::int64_t block, bool mirrored = false);
/// The same where the device at coordinate c wants rows [begin[c], begin[c] + block), which may
/// overlap others' and reach outside of the array.
RoutePlan plan_windows(const std::vector<RoutePart>& parts, const Dims& begin, std::int64_t size,
                       std::int64_t block, bool mirrored = false);

/// Shards whose row i goes to row low + i * (interior + 1) of an array of `out` rows; the local
/// arrays have been spread by `interior` already.
RoutePart spread_part(std::int64_t ways, std::int64_t size, std::int64_t low, std::int64_t interior,
                      std::int64_t out);

/// Blocks of `from` rows of an array of `size` rows, as a part.
RoutePart block_part(std::int64_t ways, std::int64_t size, std::int64_t from);

}  // namespace tessera::spmd
