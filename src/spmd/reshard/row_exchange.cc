// SPDX-License-Identifier: Apache-2.0
// Plans row redistribution: edge colouring groups the pieces into collective-permutes.
#include "src/spmd/reshard/row_exchange.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "src/base/check.h"

namespace tessera::spmd {

namespace {

std::int64_t mod(std::int64_t a, std::int64_t n) { return ((a % n) + n) % n; }

}  // namespace

RowSource block_part(std::int64_t ways, std::int64_t size, std::int64_t from) {
  RowSource p;
  p.rows = from;
  p.start = ByCoordinate::line(ways, 0, from);
  p.lo = p.start.at_most(size);
  p.hi = p.start.plus(from).at_most(size);
  return p;
}

RowSource spread_part(std::int64_t ways, std::int64_t size, std::int64_t low, std::int64_t interior,
                      std::int64_t out) {
  RowSource p;
  const std::int64_t step = interior + 1, block = ceil_div(size, ways);
  p.rows = (block - 1) * step + 1;
  p.start = ByCoordinate::line(ways, low, step * block);
  p.lo = p.start.at_least(0);
  const ByCoordinate valid = ByCoordinate::line(ways, size, -block).at_least(0).at_most(block);
  // The devices that have any come first.
  const std::int64_t some = block > 0 ? ceil_div(size, block) : 0;
  const ByCoordinate end = (p.start + valid.plus(-1).times(step)).plus(1).at_most(out);
  for_lines<1>({&end}, [&](std::int64_t first, std::int64_t count, const auto& v, const auto& s) {
    const std::int64_t have = std::clamp<std::int64_t>(some - first, 0, count);
    p.hi.append(have, v[0], s[0]);
    p.hi.append(count - have, 0, 0);
  });
  return p;
}

RowExchangePlan deposit_plan(const RowSource& part, std::int64_t size) {
  RowExchangePlan plan;
  plan.block = size;
  const std::int64_t ways = part.start.size();
  RowPermute m;
  m.rows = std::max<std::int64_t>((part.hi + part.lo.at_least(0).times(-1)).greatest(), 1);
  m.array = ByCoordinate::same(ways, 0);
  m.target = ByCoordinate::same(ways, -1);
  m.hi = part.hi.at_least(0);
  m.lo = least_of(part.lo.at_least(0), m.hi);
  m.cut = (m.lo + part.start.times(-1)).at_least(0).at_most(part.rows - m.rows);
  m.place = part.start + m.cut;
  plan.moves.push_back(std::move(m));
  return plan;
}

namespace {

/// A piece with what it is bundled by; of a run of them, from neighbours to neighbours, the first.
struct Edge : RowRun {
  std::int64_t key = 0;
  std::int64_t count = 1;
  std::size_t part = 0;  ///< of runs
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

/// In the order of their keys, which are less than `ways`; those of one key stay in theirs.
std::vector<Edge> by_key(const std::vector<Edge>& edges, std::int64_t ways) {
  std::vector<std::size_t> next(std::size_t(ways) + 1, 0);
  for (const Edge& e : edges) ++next[std::size_t(e.key) + 1];
  for (std::size_t k = 1; k < next.size(); ++k) next[k] += next[k - 1];
  std::vector<Edge> out(edges.size());
  for (const Edge& e : edges) out[next[std::size_t(e.key)]++] = e;
  return out;
}

std::vector<Bundle> bundles_of(std::vector<Edge> edges, std::int64_t ways) {
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

/// What a list has at some coordinates, and one number elsewhere.
class Overrides {
 public:
  void set(std::int64_t begin, std::int64_t count, std::int64_t value, std::int64_t step = 0) {
    list_.push_back({begin, count, value, step});
  }
  ByCoordinate over(std::int64_t size, std::int64_t other) {
    const auto before = [](const One& a, const One& b) { return a.begin < b.begin; };
    if (!std::is_sorted(list_.begin(), list_.end(), before)) {
      std::sort(list_.begin(), list_.end(), before);
    }
    ByCoordinate out;
    for (const One& one : list_) {
      out.append(one.begin - out.size(), other, 0);
      out.append(one.count, one.value, one.step);
    }
    out.append(size - out.size(), other, 0);
    return out;
  }

 private:
  struct One {
    std::int64_t begin, count, value, step;
  };
  std::vector<One> list_;
};

/// Devices that take no part copy a participant's numbers, so that tables stay simple.
RowPermute move_of(const std::vector<Edge>& edges, std::int64_t rows, std::int64_t ways) {
  RowPermute m;
  m.rows = rows;
  const auto cut = [&](const Edge& e) {
    return std::max<std::int64_t>(std::min(e.from, e.array_rows - m.rows), 0);
  };
  const auto place = [&](const Edge& e) { return e.to - (e.from - cut(e)); };
  const Edge& first = edges.front();
  const bool one_by_one =
      std::none_of(edges.begin(), edges.end(), [](const Edge& e) { return e.count > 1; });
  if (one_by_one) {
    const auto n = std::size_t(ways);
    Dims target(n, -1), array(n, std::int64_t(first.array)), cuts(n, cut(first)),
        places(n, place(first)), lo(n, 0), hi(n, 0);
    for (const Edge& e : edges) {
      const auto s = std::size_t(e.source), t = std::size_t(e.target);
      target[s] = e.target;
      array[s] = std::int64_t(e.array);
      cuts[s] = cut(e);
      places[t] = place(e);
      lo[t] = e.to;
      hi[t] = e.to + e.rows;
    }
    m.target = target;
    m.array = array;
    m.cut = cuts;
    m.place = places;
    m.lo = lo;
    m.hi = hi;
    return m;
  }
  Overrides target, array, cuts, places, lo, hi;
  for (const Edge& e : edges) {
    target.set(e.source, e.count, e.target, 1);
    array.set(e.source, e.count, std::int64_t(e.array));
    cuts.set(e.source, e.count, cut(e));
    places.set(e.target, e.count, place(e));
    lo.set(e.target, e.count, e.to);
    hi.set(e.target, e.count, e.to + e.rows);
  }
  m.target = target.over(ways, -1);
  m.array = array.over(ways, std::int64_t(first.array));
  m.cut = cuts.over(ways, cut(first));
  m.place = places.over(ways, place(first));
  m.lo = lo.over(ways, 0);
  m.hi = hi.over(ways, 0);
  return m;
}

/// The most that comes together at one coordinate.
class Sums {
 public:
  void add(std::int64_t begin, std::int64_t count, std::int64_t rows) {
    if (!changes_.empty() && changes_.back() == std::pair(begin, -rows)) {
      changes_.back().first += count;
      return;
    }
    changes_.emplace_back(begin, rows);
    changes_.emplace_back(begin + count, -rows);
  }
  std::int64_t greatest() {
    // What ends somewhere goes before what begins there.
    std::sort(changes_.begin(), changes_.end());
    std::int64_t now = 0, most = 0;
    for (const auto& [at, change] : changes_) most = std::max(most, now += change);
    return most;
  }

 private:
  std::vector<std::pair<std::int64_t, std::int64_t>> changes_;
};

/// Intervals of coordinates, in order.
class Intervals {
 public:
  void add(std::int64_t begin, std::int64_t end) {
    const auto at = std::upper_bound(list_.begin(), list_.end(), std::pair(begin, end));
    list_.insert(at, {begin, end});
  }
  /// Calls f(begin, end) for each.
  template <class F>
  void each(F f) const {
    for (const auto& [begin, end] : list_) f(begin, end);
  }

 private:
  std::vector<std::pair<std::int64_t, std::int64_t>> list_;
};

/// A bundle of runs.
struct RunBundle {
  std::vector<Edge> edges;
  Intervals sends, receives;
  std::int64_t rows = 0;

  void add(const Edge& e) {
    edges.push_back(e);
    sends.add(e.source, e.source + e.count);
    receives.add(e.target, e.target + e.count);
    rows = std::max(rows, e.rows);
  }
  /// Which of a run, counted from its first, the bundle has no room for.
  std::vector<std::pair<std::int64_t, std::int64_t>> taken(const Edge& e) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> out;
    const auto note = [&](std::int64_t begin, std::int64_t end) {
      begin = std::max<std::int64_t>(begin, 0);
      end = std::min(end, e.count);
      if (begin < end) out.emplace_back(begin, end);
    };
    sends.each([&](auto begin, auto end) { note(begin - e.source, end - e.source); });
    receives.each([&](auto begin, auto end) { note(begin - e.target, end - e.target); });
    std::sort(out.begin(), out.end());
    return out;
  }
};

Edge part_of(Edge e, std::int64_t begin, std::int64_t end) {
  e.source += begin;
  e.target += begin;
  e.count = end - begin;
  return e;
}

/// As bundles_by_key: what is said of an edge there is true of all of a run, but that there may be
/// room for some only.
std::vector<RunBundle> run_bundles(const std::vector<Edge>& runs) {
  std::vector<RunBundle> bundles;
  for (const Edge& run : runs) {
    std::vector<Edge> left{run};
    for (std::size_t b = 0; !left.empty(); ++b) {
      if (b == bundles.size()) bundles.emplace_back();
      RunBundle& bundle = bundles[b];
      const bool similar = 2 * std::min(run.rows, bundle.rows) >= std::max(run.rows, bundle.rows);
      if (!bundle.edges.empty() && !similar && bundle.edges.front().key != run.key) continue;
      std::vector<Edge> next;
      for (const Edge& e : left) {
        std::int64_t at = 0;
        std::vector<Edge> room;
        for (const auto& [begin, end] : bundle.taken(e)) {
          if (begin > at) room.push_back(part_of(e, at, begin));
          if (end > at) next.push_back(part_of(e, std::max(at, begin), end));
          at = std::max(at, end);
        }
        if (at < e.count) room.push_back(part_of(e, at, e.count));
        for (const Edge& part : room) bundle.add(part);
      }
      left = std::move(next);
    }
  }
  return bundles;
}

/// `stays`: by groups that each make a move of their own.
RowExchangePlan plan_edges(const std::vector<std::vector<Edge>>& stays, std::vector<Edge> travels,
                           std::int64_t ways, std::int64_t block) {
  RowExchangePlan plan;
  plan.block = block;
  for (const std::vector<Edge>& group : stays) {
    if (group.empty()) continue;
    std::int64_t rows = 0;
    for (const Edge& e : group) rows = std::max(rows, e.rows);
    plan.moves.push_back(move_of(group, rows, ways));
  }
  Sums received;
  const auto add = [&](const std::vector<Edge>& edges, std::int64_t rows) {
    plan.moves.push_back(move_of(edges, rows, ways));
    plan.moves.back().travels = true;
    ++plan.permutes;
    plan.rows_moved += rows;
    for (const Edge& e : edges) received.add(e.target, e.count, rows);
  };
  const bool in_runs =
      std::any_of(travels.begin(), travels.end(), [](const Edge& e) { return e.count > 1; });
  if (in_runs) {
    const auto key = [](const Edge& e) { return std::tuple(e.key, e.part, e.source); };
    std::stable_sort(travels.begin(), travels.end(),
                     [&](const Edge& a, const Edge& b) { return key(a) < key(b); });
    const std::vector<RunBundle> bundles = run_bundles(travels);
    Sums sends, receives;
    for (const Edge& e : travels) {
      sends.add(e.source, e.count, e.rows);
      receives.add(e.target, e.count, e.rows);
    }
    std::int64_t all = 0;
    for (const RunBundle& b : bundles) all += b.rows;
    if (all == std::max(sends.greatest(), receives.greatest())) {
      for (const RunBundle& b : bundles) add(b.edges, b.rows);
      plan.rows_received = received.greatest();
      return plan;
    }
    std::vector<Edge> one_by_one;
    for (const Edge& e : travels) {
      for (std::int64_t k = 0; k < e.count; ++k) one_by_one.push_back(part_of(e, k, k + 1));
    }
    travels = std::move(one_by_one);
  }
  for (const Bundle& bundle : bundles_of(std::move(travels), ways)) add(bundle.edges, bundle.rows);
  plan.rows_received = received.greatest();
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
  return plan_windows(parts, ByCoordinate::line(ways, 0, block), size, block);
}

namespace {

/// The edges between sources and windows.
struct Edges {
  std::vector<std::vector<Edge>> stays;  ///< by part
  std::vector<Edge> travels;

