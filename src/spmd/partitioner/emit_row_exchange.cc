// SPDX-License-Identifier: Apache-2.0
// The device program of a exchange: the rows that each device sends, the permutes, and how what it
// has then becomes its part of the destination. Where all devices put the same rows in the same
// places that is a concatenation; where each finds its rows in a row there, a window of it; else
// rows are picked by a table; tables that would be large are replaced by shifting and masking.
#include <algorithm>
#include <numeric>
#include <optional>

#include "src/spmd/partitioner/context.h"

namespace tessera::spmd {

namespace {

/// Rows [lo, hi) of the destination, which these moves bring to one device or another.
struct Slot {
  std::int64_t lo = 0, hi = 0;
  std::vector<std::size_t> moves;
};

bool takes_part(const RowPermute& m, std::size_t target) { return m.lo[target] < m.hi[target]; }

/// The places that are the same on all devices; nothing if they differ.
std::optional<std::vector<Slot>> slots_of(const RowExchangePlan& plan) {
  std::vector<Slot> slots;
  for (std::size_t i = 0; i < plan.moves.size(); ++i) {
    const RowPermute& m = plan.moves[i];
    std::optional<std::size_t> first;
    for (std::size_t t = 0; t < m.lo.size(); ++t) {
      if (!takes_part(m, t)) continue;
      if (!first) first = t;
      if (m.lo[t] != m.lo[*first] || m.hi[t] != m.hi[*first] || m.place[t] != m.place[*first]) {
        return std::nullopt;
      }
    }
    if (!first) continue;
    const std::int64_t lo = m.lo[*first], hi = m.hi[*first];
    auto same = std::find_if(slots.begin(), slots.end(),
                             [&](const Slot& s) { return s.lo == lo && s.hi == hi; });
    if (same != slots.end()) {
      same->moves.push_back(i);
      continue;
    }
    for (const Slot& s : slots) {
      if (lo < s.hi && s.lo < hi) return std::nullopt;
    }
    slots.push_back({lo, hi, {i}});
  }
  std::sort(slots.begin(), slots.end(), [](const Slot& a, const Slot& b) { return a.lo < b.lo; });
  return slots;
}

bool is_zero(const ir::Instruction& x) {
  return x.is(ir::Opcode::constant) && x.get<ir::ConstantAttrs>().value == Literal(x.shape);
}

/// Where each device finds its rows among those of all moves, one behind the other: chunks of
/// `chunk` rows.
struct Table {
  std::int64_t chunk = 1;
  Dims rows;  ///< by coordinate, then by chunk of the destination
};

/// Nothing if the table would be large. `missing`: the first row of the filling, -1 without.
std::optional<Table> table_of(const RowExchangePlan& plan, std::int64_t missing) {
  constexpr std::int64_t most = 1024;
  const std::int64_t ways = std::int64_t(plan.moves.front().lo.size());
  Table table{plan.block, {}};
  auto divide = [&](std::int64_t n) { table.chunk = std::gcd(table.chunk, n); };
  std::int64_t offset = 0;
  for (const RowPermute& m : plan.moves) {
    for (std::size_t t = 0; t < m.lo.size(); ++t) {
      if (!takes_part(m, t)) continue;
      divide(m.lo[t]);
      divide(m.hi[t]);
      divide(offset - m.place[t]);
    }
    offset += m.rows;
    divide(offset);
  }
  const std::int64_t chunks = plan.block / table.chunk;
  if (chunks * ways > most) return std::nullopt;
  table.rows.assign(std::size_t(chunks * ways), missing < 0 ? 0 : missing / table.chunk);
  offset = 0;
  for (const RowPermute& m : plan.moves) {
    for (std::size_t t = 0; t < m.lo.size(); ++t) {
      if (!takes_part(m, t)) continue;
      for (std::int64_t k = m.lo[t] / table.chunk; k < m.hi[t] / table.chunk; ++k) {
        table.rows[t * std::size_t(chunks) + std::size_t(k)] =
            k + (offset - m.place[t]) / table.chunk;
      }
    }
    offset += m.rows;
  }
  return table;
}

/// Rows of all moves one behind the other, in which each device finds its part as it stands.
struct Windows {
  std::vector<std::size_t> order;    ///< of the moves
  std::int64_t front = 0, back = 0;  ///< rows of filling before and behind them
  Dims starts;                       ///< by coordinate
};

/// Nothing if some device's rows don't lie in a row in any order of the moves. `filled`: rows that
/// no move brings must be of the filling.
class WindowSearch {
 public:
  WindowSearch(const RowExchangePlan& plan, bool filled) : plan_(plan), filled_(filled) {}

