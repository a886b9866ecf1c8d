// SPDX-License-Identifier: Apache-2.0
#include "src/spmd/partitioner/route.h"

#include <algorithm>

#include "src/spmd/partitioner/context.h"

namespace tessera::spmd {

namespace {

std::int64_t mod(std::int64_t a, std::int64_t n) { return ((a % n) + n) % n; }

}  // namespace

RoutePart block_part(std::int64_t ways, std::int64_t size, std::int64_t from) {
  RoutePart p;
  p.rows = from;
  for (std::int64_t c = 0; c < ways; ++c) {
    p.start.push_back(c * from);
    p.lo.push_back(std::min(c * from, size));
    p.hi.push_back(std::min((c + 1) * from, size));
  }
  return p;
}

RoutePart spread_part(std::int64_t ways, std::int64_t size, std::int64_t low, std::int64_t interior,
                      std::int64_t out) {
  RoutePart p;
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

/// Rows that one device of a part has for another.
struct Edge {
  std::int64_t source = 0, target = 0, lo = 0, hi = 0, key = 0;
  const RoutePart* part = nullptr;
  std::int64_t rows() const { return hi - lo; }
};

/// Edges of which no two share a source or a target, and whose sizes are alike.
struct Bundle {
  std::vector<Edge> edges;
  std::vector<char> sends, receives;
  std::int64_t rows = 0;
};

std::vector<Bundle> bundles_of(std::vector<Edge> edges, std::int64_t ways) {
  std::stable_sort(edges.begin(), edges.end(),
                   [](const Edge& a, const Edge& b) { return a.key < b.key; });
  std::vector<Bundle> bundles;
  for (const Edge& e : edges) {
    const std::size_t s = std::size_t(e.source), t = std::size_t(e.target);
    Bundle* home = nullptr;
    for (Bundle& b : bundles) {
      const bool alike = 2 * std::min(e.rows(), b.rows) >= std::max(e.rows(), b.rows);
      if (!b.sends[s] && !b.receives[t] && (alike || b.edges.front().key == e.key)) {
        home = &b;
        break;
      }
    }
    if (!home) {
      bundles.push_back({{},
                         std::vector<char>(std::size_t(ways), 0),
                         std::vector<char>(std::size_t(ways), 0),
                         0});
      home = &bundles.back();
    }
    home->edges.push_back(e);
    home->sends[s] = home->receives[t] = 1;
    home->rows = std::max(home->rows, e.rows());
  }
  return bundles;
}

RouteMove move_of(const Bundle& bundle, const Dims& begin) {
  RouteMove m;
  m.rows = bundle.rows;
  const std::size_t n = begin.size();
  m.target.assign(n, -1);
  m.lo.assign(n, 0);
  m.hi.assign(n, 0);
  // Devices that take no part copy a participant's numbers, so that tables stay simple.
  const Edge& first = bundle.edges.front();
  auto cut = [&](const Edge& e) {
    const std::int64_t first = e.lo - e.part->start[std::size_t(e.source)];
    return std::max<std::int64_t>(std::min(first, e.part->rows - m.rows), 0);
  };
  auto place = [&](const Edge& e) {
    return e.part->start[std::size_t(e.source)] + cut(e) - begin[std::size_t(e.target)];
  };
  m.array.assign(n, std::int64_t(first.part->array));
  m.cut.assign(n, cut(first));
  m.place.assign(n, place(first));
  for (const Edge& e : bundle.edges) {
    const std::size_t t = std::size_t(e.target);
    m.target[std::size_t(e.source)] = e.target;
    m.array[std::size_t(e.source)] = std::int64_t(e.part->array);
    m.cut[std::size_t(e.source)] = cut(e);
    m.place[t] = place(e);
    m.lo[t] = e.lo - begin[t];
    m.hi[t] = e.hi - begin[t];
  }
  return m;
}

}  // namespace

RoutePlan plan_route(const std::vector<RoutePart>& parts, std::int64_t ways, std::int64_t size,
                     std::int64_t block, bool mirrored) {
  Dims begin;
  for (std::int64_t c = 0; c < ways; ++c) begin.push_back(c * block);
  return plan_windows(parts, begin, size, block, mirrored);
}

RoutePlan plan_windows(const std::vector<RoutePart>& parts, const Dims& begin, std::int64_t size,
                       std::int64_t block, bool mirrored) {
  const std::int64_t ways = std::int64_t(begin.size());
  RoutePlan plan;
  plan.block = block;
  Dims received(std::size_t(ways), 0);
  std::vector<Edge> travels;
  for (const RoutePart& part : parts) {
    std::vector<Edge> stays;
    for (std::int64_t c = 0; c < ways; ++c) {
      const std::int64_t low = std::max<std::int64_t>(part.lo[std::size_t(c)], 0);
      const std::int64_t high = std::min(part.hi[std::size_t(c)], size);
      for (std::int64_t d = 0; d < ways; ++d) {
        if (part.everywhere && d != c) continue;
        const std::int64_t from = begin[std::size_t(d)];
        Edge e{c, d, std::max(low, from), std::min(high, from + block), 0, &part};
        if (e.lo >= e.hi) continue;
        e.key = mirrored ? mod(c + d, ways) : mod(d - c, ways);
        (c == d ? stays : travels).push_back(e);
      }
    }
    if (stays.empty()) continue;
    Bundle all{stays, {}, {}, 0};
    for (const Edge& e : stays) all.rows = std::max(all.rows, e.rows());
    plan.moves.push_back(move_of(all, begin));
  }
  for (const Bundle& bundle : bundles_of(std::move(travels), ways)) {
    plan.moves.push_back(move_of(bundle, begin));
    plan.moves.back().travels = true;
    ++plan.permutes;
    for (const Edge& e : bundle.edges) received[std::size_t(e.target)] += bundle.rows;
  }
  for (std::int64_t r : received) plan.rows_received = std::max(plan.rows_received, r);
  return plan;
}

ir::Instruction* ComputationPartitioner::emit_route(const RoutePlan& plan,
                                                    const std::vector<ir::Instruction*>& arrays,
                                                    std::int64_t dim, const std::vector<int>& axes,
                                                    ir::Instruction* fill, const Shape& global) {
  const std::int64_t block = plan.block;
  auto idle = [](const RouteMove& m) {
    return std::size_t(std::count(m.target.begin(), m.target.end(), std::int64_t(-1)));
  };
  double rows = 0;
  for (const RouteMove& m : plan.moves) {
    if (m.travels) rows += double(m.rows) * double(m.target.size() - idle(m));
  }
  const double share = rows == 0 ? 0 : double(plan.rows_received) * double(ways(axes)) / rows;
  Dims out = arrays.front()->shape.dims;
  out[std::size_t(dim)] = block;
  const DType dtype = arrays.front()->shape.dtype;
  // Without a fill the largest move may lie under the others, unmasked.
  std::vector<std::size_t> order(plan.moves.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return plan.moves[a].rows > plan.moves[b].rows;
  });
  ir::Instruction* acc = nullptr;
  if (fill) acc = b().splat(fill, out);
  for (std::size_t i : order) {
    const RouteMove& m = plan.moves[i];
    // Each device takes the rows from the array that it sends of.
    Dims used = m.array;
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    ir::Instruction* x = nullptr;
    for (std::int64_t a : used) {
      ir::Instruction* rows_of = arrays[std::size_t(a)];
      if (rows_of->shape.dim(dim) < m.rows) rows_of = resized(rows_of, dim, m.rows);
      rows_of = dynamic_slice_dim(rows_of, dim, lookup(m.cut, axes), m.rows);
      if (!x) {
        x = rows_of;
        continue;
      }
      ir::Instruction* is_this = b().compare(ir::Direction::eq, lookup(m.array, axes), index(a));
      x = b().select(b().splat(is_this, x->shape.dims), rows_of, x);
    }
    if (m.travels) {
      std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
      const LogicalMesh& mesh = *module_.mesh();
      Dims strides = mesh.strides();
      for (std::int64_t p = 0; p < mesh.num_devices(); ++p) {
        std::int64_t c = 0;
        for (int a : axes) {
          std::int64_t size = mesh.axes[std::size_t(a)].size;
          c = c * size + (p / strides[std::size_t(a)]) % size;
        }
        const std::int64_t d = m.target[std::size_t(c)];
        if (d < 0) continue;
        std::int64_t q = p, rest = d;
        for (std::size_t k = axes.size(); k-- > 0;) {
          std::size_t a = std::size_t(axes[k]);
          std::int64_t size = mesh.axes[a].size, old = (p / strides[a]) % size;
          q += (rest % size - old) * strides[a];
          rest /= size;
        }
        pairs.emplace_back(mesh.device_at(p), mesh.device_at(q));
      }
      std::sort(pairs.begin(), pairs.end());
      x = b().collective_permute(x, std::move(pairs));
      // All permutes of a route together: what the busiest device receives.
      note(x, byte_count(x) * share * double(m.target.size() - idle(m)) / double(ways(axes)));
    }
    // Shift the rows to their place. Every device must find its window inside the padded rows.
    std::int64_t high_place = *std::max_element(m.place.begin(), m.place.end());
    std::int64_t low_place = *std::min_element(m.place.begin(), m.place.end());
    bool covers = true;
    for (std::size_t d = 0; d < m.lo.size(); ++d) covers &= m.lo[d] == 0 && m.hi[d] == block;
    if (high_place == 0 && low_place == 0 && m.rows == block) {
      // Already there.
    } else {
      std::int64_t low = std::max<std::int64_t>(high_place, 0);
      std::int64_t high = std::max<std::int64_t>(block - (low_place + m.rows), 0);
      std::vector<ir::PadDim> padding(out.size());
      padding[std::size_t(dim)] = {low, high, 0};
      if (low != 0 || high != 0) {
        x = b().pad(x, fill ? fill : constant_scalar(dtype, 0), padding);
      }
      Dims starts;
      for (std::int64_t place : m.place) starts.push_back(low - place);
      if (x->shape.dim(dim) != block) x = dynamic_slice_dim(x, dim, lookup(starts, axes), block);
    }
    if (!acc || covers) {
      acc = x;
    } else {
      ir::Instruction* mask = range_mask(out, dim, lookup(m.lo, axes), lookup(m.hi, axes));
      acc = b().select(mask, x, acc);
    }
  }
  (void)global;
  if (!acc) acc = b().splat(constant_scalar(dtype, 0), out);
  return acc;
}

}  // namespace tessera::spmd