  void add(const Edge& e) { (e.source == e.target ? stays.back() : travels).push_back(e); }
};

/// Windows [begin[d], begin[d] + block) of `size` rows.
struct Windows {
  const ByCoordinate& begin;
  std::int64_t size = 0, block = 0;

  std::int64_t ways() const { return begin.size(); }
};

/// Edge by edge.
void add_edges(const RowSource& part, const Windows& w, bool ordered, Edges* out) {
  const Dims begin = [&] {
    Dims list;
    for_equal<1>({&w.begin}, [&](std::int64_t, std::int64_t n, const auto& v) {
      list.insert(list.end(), std::size_t(n), v[0]);
    });
    return list;
  }();
  const std::int64_t ways = w.ways();
  for_equal<3>({&part.start, &part.lo, &part.hi}, [&](std::int64_t first, std::int64_t count,
                                                      const auto& v) {
    const auto [start, lowest, highest] = v;
    const std::int64_t low = std::max<std::int64_t>(lowest, 0), high = std::min(highest, w.size);
    for (std::int64_t c = first; c < first + count; ++c) {
      std::int64_t d = 0, end = ways;
      if (part.everywhere) {
        d = c;
        end = c + 1;
      } else if (ordered) {
        // Targets whose windows begin before `high` and end after `low`.
        d = std::upper_bound(begin.begin(), begin.end(), low - w.block) - begin.begin();
        end = std::lower_bound(begin.begin(), begin.end(), high) - begin.begin();
      }
      for (; d < end; ++d) {
        const std::int64_t from = begin[std::size_t(d)];
        const std::int64_t lo = std::max(low, from), hi = std::min(high, from + w.block);
        if (lo >= hi) continue;
        out->add({{c, d, lo - start, lo - from, hi - lo, part.array, part.rows}, mod(d - c, ways)});
      }
    }
  });
}

/// In runs, where that is possible: windows are equally far apart, and so are the rows of the part
/// but for some devices at the ends.
bool add_runs(const RowSource& part, const Windows& w, std::size_t number, Edges* out) {
  constexpr std::int64_t few = 4, most = 64;
  if (!w.begin.is_line() || part.everywhere) return false;
  const std::int64_t ways = w.ways(), first = w.begin[0], apart = w.begin.pieces()[0].step;
  if (apart <= 0) return false;
  const ByCoordinate low = part.lo.at_least(0), high = part.hi.at_most(w.size);
  bool possible = true;
  const auto add = [&](std::int64_t c, std::int64_t count, const std::array<std::int64_t, 3>& v) {
    // Of the first one, as far as there are such devices.
    const std::int64_t begin = floor_div(v[1] - w.block - first, apart) + 1 - c;
    const std::int64_t end = ceil_div(v[2] - first, apart) - c;
    if (end - begin > most) possible = false;
    for (std::int64_t k = begin; possible && k < end; ++k) {
      const std::int64_t from = first + apart * (c + k);
      const std::int64_t lo = std::max(v[1], from), hi = std::min(v[2], from + w.block);
      const std::int64_t source = std::max(c, -k), last = std::min(c + count, ways - k);
      if (lo >= hi || source >= last) continue;
      out->add({{source, source + k, lo - v[0], lo - from, hi - lo, part.array, part.rows},
                mod(k, ways),
                last - source,
                number});
    }
  };
  for_lines<3>({&part.start, &low, &high}, [&](std::int64_t c, std::int64_t count,
                                               std::array<std::int64_t, 3> v, const auto& s) {
    // Those that have any rows: more than none, and so many more from one to the next.
    const std::int64_t rows = v[2] - v[1], more = s[2] - s[1];
    std::int64_t some = 0, end = count;
    if (more < 0) end = std::clamp<std::int64_t>(ceil_div(rows, -more), 0, count);
    if (more > 0) some = std::clamp<std::int64_t>(floor_div(-rows, more) + 1, 0, count);
    if (some >= end || (more == 0 && rows <= 0)) return;
    for (std::size_t i = 0; i < 3; ++i) v[i] += s[i] * some;
    if (s == std::array{apart, apart, apart}) return add(c + some, end - some, v);
    possible = possible && end - some <= few;
    for (std::int64_t k = some; possible && k < end; ++k) {
      add(c + k, 1, v);
      for (std::size_t i = 0; i < 3; ++i) v[i] += s[i];
    }
  });
  return possible;
}

}  // namespace

RowExchangePlan plan_windows(const std::vector<RowSource>& parts, const ByCoordinate& begin,
                             std::int64_t size, std::int64_t block) {
  const Windows windows{begin, size, block};
  Edges edges;
  bool in_runs = true;
  for (std::size_t k = 0; k < parts.size() && in_runs; ++k) {
    edges.stays.emplace_back();
    in_runs = add_runs(parts[k], windows, k, &edges);
  }
  constexpr std::size_t most_runs = 512;
  if (!in_runs || edges.travels.size() > most_runs) {
    edges = {};
    const bool ordered = begin.is_sorted();
    for (const RowSource& part : parts) {
      edges.stays.emplace_back();
      add_edges(part, windows, ordered, &edges);
    }
  }
  return plan_edges(edges.stays, std::move(edges.travels), begin.size(), block);
}

}  // namespace tessera::spmd