  std::optional<Windows> run() {
    constexpr std::size_t most = 4;
    if (plan_.moves.size() > most || !collect()) return std::nullopt;
    Windows w;
    w.order.resize(plan_.moves.size());
    std::iota(w.order.begin(), w.order.end(), std::size_t(0));
    do {
      if (place(&w)) return w;
    } while (std::next_permutation(w.order.begin(), w.order.end()));
    return std::nullopt;
  }

 private:
  /// Rows [lo, hi) of a device's part, from row `from` of a move.
  struct Run {
    std::int64_t lo = 0, hi = 0, from = 0;
    std::size_t move = 0;
  };

  bool collect() {
    const std::size_t ways = plan_.moves.front().lo.size();
    runs_.resize(ways);
    for (std::size_t t = 0; t < ways; ++t) {
      std::vector<Run>& mine = runs_[t];
      for (std::size_t i = 0; i < plan_.moves.size(); ++i) {
        const RowPermute& m = plan_.moves[i];
        if (takes_part(m, t)) mine.push_back({m.lo[t], m.hi[t], m.lo[t] - m.place[t], i});
      }
      std::sort(mine.begin(), mine.end(), [](const Run& a, const Run& b) { return a.lo < b.lo; });
      if (mine.empty() && filled_) return false;
      for (std::size_t k = 1; k < mine.size(); ++k) {
        if (mine[k].lo != mine[k - 1].hi) return false;
      }
    }
    return true;
  }

  bool place(Windows* w) const {
    std::vector<std::int64_t> at(plan_.moves.size());
    std::int64_t total = 0;
    for (const std::size_t i : w->order) {
      at[i] = total;
      total += plan_.moves[i].rows;
    }
    // Relative to the first row of the moves.
    std::int64_t least = 0, most = total;
    w->starts.clear();
    for (const std::vector<Run>& mine : runs_) {
      if (mine.empty()) {
        w->starts.push_back(0);
        most = std::max(most, plan_.block);
        continue;
      }
      const std::int64_t start = at[mine[0].move] + mine[0].from - mine[0].lo;
      for (const Run& r : mine) {
        if (at[r.move] + r.from != start + r.lo) return false;
      }
      if (filled_ && mine.front().lo > 0 && start + mine.front().lo != 0) return false;
      const std::int64_t end = mine.back().hi;
      if (filled_ && end < plan_.block && start + end != total) return false;
      least = std::min(least, start);
      most = std::max(most, start + plan_.block);
      w->starts.push_back(start);
    }
    w->front = -least;
    w->back = most - total;
    for (std::int64_t& s : w->starts) s += w->front;
    return true;
  }

  const RowExchangePlan& plan_;
  const bool filled_;
  std::vector<std::vector<Run>> runs_;  ///< by coordinate, in the order of the destination
};

/// By position in the mesh: its part of a number that differs along the axes, `weights[k]` a step
/// along axes[k].
Dims along(const LogicalMesh& mesh, const IndexList& axes, const Dims& weights) {
  Dims sums{0};
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    std::int64_t weight = 0;
    for (std::size_t k = 0; k < axes.size(); ++k) {
      if (std::size_t(axes[k]) == a) weight = weights[k];
    }
    Dims next;
    next.reserve(sums.size() * std::size_t(mesh.axes[a].size));
    for (std::int64_t sum : sums) {
      for (std::int64_t c = 0; c < mesh.axes[a].size; ++c) next.push_back(sum + c * weight);
    }
    sums = std::move(next);
  }
  return sums;
}

/// The pairs of a permute by which each device sends to the one that stands at `target[c]` along
/// the axes, itself at c; -1: it sends nothing.
std::vector<std::pair<std::int64_t, std::int64_t>> pairs_along(const LogicalMesh& mesh,
                                                               const IndexList& axes,
                                                               const Dims& target) {
  const Dims strides = mesh.strides();
  Dims weights(axes.size());
  std::int64_t ways = 1;
  for (std::size_t k = axes.size(); k-- > 0;) {
    weights[k] = ways;
    ways *= mesh.axes[std::size_t(axes[k])].size;
  }
  // How far apart positions of two coordinates are.
  Dims offset(std::size_t(ways), 0);
  for (std::int64_t c = 0; c < ways; ++c) {
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const std::size_t a = std::size_t(axes[k]);
      offset[std::size_t(c)] += c / weights[k] % mesh.axes[a].size * strides[a];
    }
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  const Dims coordinates = along(mesh, axes, weights);
  pairs.reserve(coordinates.size());
  for (std::size_t p = 0; p < coordinates.size(); ++p) {
    const std::size_t c = std::size_t(coordinates[p]);
    if (target[c] < 0) continue;
    const std::int64_t q = std::int64_t(p) + offset[std::size_t(target[c])] - offset[c];
    pairs.emplace_back(mesh.device_at(std::int64_t(p)), mesh.device_at(q));
  }
  if (!mesh.device_ids.empty()) std::sort(pairs.begin(), pairs.end());
  return pairs;
}

Dims with_dim(Dims dims, std::int64_t d, std::int64_t size) {
  dims[std::size_t(d)] = size;
  return dims;
}

}  // namespace

