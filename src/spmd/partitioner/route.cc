// SPDX-License-Identifier: Apache-2.0
#include "src/spmd/partitioner/route.h"

#include <algorithm>

#include "src/spmd/partitioner/context.h"

namespace tessera::spmd {

namespace {

std::int64_t mod(std::int64_t a, std::int64_t n) { return ((a % n) + n) % n; }

}  // namespace

std::int64_t RoutePlan::target(const RouteMove& m, std::int64_t source) const {
  return mirrored ? mod(m.key - source, ways) : mod(source + m.key, ways);
}
std::int64_t RoutePlan::source(const RouteMove& m, std::int64_t target) const {
  return mirrored ? mod(m.key - target, ways) : mod(target - m.key, ways);
}

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

RoutePlan plan_route(const std::vector<RoutePart>& parts, std::int64_t ways, std::int64_t size,
                     std::int64_t block, bool mirrored) {
  RoutePlan plan;
  plan.ways = ways;
  plan.block = block;
  plan.mirrored = mirrored;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const RoutePart& part = parts[p];
    for (std::int64_t key = 0; key < ways; ++key) {
      RouteMove m;
      m.part = p;
      m.key = part.everywhere ? 0 : key;
      std::vector<std::int64_t> begin(std::size_t(ways), 0), end(std::size_t(ways), 0);
      for (std::int64_t d = 0; d < ways; ++d) {
        std::int64_t c = part.everywhere ? d : plan.source(m, d);
        std::int64_t lo = std::max({part.lo[std::size_t(c)], d * block, std::int64_t(0)});
        std::int64_t hi = std::min({part.hi[std::size_t(c)], (d + 1) * block, size});
        if (lo >= hi) continue;
        begin[std::size_t(d)] = lo;
        end[std::size_t(d)] = hi;
        m.rows = std::max(m.rows, hi - lo);
        if (!part.everywhere && c != d) m.travels = true;
      }
      if (m.rows > 0) {
        m.cut.assign(std::size_t(ways), 0);
        m.place.assign(std::size_t(ways), 0);
        m.lo.assign(std::size_t(ways), 0);
        m.hi.assign(std::size_t(ways), 0);
        // Devices that take no part copy a neighbour's numbers, so that tables stay simple.
        std::int64_t known = -1;
        for (std::int64_t pass = 0; pass < 2; ++pass) {
          for (std::int64_t d = 0; d < ways; ++d) {
            std::size_t c = std::size_t(part.everywhere ? d : plan.source(m, d)), di = std::size_t(d);
            if (begin[di] < end[di]) {
              if (pass == 1) continue;
              m.cut[c] = std::min(begin[di] - part.start[c], part.rows - m.rows);
              m.place[di] = part.start[c] + m.cut[c] - d * block;
              m.lo[di] = begin[di] - d * block;
              m.hi[di] = end[di] - d * block;
              known = d;
            } else if (pass == 1) {
              std::size_t kc = std::size_t(part.everywhere ? known : plan.source(m, known));
              m.cut[c] = m.cut[kc];
              m.place[di] = m.place[std::size_t(known)];
            }
          }
        }
        if (m.travels) {
          plan.rows_received += m.rows;
          ++plan.permutes;
        }
        plan.moves.push_back(std::move(m));
      }
      if (part.everywhere) break;
    }
  }
  return plan;
}

ir::Instruction* ComputationPartitioner::emit_route(const RoutePlan& plan,
                                                    const std::vector<ir::Instruction*>& parts,
                                                    std::int64_t dim, const std::vector<int>& axes,
                                                    ir::Instruction* fill, const Shape& global) {
  const std::int64_t block = plan.block;
  Dims out = parts.front()->shape.dims;
  out[std::size_t(dim)] = block;
  const DType dtype = parts.front()->shape.dtype;
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
    ir::Instruction* x = parts[m.part];
    if (m.rows < x->shape.dim(dim)) {
      x = dynamic_slice_dim(x, dim, lookup(m.cut, axes), m.rows);
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
        std::int64_t d = plan.target(m, c);
        if (m.lo[std::size_t(d)] >= m.hi[std::size_t(d)]) continue;
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
      note(x, byte_count(x));
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
