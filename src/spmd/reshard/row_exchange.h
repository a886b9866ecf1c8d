// SPDX-License-Identifier: Apache-2.0
// Redistribution of rows along one dim among the devices of a group: which rows of which part each
// device needs, put together in as few permutes as there are partners.
//
// It is the array redistribution of GSPMD's halo exchanges and of uneven shards, as one problem: a
// bipartite multigraph with an edge for each run of rows from a source to a target device. A
// collective-permute is a matching in it, and by Koenig's theorem as many matchings as the busiest
// device has edges cover all of them. Runs that stay on their device cost nothing.
//
// Examples with 8 rows on 4 devices, 2 rows each (device c holds rows 2c and 2c+1):
//  - A shift down by a row: row i goes to row i + 1. Three devices send their last row (cut 1) to
//    the next one, where it is the first (place 0): one permute {0->1, 1->2, 2->3} of 1 row. The
//    other row stays. That is spread_part(4, 8, 1, 0, 8): source c begins at row 2c + 1.
//  - A halo of one row on each side: windows of 4 rows from -1, 1, 3 and 5 on (plan_windows). Two
//    permutes of 1 row, to the next device and to the one before; rows -1 and 8 are not valid.
//  - Blocks of 3, as 8 rows make on 3 devices and a padded fourth (3, 3, 2, 0), to blocks of 2: the
//    rows 2, 4 and 5, 6 and 7 go to the next device. One permute of 2 rows, of which the first
//    target uses one.
//  - A reversal: device c exchanges both rows with device 3 - c. One permute of 2 rows.
//
// Where a source's blocks are as far apart as the targets' windows, all devices but those at the
// ends do the same. Such runs of edges are looked at as one, so that plans take no longer for many
// devices than for few; other plans are made edge by edge.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/arrays/shape.h"
#include "src/spmd/reshard/by_coordinate.h"

namespace tessera::spmd {

/// A local array along the destination's index space: on the device at coordinate c,
/// row r is row start[c] + r of the destination, and rows lo[c] <= i < hi[c] of it are valid.
struct RowSource {
  std::size_t array = 0;  ///< which of the local arrays
  std::int64_t rows = 0;  ///< of the local array
  ByCoordinate start, lo, hi;
  bool everywhere = false;  ///< each device has all of it: nothing travels
};

/// Rows of one part that travel in one permute: each device sends to one other at most and receives
/// from one at most.
struct RowPermute {
  ByCoordinate array;     ///< of a source: whose rows
  bool travels = false;   ///< needs a permute
  std::int64_t rows = 0;  ///< that are sent
  ByCoordinate target;    ///< of a source; -1: sends nothing
  ByCoordinate cut;       ///< of a source: first row sent
  ByCoordinate place;     ///< of a target: where that row goes (may be negative)
  ByCoordinate lo, hi;    ///< of a target: valid rows; lo == hi: none
};

struct RowExchangePlan {
  std::int64_t block = 0;  ///< rows of the destination's shards
  std::vector<RowPermute> moves;
  /// Rows that the busiest device receives from others.
  std::int64_t rows_received = 0;
  /// Rows of all permutes together, of which a device may take part in some only.
  std::int64_t rows_moved = 0;
  int permutes = 0;
};

/// Rows in a row on both sides: of a source's local array, and of a target's.
struct RowRun {
  std::int64_t source = 0, target = 0;  ///< coordinates
  std::int64_t from = 0, to = 0, rows = 0;
  std::size_t array = 0;
  std::int64_t array_rows = 0;
};

/// Moves these pieces to targets of `block` rows each, on `ways` devices.
RowExchangePlan plan_pieces(const std::vector<RowRun>& pieces, std::int64_t ways,
                            std::int64_t block);

/// Without its moves a plan has its figures still, which is enough for its price.
enum class PlanFor : std::uint8_t { moves, price };

/// The destination has `size` rows in blocks of `block`.
RowExchangePlan plan_row_exchange(const std::vector<RowSource>& parts, std::int64_t ways,
                                  std::int64_t size, std::int64_t block,
                                  PlanFor what = PlanFor::moves);
/// The same where the device at coordinate c wants rows [begin[c], begin[c] + block), which may
/// overlap others' and reach outside of the array.
RowExchangePlan plan_windows(const std::vector<RowSource>& parts, const ByCoordinate& begin,
                             std::int64_t size, std::int64_t block, PlanFor what = PlanFor::moves);

/// Shards whose row i goes to row low + i * (interior + 1) of an array of `out` rows; the local
/// arrays have been spread by `interior` already.
RowSource spread_part(std::int64_t ways, std::int64_t size, std::int64_t low, std::int64_t interior,
                      std::int64_t out);

/// Blocks of `from` rows of an array of `size` rows, as a part.
RowSource block_part(std::int64_t ways, std::int64_t size, std::int64_t from);

/// A plan of one move for which nothing travels: each device puts its own rows where they belong in
/// the full result of `size` rows.
RowExchangePlan deposit_plan(const RowSource& part, std::int64_t size);

}  // namespace tessera::spmd
