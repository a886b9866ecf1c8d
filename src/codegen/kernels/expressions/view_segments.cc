// SPDX-License-Identifier: Apache-2.0
// Finds the outermost dim along which pieces are segments.
#include "src/codegen/kernels/expressions/view_segments.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tessera::codegen {
namespace {

bool is_whole(const ComposedView::Side& s, std::int64_t extent) {
  return s.origin == 0 && s.size == extent;
}

/// Pieces that no start moves, inside the view.
bool are_fixed(const ComposedView& m) {
  for (const ComposedView::Piece& p : m.pieces) {
    if (!p.starts.empty()) return false;
    for (std::size_t d = 0; d < m.dims.size(); ++d) {
      const ComposedView::Side& s = p.sides[d];
      if (s.has_window() || s.origin < 0 || s.origin + s.size > m.dims[d]) return false;
    }
  }
  return true;
}

/// The part of one segment. Empty pieces if loops can't read it.
ComposedView part_of(const ComposedView& m, std::vector<ComposedView::Piece> pieces,
                     std::size_t dim) {
  ComposedView out = m;
  bool whole = true;
  for (ComposedView::Piece& p : pieces) {
    ComposedView::Side& side = p.sides[dim];
    // One place along the dim stands for all: its elements are asked for there alone.
    if (side.size == 1) side = {0, 0, 0, m.dims[dim], 0};
    for (std::size_t d = 0; d < m.dims.size(); ++d) {
      whole = whole && (is_whole(p.sides[d], m.dims[d]) || (d == dim && pieces.size() == 1));
    }
    if (!whole && !is_whole(side, m.dims[dim])) return {};
  }
  if (whole && pieces.size() == 1) out.fill = -1;
  out.pieces = std::move(pieces);
  return out;
}

}  // namespace

ViewSegments segments_of(const ComposedView& m) {
  if (m.pieces.empty() || !are_fixed(m)) return {};
  for (std::size_t d = 0; d < m.dims.size(); ++d) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<ComposedView::Piece>> groups;
    for (const ComposedView::Piece& p : m.pieces) {
      groups[{p.sides[d].origin, p.sides[d].origin + p.sides[d].size}].push_back(p);
    }
    if (groups.size() == 1 &&
        groups.begin()->first == std::pair<std::int64_t, std::int64_t>(0, m.dims[d]))
      continue;
    ViewSegments out;
    out.dim = int(d);
    std::int64_t end = 0;
    for (auto& [range, pieces] : groups) {
      if (range.first < end) return {};
      end = range.second;
      out.segments.push_back({range.first, range.second, part_of(m, std::move(pieces), d)});
      if (out.segments.back().part.pieces.empty()) return {};
    }
    return out;
  }
  return {};
}

}  // namespace tessera::codegen
