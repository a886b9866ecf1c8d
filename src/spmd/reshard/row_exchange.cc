// SPDX-License-Identifier: Apache-2.0
// Plans row redistribution: edge colouring groups the pieces into collective-permutes.
#include "src/spmd/reshard/row_exchange.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "src/base/arrays/shape.h"
#include "src/spmd/reshard/bundles.h"

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

/// A list that has one number but where others are set.
class Numbers {
 public:
  Numbers(std::int64_t size, std::int64_t other) : size_(size), other_(other) {}
  /// At `count` coordinates from `begin` on, `apart` apart.
  void set(std::int64_t begin, std::int64_t apart, std::int64_t count, std::int64_t value,
           std::int64_t step = 0) {
    if (step == 0 && value == other_) return;
    if (apart == -1) {
      begin -= count - 1;
      value += step * (count - 1);
      step = -step;
      apart = 1;
    }
    all_lines_ = all_lines_ && (apart == 1 || count == 1);
    list_.push_back({begin, apart, count, value, step});
  }
  ByCoordinate list() {
    constexpr std::size_t few = 64;
    if (!all_lines_ || list_.size() > few) {
      Dims out(std::size_t(size_), other_);
      for (const One& one : list_) {
        for (std::int64_t k = 0; k < one.count; ++k) {
          out[std::size_t(one.begin + k * one.apart)] = one.value + k * one.step;
        }
      }
      return out;
    }
    std::sort(list_.begin(), list_.end(),
              [](const One& a, const One& b) { return a.begin < b.begin; });
    ByCoordinate out;
    for (const One& one : list_) {
      out.append(one.begin - out.size(), other_, 0);
      out.append(one.count, one.value, one.step);
    }
    out.append(size_ - out.size(), other_, 0);
    return out;
  }

 private:
  struct One {
    std::int64_t begin, apart, count, value, step;
  };
  std::int64_t size_, other_;
  bool all_lines_ = true;
  std::vector<One> list_;
};

RowPermute move_of(const Bundle& bundle, std::int64_t ways) {
  RowPermute m;
  m.rows = bundle.rows;
  const auto cut = [&](const Edge& e) {
    return std::max<std::int64_t>(std::min(e.from, e.array_rows - m.rows), 0);
  };
  const auto place = [&](const Edge& e) { return e.to - (e.from - cut(e)); };
  // Devices that take no part copy a participant's numbers, so that tables stay simple.
  const Edge& first = bundle.edges.front();
  Numbers target(ways, -1), array(ways, std::int64_t(first.array)), cuts(ways, cut(first));
  Numbers places(ways, place(first)), lo(ways, 0), hi(ways, 0);
  for (const Edge& e : bundle.edges) {
    target.set(e.source, e.source_step, e.count, e.target, e.target_step);
    array.set(e.source, e.source_step, e.count, std::int64_t(e.array));
    cuts.set(e.source, e.source_step, e.count, cut(e));
    places.set(e.target, e.target_step, e.count, place(e));
    lo.set(e.target, e.target_step, e.count, e.to);
    hi.set(e.target, e.target_step, e.count, e.to + e.rows);
  }
  m.target = target.list();
  m.array = array.list();
  m.cut = cuts.list();
  m.place = places.list();
  m.lo = lo.list();
  m.hi = hi.list();
  return m;
}

/// `stays`: by groups that each make a move of their own.
RowExchangePlan plan_edges(const std::vector<std::vector<Edge>>& stays, std::vector<Edge> travels,
                           std::int64_t ways, std::int64_t block, PlanFor what) {
  RowExchangePlan plan;
  plan.block = block;
  const bool moves = what == PlanFor::moves;
  for (const std::vector<Edge>& group : stays) {
    if (group.empty() || !moves) continue;
    Bundle all;
    for (const Edge& e : group) all.add(e);
    plan.moves.push_back(move_of(all, ways));
  }
  const std::vector<Bundle> bundles = bundles_of(std::move(travels), ways);
  for (const Bundle& bundle : bundles) {
    ++plan.permutes;
    plan.rows_moved += bundle.rows;
    if (!moves) continue;
    plan.moves.push_back(move_of(bundle, ways));
    plan.moves.back().travels = true;
  }
  plan.rows_received = rows_received(bundles, ways);
  return plan;
}

}  // namespace

RowExchangePlan plan_pieces(const std::vector<RowRun>& pieces, std::int64_t ways,
                            std::int64_t block) {
  // What stays moves within the device: one step for the first piece of each, one for the second.
  std::vector<std::vector<Edge>> stays;
  std::vector<std::size_t> kept(std::size_t(ways), 0);
  std::vector<Edge> travels;
  travels.reserve(pieces.size());
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
  return plan_edges(stays, std::move(travels), ways, block, PlanFor::moves);
}