ir::Instruction* ComputationPartitioner::moved_rows(const RowPermute& m,
                                                    const std::vector<ir::Instruction*>& arrays,
                                                    std::int64_t dim, const IndexList& axes,
                                                    double share) {
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
  if (!m.travels) return x;
  x = b().collective_permute(x, pairs_along(*module_.mesh(), axes, m.target));
  // All permutes of a exchange together: what the busiest device receives.
  const auto idle = std::count(m.target.begin(), m.target.end(), std::int64_t(-1));
  note(x,
       byte_count(x) * share * double(std::int64_t(m.target.size()) - idle) / double(ways(axes)));
  return x;
}

ir::Instruction* ComputationPartitioner::emit_row_exchange(
    const RowExchangePlan& plan, const std::vector<ir::Instruction*>& arrays, std::int64_t dim,
    const IndexList& axes, ir::Instruction* fill, const Shape& /*global*/) {
  return emit_row_exchanges(plan, arrays, dim, axes, fill, {plan.block}).front();
}

std::vector<ir::Instruction*> ComputationPartitioner::emit_row_exchanges(
    const RowExchangePlan& plan, const std::vector<ir::Instruction*>& arrays, std::int64_t dim,
    const IndexList& axes, ir::Instruction* fill, const Dims& blocks) {
  double rows = 0;
  for (const RowPermute& m : plan.moves) {
    const auto idle = std::count(m.target.begin(), m.target.end(), std::int64_t(-1));
    if (m.travels) rows += double(m.rows) * double(std::int64_t(m.target.size()) - idle);
  }
  const double share = rows == 0 ? 0 : double(plan.rows_received) * double(ways(axes)) / rows;
  std::vector<ir::Instruction*> moved;
  for (const RowPermute& m : plan.moves) moved.push_back(moved_rows(m, arrays, dim, axes, share));
  std::vector<ir::Instruction*> out;
  std::int64_t begin = 0;
  for (std::int64_t block : blocks) {
    // What of the moves lands in this block.
    RowExchangePlan part;
    part.block = block;
    std::vector<ir::Instruction*> landed;
    for (std::size_t i = 0; i < plan.moves.size(); ++i) {
      RowPermute m = plan.moves[i];
      bool any = false;
      for (std::size_t t = 0; t < m.lo.size(); ++t) {
        m.lo[t] = std::clamp<std::int64_t>(m.lo[t] - begin, 0, block);
        m.hi[t] = std::clamp<std::int64_t>(m.hi[t] - begin, 0, block);
        m.place[t] -= begin;
        any = any || takes_part(m, t);
      }
      if (!any) continue;
      part.moves.push_back(std::move(m));
      landed.push_back(moved[i]);
    }
    const Dims dims = with_dim(arrays.front()->shape.dims, dim, block);
    out.push_back(
        placed_rows(part, landed, dim, axes, fill, Shape(arrays.front()->shape.dtype, dims)));
    begin += block;
  }
  return out;
}

