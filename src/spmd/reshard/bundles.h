// SPDX-License-Identifier: Apache-2.0
// Which edges of a row exchange travel together: edge colouring of a bipartite multigraph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/spmd/reshard/row_exchange.h"

namespace tessera::spmd {

/// A piece with what it is bundled by. Of a run of equal ones it is the first; the others' ends are
/// so many coordinates further each.
struct Edge : RowRun {
  std::int64_t key = 0;
  std::int64_t count = 1;
  std::int64_t source_step = 1, target_step = 1;
  std::size_t part = 0;  ///< of runs

  /// Those of a run from `begin` to `end`, counted from its first.
  Edge between(std::int64_t begin, std::int64_t end) const {
    Edge e = *this;
    e.source += begin * source_step;
    e.target += begin * target_step;
    e.count = end - begin;
    return e;
  }
};

/// Edges of which no two share a source or a target: one permute.
struct Bundle {
  std::vector<Edge> edges;
  std::int64_t rows = 0;

  void add(const Edge& e) {
    edges.push_back(e);
    rows = rows < e.rows ? e.rows : rows;
  }
};

/// All edges, single ones or runs, in few bundles of few rows together.
std::vector<Bundle> bundles_of(std::vector<Edge> edges, std::int64_t ways);

/// Rows that come to the device that most come to, each edge with its bundle's.
std::int64_t rows_received(const std::vector<Bundle>& bundles, std::int64_t ways);

}  // namespace tessera::spmd
