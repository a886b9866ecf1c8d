// SPDX-License-Identifier: Apache-2.0
// Bundles of edges, and of runs of edges.
#include "src/spmd/reshard/bundles.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "src/base/arrays/shape.h"

namespace tessera::spmd {
namespace {

std::int64_t rows_of(const std::vector<Bundle>& bundles) {
  std::int64_t rows = 0;
  for (const Bundle& b : bundles) rows += b.rows;
  return rows;
}

bool may_join(const Edge& e, const Bundle& b) {
  const bool similar = 2 * std::min(e.rows, b.rows) >= std::max(e.rows, b.rows);
  return b.edges.empty() || similar || b.edges.front().key == e.key;
}

/// Edges of one key together, and others of about the same size where there is room.
std::vector<Bundle> bundles_by_key(const std::vector<Edge>& edges, std::int64_t ways) {
  std::vector<Bundle> bundles;
  std::vector<std::vector<char>> sends, receives;  // by bundle
  for (const Edge& e : edges) {
    const auto s = std::size_t(e.source), t = std::size_t(e.target);
    std::size_t home = 0;
    for (; home < bundles.size(); ++home) {
      const Bundle& b = bundles[home];
      if (!sends[home][s] && !receives[home][t] && may_join(e, b)) break;
    }
    if (home == bundles.size()) {
      bundles.emplace_back();
      sends.emplace_back(std::size_t(ways), 0);
      receives.emplace_back(std::size_t(ways), 0);
    }
    bundles[home].add(e);
    sends[home][s] = receives[home][t] = 1;
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
  std::vector<Bundle> bundles(out.size());
  for (std::size_t e = 0; e < edges.size(); ++e) bundles[std::size_t(colour[e])].add(edges[e]);
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

/// In the order of their keys, which are less than `ways`; those of one key stay in theirs.
std::vector<Edge> by_key(const std::vector<Edge>& edges, std::int64_t ways) {
  std::vector<std::size_t> next(std::size_t(ways) + 1, 0);
  for (const Edge& e : edges) ++next[std::size_t(e.key) + 1];
  for (std::size_t k = 1; k < next.size(); ++k) next[k] += next[k - 1];
  std::vector<Edge> out(edges.size());
  for (const Edge& e : edges) out[next[std::size_t(e.key)]++] = e;
  return out;
}

std::vector<Bundle> bundles_of_single(std::vector<Edge> edges, std::int64_t ways) {
  edges = by_key(edges, ways);
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

// ----- runs

/// Coordinates that are equally far apart.
struct Progression {
  std::int64_t first = 0, step = 0, count = 0;

  static Progression of(std::int64_t first, std::int64_t step, std::int64_t count) {
    if (count == 1) return {first, 0, 1};
    return step < 0 ? Progression{first + step * (count - 1), -step, count}
                    : Progression{first, step, count};
  }
  static Progression sources(const Edge& e) { return of(e.source, e.source_step, e.count); }
  static Progression targets(const Edge& e) { return of(e.target, e.target_step, e.count); }
  std::int64_t last() const { return first + step * (count - 1); }
  bool has(std::int64_t c) const {
    return c >= first && c <= last() && (step == 0 || (c - first) % step == 0);
  }
};

using Interval = std::pair<std::int64_t, std::int64_t>;

/// Which of a run, counted from its first, have a coordinate of the other, and maybe more: of
/// steps that aren't 1 all or none.
std::optional<Interval> common(const Progression& run, const Progression& other) {
  if (run.first > other.last() || other.first > run.last()) return std::nullopt;
  const std::int64_t step = std::gcd(run.step, other.step);
  if (step == 0 || (run.first - other.first) % step != 0) {
    if (step != 0 || run.first != other.first) return std::nullopt;
  }
  if (run.step > 1 || other.step > 1) return Interval{0, run.count};
  return Interval{std::max<std::int64_t>(other.first - run.first, 0),
                  std::min(other.last() - run.first + 1, run.count)};
}

/// Which of a run the bundle has no room for, in order.
std::vector<Interval> taken(const Bundle& bundle, const Edge& run) {
  std::vector<Interval> out;
  const Progression sources = Progression::sources(run), targets = Progression::targets(run);
  for (const Edge& e : bundle.edges) {
    if (const auto both = common(sources, Progression::sources(e))) out.push_back(*both);
    if (auto both = common(targets, Progression::targets(e))) {
      if (run.target_step < 0) both = Interval{0, run.count};
      out.push_back(*both);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// As bundles_by_key: what is said of an edge there is true of all of a run, but that there may be
/// room for some only. Where steps differ keys say nothing: then the largest come first, and any
/// bundle that has room is as good.
std::vector<Bundle> bundles_of_runs(std::vector<Edge> runs) {
  const bool strided = std::any_of(runs.begin(), runs.end(), [](const Edge& e) {
    return e.source_step != 1 || e.target_step != 1;
  });
  const auto key = [&](const Edge& e) {
    return strided ? std::tuple(-e.rows, -e.count, e.part, e.source)
                   : std::tuple(e.key, std::int64_t(0), e.part, e.source);
  };
  std::stable_sort(runs.begin(), runs.end(),
                   [&](const Edge& a, const Edge& b) { return key(a) < key(b); });
  std::vector<Bundle> bundles;
  for (const Edge& run : runs) {
    std::vector<Edge> left{run};
    for (std::size_t b = 0; !left.empty(); ++b) {
      if (b == bundles.size()) bundles.emplace_back();
      Bundle& bundle = bundles[b];
      if (!strided && !may_join(run, bundle)) continue;
      std::vector<Edge> next, room;
      for (const Edge& e : left) {
        std::int64_t at = 0;
        for (const auto& [begin, end] : taken(bundle, e)) {
          if (begin > at) room.push_back(e.between(at, begin));
          if (end > at) next.push_back(e.between(std::max(at, begin), end));
          at = std::max(at, end);
        }
        if (at < e.count) room.push_back(e.between(at, e.count));
      }
      for (const Edge& e : room) bundle.add(e);
      left = std::move(next);
    }
  }
  return bundles;
}

struct WeightedProgression {
  Progression where;
  std::int64_t rows = 0;
};

/// The most rows that come together at one coordinate. Where all steps are equal that is where one
/// of them begins; nothing if they aren't.
std::optional<std::int64_t> most_together(const std::vector<WeightedProgression>& list) {
  std::int64_t step = 0, most = 0;
  for (const WeightedProgression& w : list) {
    if (w.where.step == 0) continue;
    if (step != 0 && w.where.step != step) return std::nullopt;
    step = w.where.step;
  }
  for (const WeightedProgression& at : list) {
    std::int64_t sum = 0;
    for (const WeightedProgression& w : list) sum += w.where.has(at.where.first) ? w.rows : 0;
    most = std::max(most, sum);
  }
  return most;
}

/// What no plan is below: what one device has to send or receive.
std::optional<std::int64_t> least_rows(const std::vector<Edge>& runs) {
  std::vector<WeightedProgression> sends, receives;
  for (const Edge& e : runs) {
    sends.push_back({Progression::sources(e), e.rows});
    receives.push_back({Progression::targets(e), e.rows});
  }
  const auto sent = most_together(sends), received = most_together(receives);
  if (!sent || !received) return std::nullopt;
  return std::max(*sent, *received);
}

}  // namespace

std::vector<Bundle> bundles_of(std::vector<Edge> edges, std::int64_t ways) {
  const bool in_runs =
      std::any_of(edges.begin(), edges.end(), [](const Edge& e) { return e.count > 1; });
  if (!in_runs) return bundles_of_single(std::move(edges), ways);
  std::vector<Bundle> bundles = bundles_of_runs(edges);
  const std::optional<std::int64_t> least = least_rows(edges);
  if (least && rows_of(bundles) == *least) return bundles;
  std::vector<Edge> single;
  for (const Edge& e : edges) {
    for (std::int64_t k = 0; k < e.count; ++k) {
      Edge one = e.between(k, k + 1);
      one.key = ((one.target - one.source) % ways + ways) % ways;
      single.push_back(one);
    }
  }
  // As they are without runs.
  std::sort(single.begin(), single.end(), [](const Edge& a, const Edge& b) {
    return std::tuple(a.part, a.source, a.target) < std::tuple(b.part, b.source, b.target);
  });
  return bundles_of_single(std::move(single), ways);
}

std::int64_t rows_received(const std::vector<Bundle>& bundles, std::int64_t ways) {
  std::vector<WeightedProgression> runs;
  bool few = true;
  for (const Bundle& b : bundles) {
    few = few && b.edges.size() <= 64;
    for (const Edge& e : b.edges) {
      if (few) runs.push_back({Progression::targets(e), b.rows});
    }
  }
  if (const auto most = few ? most_together(runs) : std::nullopt) return *most;
  Dims received(std::size_t(ways), 0);
  for (const Bundle& b : bundles) {
    for (const Edge& e : b.edges) {
      for (std::int64_t k = 0; k < e.count; ++k) {
        received[std::size_t(e.target + k * e.target_step)] += b.rows;
      }
    }
  }
  return received.empty() ? 0 : *std::max_element(received.begin(), received.end());
}

}  // namespace tessera::spmd