RowExchangePlan plan_row_exchange(const std::vector<RowSource>& parts, std::int64_t ways,
                                  std::int64_t size, std::int64_t block, PlanFor what) {
  return plan_windows(parts, ByCoordinate::line(ways, 0, block), size, block, what);
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
  out->travels.reserve(out->travels.size() + 2 * std::size_t(ways));
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
class Runs {
 public:
  Runs(const RowSource& part, const Windows& w, std::size_t number, Edges* out)
      : part_(part),
        w_(w),
        ways_(w.ways()),
        first_(w.begin[0]),
        apart_(w.begin.pieces()[0].step),
        number_(number),
        out_(*out) {}

  /// Whether that was possible.
  bool add() {
    if (!w_.begin.is_line() || part_.everywhere || apart_ <= 0) return false;
    const ByCoordinate low = part_.lo.at_least(0), high = part_.hi.at_most(w_.size);
    for_lines<3>({&part_.start, &low, &high},
                 [&](std::int64_t c, std::int64_t count, const Rows& v, const Rows& s) {
                   if (possible_) add_line(c, count, v, s);
                 });
    return possible_;
  }

 private:
  using Rows = std::array<std::int64_t, 3>;  ///< start, low, high

  void add_line(std::int64_t c, std::int64_t count, Rows v, const Rows& s) {
    constexpr std::int64_t few = 4, many = 64, most_classes = 16;
    // Those that have any rows: so many more from one to the next.
    const std::int64_t rows = v[2] - v[1], more = s[2] - s[1];
    std::int64_t some = 0, end = count;
    if (more < 0) end = std::clamp<std::int64_t>(ceil_div(rows, -more), 0, count);
    if (more > 0) some = std::clamp<std::int64_t>(floor_div(-rows, more) + 1, 0, count);
    if (some >= end || (more == 0 && rows <= 0)) return;
    const auto at = [&](std::int64_t k) {
      return Rows{v[0] + s[0] * k, v[1] + s[1] * k, v[2] + s[2] * k};
    };
    const bool moves_as_one = s[0] == s[1] && s[0] == s[2] && s[0] != 0;
    if (moves_as_one && s[0] == apart_) return add_run(c + some, end - some, at(some), 1, 1);
    if (end - some <= few) {
      for (std::int64_t k = some; k < end; ++k) add_run(c + k, 1, at(k), 1, 1);
      return;
    }
    // Each so-many-th device does the same. Of few devices plans are made edge by edge.
    const std::int64_t common = std::gcd(s[0], apart_);
    const std::int64_t source_step = apart_ / std::max<std::int64_t>(common, 1);
    const std::int64_t target_step = s[0] / std::max<std::int64_t>(common, 1);
    possible_ = moves_as_one && ways_ > many && source_step <= most_classes &&
                std::abs(target_step) <= most_classes;
    for (std::int64_t k = some; possible_ && k < std::min(end, some + source_step); ++k) {
      add_run(c + k, ceil_div(end - k, source_step), at(k), source_step, target_step);
    }
  }

  /// From c on, to all windows that reach these rows.
  void add_run(std::int64_t c, std::int64_t count, const Rows& v, std::int64_t source_step,
               std::int64_t target_step) {
    constexpr std::int64_t most = 64;
    const std::int64_t begin = floor_div(v[1] - w_.block - first_, apart_) + 1;
    const std::int64_t end = ceil_div(v[2] - first_, apart_);
    possible_ = possible_ && end - begin <= most;
    for (std::int64_t d = begin; possible_ && d < end; ++d) {
      const std::int64_t from = first_ + apart_ * d;
      const std::int64_t lo = std::max(v[1], from), hi = std::min(v[2], from + w_.block);
      if (lo >= hi) continue;
      const Edge all{{c, d, lo - v[0], lo - from, hi - lo, part_.array, part_.rows},
                     mod(d - c, ways_),
                     count,
                     source_step,
                     target_step,
                     number_};
      // As far as there are such windows.
      const std::int64_t step = std::abs(target_step);
      const std::int64_t before = target_step > 0 ? -d : d - ways_ + 1;
      const std::int64_t after = target_step > 0 ? ways_ - d : d + 1;
      const std::int64_t some = std::clamp<std::int64_t>(ceil_div(before, step), 0, count);
      const std::int64_t last = std::clamp<std::int64_t>(ceil_div(after, step), some, count);
      if (some == last) continue;
      const std::int64_t turns = source_step - target_step, ahead = d - c;
      if (turns == 0 || ahead % turns != 0) {
        out_.add(all.between(some, last));
        continue;
      }
      // One of them may stay where it is.
      const std::int64_t own = std::clamp(ahead / turns, some, last);
      const std::int64_t next = std::min(own + (ahead / turns == own ? 1 : 0), last);
      for (const auto& [x, y] :
           {std::pair(some, own), std::pair(own, next), std::pair(next, last)}) {
        if (x < y) out_.add(all.between(x, y));
      }
    }
  }

  const RowSource& part_;
  const Windows& w_;
  const std::int64_t ways_, first_, apart_;
  const std::size_t number_;
  Edges& out_;
  bool possible_ = true;
};

}  // namespace

RowExchangePlan plan_windows(const std::vector<RowSource>& parts, const ByCoordinate& begin,
                             std::int64_t size, std::int64_t block, PlanFor what) {
  const Windows windows{begin, size, block};
  Edges edges;
  bool in_runs = begin.size() > 0;
  for (std::size_t k = 0; k < parts.size() && in_runs; ++k) {
    edges.stays.emplace_back();
    in_runs = Runs(parts[k], windows, k, &edges).add();
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
  return plan_edges(edges.stays, std::move(edges.travels), begin.size(), block, what);
}

}  // namespace tessera::spmd