ir::Instruction* ComputationPartitioner::placed_rows(const RowExchangePlan& plan,
                                                     std::vector<ir::Instruction*> moved,
                                                     std::int64_t dim, const IndexList& axes,
                                                     ir::Instruction* fill, const Shape& shape) {
  const std::int64_t block = plan.block;
  const Dims& out = shape.dims;
  ir::Instruction* other = fill ? fill : constant_scalar(shape.dtype, 0);
  if (plan.moves.empty() || block == 0) return b().splat(other, out);
  auto rows_between = [&](ir::Instruction* x, std::int64_t lo, std::int64_t hi) {
    Dims starts(x->shape.dims.size(), 0);
    starts[std::size_t(dim)] = lo;
    if (lo == 0 && hi == x->shape.dim(dim)) return x;
    return b().slice(x, starts, with_dim(x->shape.dims, dim, hi));
  };
  auto joined = [&](const std::vector<ir::Instruction*>& parts) {
    return parts.size() == 1 ? parts.front() : b().concatenate(parts, dim);
  };
  if (const auto slots = slots_of(plan)) {
    std::vector<ir::Instruction*> parts;
    std::int64_t at = 0;
    auto fill_to = [&](std::int64_t end) {
      if (end > at) parts.push_back(b().splat(other, with_dim(out, dim, end - at)));
    };
    for (const Slot& slot : *slots) {
      fill_to(slot.lo);
      at = slot.hi;
      const Dims dims = with_dim(out, dim, slot.hi - slot.lo);
      // Devices to which nothing comes have the filling; a permute gives them zeros.
      ir::Instruction* x = nullptr;
      for (std::size_t i : slot.moves) {
        const RowPermute& m = plan.moves[i];
        Dims mine;
        std::int64_t place = 0;
        for (std::size_t t = 0; t < m.lo.size(); ++t) {
          mine.push_back(takes_part(m, t) ? 1 : 0);
          if (mine.back()) place = m.place[t];
        }
        ir::Instruction* rows_here = rows_between(moved[i], slot.lo - place, slot.hi - place);
        if (!x) {
          const bool all = std::count(mine.begin(), mine.end(), 0) == 0;
          if (all || !fill || (m.travels && is_zero(*fill))) {
            x = rows_here;
            continue;
          }
          x = b().splat(fill, dims);
        }
        ir::Instruction* is_mine = b().compare(ir::Direction::eq, lookup(mine, axes), index(1));
        x = b().select(b().splat(is_mine, dims), rows_here, x);
      }
      parts.push_back(x);
    }
    fill_to(block);
    return joined(parts);
  }
  if (const auto windows = WindowSearch(plan, fill != nullptr).run()) {
    std::vector<ir::Instruction*> parts;
    auto add_other = [&](std::int64_t n) {
      if (n > 0) parts.push_back(b().splat(other, with_dim(out, dim, n)));
    };
    add_other(windows->front);
    for (const std::size_t i : windows->order) parts.push_back(moved[i]);
    add_other(windows->back);
    return dynamic_slice_dim(joined(parts), dim, lookup(windows->starts, axes), block);
  }
  std::int64_t count = 0;
  for (const RowPermute& m : plan.moves) count += m.rows;
  if (const auto table = table_of(plan, fill ? count : -1)) {
    if (fill) {
      moved.push_back(b().splat(fill, with_dim(out, dim, table->chunk)));
      count += table->chunk;
    }
    ir::Instruction* x = joined(moved);
    const std::int64_t chunks = block / table->chunk;
    Dims dims = with_dim(x->shape.dims, dim, count / table->chunk);
    if (table->chunk > 1) dims.insert(dims.begin() + dim + 1, table->chunk);
    if (table->chunk > 1) x = b().reshape(x, dims);
    Literal values(Shape(s32, {std::int64_t(table->rows.size())}));
    auto data = values.mutable_data<std::int32_t>();
    for (std::size_t i = 0; i < table->rows.size(); ++i) data[i] = std::int32_t(table->rows[i]);
    Dims starts;
    for (std::int64_t c = 0; c < ways(axes); ++c) starts.push_back(c * chunks);
    ir::Instruction* picks =
        b().dynamic_slice(b().constant(values), {lookup(starts, axes)}, {chunks});
    ir::GatherAttrs attrs;
    attrs.start_index_map = attrs.collapsed_slice_dims = {dim};
    attrs.index_vector_dim = 1;
    attrs.slice_sizes = with_dim(dims, dim, 1);
    for (std::int64_t d = 0; d < std::int64_t(dims.size()); ++d) {
      if (d != dim) attrs.offset_dims.push_back(d);
    }
    x = b().emit(ir::Opcode::gather, {x, picks}, attrs);
    return x->shape.dims == out ? x : b().reshape(x, out);
  }
  return shifted_rows(plan, moved, dim, axes, fill, out);
}

ir::Instruction* ComputationPartitioner::shifted_rows(const RowExchangePlan& plan,
                                                      const std::vector<ir::Instruction*>& moved,
                                                      std::int64_t dim, const IndexList& axes,
                                                      ir::Instruction* fill, const Dims& out) {
  const std::int64_t block = plan.block;
  // Without a fill the largest move may lie under the others, unmasked.
  std::vector<std::size_t> order(plan.moves.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return plan.moves[a].rows > plan.moves[b].rows;
  });
  ir::Instruction* acc = fill ? b().splat(fill, out) : nullptr;
  for (std::size_t i : order) {
    const RowPermute& m = plan.moves[i];
    ir::Instruction* x = moved[i];
    // Shift the rows to their place. Every device must find its window inside the padded rows.
    std::int64_t high_place = *std::max_element(m.place.begin(), m.place.end());
    std::int64_t low_place = *std::min_element(m.place.begin(), m.place.end());
    bool covers = true;
    for (std::size_t d = 0; d < m.lo.size(); ++d) covers &= m.lo[d] == 0 && m.hi[d] == block;
    if (high_place != 0 || low_place != 0 || m.rows != block) {
      std::int64_t low = std::max<std::int64_t>(high_place, 0);
      std::int64_t high = std::max<std::int64_t>(block - (low_place + m.rows), 0);
      std::vector<ir::PadDim> padding(out.size());
      padding[std::size_t(dim)] = {low, high, 0};
      if (low != 0 || high != 0) {
        x = b().pad(x, fill ? fill : constant_scalar(x->shape.dtype, 0), padding);
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
  return acc;
}

}  // namespace tessera::spmd
