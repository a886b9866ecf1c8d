// SPDX-License-Identifier: Apache-2.0
// Plans row redistribution: edge colouring groups the pieces into collective-permutes.
#include "src/spmd/reshard/row_exchange.h"

#include <algorithm>

#include "src/base/check.h"

namespace tessera::spmd {

namespace {

std::int64_t mod(std::int64_t a, std::int64_t n) { return ((a % n) + n) % n; }

}  // namespace

RowSource block_part(std::int64_t ways, std::int64_t size, std::int64_t from) {
  RowSource p;
  p.rows = from;
  for (std::int64_t c = 0; c < ways; ++c) {
    p.start.push_back(c * from);
    p.lo.push_back(std::min(c * from, size));
    p.hi.push_back(std::min((c + 1) * from, size));
  }
  return p;
}

RowSource spread_part(std::int64_t ways, std::int64_t size, std::int64_t low, std::int64_t interior,
                      std::int64_t out) {
  RowSource p;
  const std::int64_t step = interior + 1, block = ceil_div(size, ways);
  p.rows = (block - 1) * step + 1;
  for (std::int64_t c = 0; c < ways; ++c) {
    const std::int64_t start = low + step * c * block;
    const std::int64_t valid = std::clamp<std::int64_t>(size - c * block, 0, block);
    p.start.push_back(start);
    p.lo.push_back(std::max<std::int64_t>(start, 0));
    p.hi.push_back(valid == 0 ? 0 : std::min(start + (valid - 1) * step + 1, out));
  }
  return p;
}

namespace {

/// A piece with what it is bundled by.
struct Edge : RowRun {
  std::int64_t key = 0;
};

/// Edges of which no two share a source or a target: one permute.
struct Bundle {
  std::vector<Edge> edges;
  std::vector<char> sends, receives;
  std::int64_t rows = 0;
};

std::int64_t rows_of(const std::vector<Bundle>& bundles) {
  std::int64_t rows = 0;
  for (const Bundle& b : bundles) rows += b.rows;
  return rows;
}

Bundle empty_bundle(std::int64_t ways) {
  return {{}, std::vector<char>(std::size_t(ways), 0), std::vector<char>(std::size_t(ways), 0), 0};
}

void add_to(Bundle* home, const Edge& e) {
  home->edges.push_back(e);
  home->sends[std::size_t(e.source)] = home->receives[std::size_t(e.target)] = 1;
  home->rows = std::max(home->rows, e.rows);
}

/// Edges of one key together, and others of about the same size where there is room.
std::vector<Bundle> bundles_by_key(const std::vector<Edge>& edges, std::int64_t ways) {
  std::vector<Bundle> bundles;
  for (const Edge& e : edges) {
    Bundle* home = nullptr;
    for (Bundle& b : bundles) {
      if (b.sends[std::size_t(e.source)] || b.receives[std::size_t(e.target)]) continue;
      const Edge& first = b.edges.front();
      const bool similar = 2 * std::min(e.rows, b.rows) >= std::max(e.rows, b.rows);
      if (similar || first.key == e.key) {
        home = &b;
        break;
      }
    }
    if (!home) home = &bundles.emplace_back(empty_bundle(ways));
    add_to(home, e);
  }
  return bundles;
}

/// As few bundles as the busiest device has edges, which is always possible: an edge for which no
/// bundle is free at both ends makes room by swapping two bundles along a path of edges.
std::vector<Bundle> bundles_by_colour(std::vector<Edge> edges, std::int64_t ways) {
  std::stable_sort(edges.begin(), edges.end(),
                   [](const Edge& a, const Edge& b) { return a.rows > b.rows; });
  constexpr int none = -1;
  // By colour, then by device: the edge there.
  std::vector<std::vector<int>> out, in;
  std::vector<int> colour(edges.size(), none);
  auto set = [&](int e, int c) {
    const Edge& edge = edges[std::size_t(e)];
    colour[std::size_t(e)] = c;
    out[std::size_t(c)][std::size_t(edge.source)] = e;
    in[std::size_t(c)][std::size_t(edge.target)] = e;
  };
  for (int e = 0; e < int(edges.size()); ++e) {
    const std::size_t s = std::size_t(edges[std::size_t(e)].source);
    const std::size_t t = std::size_t(edges[std::size_t(e)].target);
    int both = none, at_source = none, at_target = none;
    for (int c = 0; c < int(out.size()) && both == none; ++c) {
      const bool free_out = out[std::size_t(c)][s] == none, free_in = in[std::size_t(c)][t] == none;
      if (free_out && free_in) both = c;
      if (free_out && at_source == none) at_source = c;
      if (free_in && at_target == none) at_target = c;
    }
    if (both == none && (at_source == none || at_target == none)) {
      both = int(out.size());
      out.emplace_back(std::size_t(ways), none);
      in.emplace_back(std::size_t(ways), none);
    }
    if (both == none) {
      // From the target on, edges of the source's colour and of the target's in turn.
      std::vector<int> path;
      int c = at_source, next = in[std::size_t(c)][t];
      while (next != none) {
        path.push_back(next);
        const Edge& edge = edges[std::size_t(next)];
        c = c == at_source ? at_target : at_source;
        next = path.size() % 2 == 1 ? out[std::size_t(c)][std::size_t(edge.source)]
                                    : in[std::size_t(c)][std::size_t(edge.target)];
      }
      for (int p : path) {
        const Edge& edge = edges[std::size_t(p)];
        const std::size_t old = std::size_t(colour[std::size_t(p)]);
        out[old][std::size_t(edge.source)] = in[old][std::size_t(edge.target)] = none;
      }
      for (int p : path) set(p, colour[std::size_t(p)] == at_source ? at_target : at_source);
      both = at_source;
    }
    set(e, both);
  }
  std::vector<Bundle> bundles(out.size(), empty_bundle(ways));
  for (std::size_t e = 0; e < edges.size(); ++e) {
    add_to(&bundles[std::size_t(colour[e])], edges[e]);
  }
  return bundles;
}

/// All edges cut into parts of as many rows as the smallest has.
std::vector<Edge> in_pieces(const std::vector<Edge>& edges) {
  std::int64_t rows = edges.front().rows;
  for (const Edge& e : edges) rows = std::min(rows, e.rows);
  std::vector<Edge> out;
  for (const Edge& e : edges) {
    for (std::int64_t at = 0; at < e.rows; at += rows) {
      if (out.size() > 4 * edges.size()) return out;
      out.push_back(e);
      out.back().from += at;
      out.back().to += at;
      out.back().rows = std::min(rows, e.rows - at);
    }
  }
  return out;
}

std::vector<Bundle> bundles_of(std::vector<Edge> edges, std::int64_t ways) {
  std::stable_sort(edges.begin(), edges.end(),
                   [](const Edge& a, const Edge& b) { return a.key < b.key; });
  std::vector<Bundle> bundles = bundles_by_key(edges, ways);
  // No plan is below what one device has to send or receive.
  Dims sent(std::size_t(ways), 0), received(std::size_t(ways), 0);
  std::int64_t least = 0;
  for (const Edge& e : edges) {
    least = std::max(
        {least, sent[std::size_t(e.source)] += e.rows, received[std::size_t(e.target)] += e.rows});
  }
  if (rows_of(bundles) == least) return bundles;
  std::vector<Bundle> other = bundles_by_colour(edges, ways);
  const std::int64_t now = rows_of(bundles), then = rows_of(other);
  if (then < now || (then == now && other.size() < bundles.size())) bundles = std::move(other);
  // Large edges in pieces as large as the small ones may fill more of each permute.
  if (5 * least > 4 * rows_of(bundles)) return bundles;
  std::vector<Edge> pieces = in_pieces(edges);
  if (pieces.size() > 4 * edges.size()) return bundles;
  other = bundles_by_colour(std::move(pieces), ways);
  const bool better =
      5 * rows_of(other) <= 4 * rows_of(bundles) && other.size() <= 2 * bundles.size();
  return better ? other : bundles;
}

RowPermute move_of(const Bundle& bundle, std::int64_t ways) {
  RowPermute m;
  m.rows = bundle.rows;
  const std::size_t n = std::size_t(ways);
  m.target.assign(n, -1);
  m.lo.assign(n, 0);
  m.hi.assign(n, 0);
  // Devices that take no part copy a participant's numbers, so that tables stay simple.
  const Edge& first = bundle.edges.front();
  auto cut = [&](const Edge& e) {
    return std::max<std::int64_t>(std::min(e.from, e.array_rows - m.rows), 0);
  };
  auto place = [&](const Edge& e) { return e.to - (e.from - cut(e)); };
  m.array.assign(n, std::int64_t(first.array));
  m.cut.assign(n, cut(first));
  m.place.assign(n, place(first));
  for (const Edge& e : bundle.edges) {
    const std::size_t t = std::size_t(e.target);
    m.target[std::size_t(e.source)] = e.target;
    m.array[std::size_t(e.source)] = std::int64_t(e.array);
    m.cut[std::size_t(e.source)] = cut(e);
    m.place[t] = place(e);
    m.lo[t] = e.to;
    m.hi[t] = e.to + e.rows;
  }
  return m;
}

/// `stays`: by groups that each make a move of their own.
RowExchangePlan plan_edges(const std::vector<std::vector<Edge>>& stays, std::vector<Edge> travels,
                           std::int64_t ways, std::int64_t block) {
  RowExchangePlan plan;
  plan.block = block;
  for (const std::vector<Edge>& group : stays) {
    if (group.empty()) continue;
    Bundle all = empty_bundle(ways);
    for (const Edge& e : group) add_to(&all, e);
    plan.moves.push_back(move_of(all, ways));
  }
  Dims received(std::size_t(ways), 0);
  for (const Bundle& bundle : bundles_of(std::move(travels), ways)) {
    plan.moves.push_back(move_of(bundle, ways));
    plan.moves.back().travels = true;
    ++plan.permutes;
    plan.rows_moved += bundle.rows;
    for (const Edge& e : bundle.edges) received[std::size_t(e.target)] += bundle.rows;
  }
  for (std::int64_t r : received) plan.rows_received = std::max(plan.rows_received, r);
  return plan;
}

}  // namespace

RowExchangePlan plan_pieces(const std::vector<RowRun>& pieces, std::int64_t ways,
                            std::int64_t block) {
  // What stays moves within the device: one step for the first piece of each, one for the second.
  std::vector<std::vector<Edge>> stays;
  std::vector<std::size_t> kept(std::size_t(ways), 0);
  std::vector<Edge> travels;
  for (const RowRun& piece : pieces) {
    Edge e{piece, mod(piece.target - piece.source, ways)};
    if (e.rows <= 0) continue;
    if (e.source != e.target) {
      travels.push_back(e);
      continue;
    }
    const std::size_t layer = kept[std::size_t(e.source)]++;
    if (layer == stays.size()) stays.emplace_back();
    stays[layer].push_back(e);
  }
  return plan_edges(stays, std::move(travels), ways, block);
}

RowExchangePlan plan_row_exchange(const std::vector<RowSource>& parts, std::int64_t ways,
                                  std::int64_t size, std::int64_t block) {
  Dims begin;
  for (std::int64_t c = 0; c < ways; ++c) begin.push_back(c * block);
  return plan_windows(parts, begin, size, block);
}

RowExchangePlan plan_windows(const std::vector<RowSource>& parts, const Dims& begin,
                             std::int64_t size, std::int64_t block) {
  const std::int64_t ways = std::int64_t(begin.size());
  const bool ordered = std::is_sorted(begin.begin(), begin.end());
  std::vector<std::vector<Edge>> stays;
  std::vector<Edge> travels;
  for (const RowSource& part : parts) {
    stays.emplace_back();
    for (std::int64_t c = 0; c < ways; ++c) {
      const std::int64_t start = part.start[std::size_t(c)];
      const std::int64_t low = std::max<std::int64_t>(part.lo[std::size_t(c)], 0);
      const std::int64_t high = std::min(part.hi[std::size_t(c)], size);
      std::int64_t d = 0, end = ways;
      if (part.everywhere) {
        d = c;
        end = c + 1;
      } else if (ordered) {
        // Targets whose windows begin before `high` and end after `low`.
        d = std::upper_bound(begin.begin(), begin.end(), low - block) - begin.begin();
        end = std::lower_bound(begin.begin(), begin.end(), high) - begin.begin();
      }
      for (; d < end; ++d) {
        const std::int64_t from = begin[std::size_t(d)];
        const std::int64_t lo = std::max(low, from), hi = std::min(high, from + block);
        if (lo >= hi) continue;
        Edge e{{c, d, lo - start, lo - from, hi - lo, part.array, part.rows}, mod(d - c, ways)};
        (c == d ? stays.back() : travels).push_back(e);
      }
    }
  }
  return plan_edges(stays, std::move(travels), ways, block);
}

}  // namespace tessera::spmd
