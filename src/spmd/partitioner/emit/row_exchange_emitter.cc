// SPDX-License-Identifier: Apache-2.0
// The device program of a row exchange: the rows that each device sends, the permutes, and how what
// it has then becomes its part of the destination. Where all devices put the same rows in the same
// places that is a concatenation; else rows are picked by a table, or, where that would be large,
// by shifting and masking.
#include "src/spmd/partitioner/emit/row_exchange_emitter.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>

namespace tessera::spmd {

namespace {

/// Rows [lo, hi) of the destination, which these moves bring to one device or another.
struct Slot {
  std::int64_t lo = 0, hi = 0;
  std::vector<std::size_t> moves;
};

/// How many coordinates send something.
std::int64_t senders_of(const RowPermute& m) { return m.target.size() - m.target.count(-1); }

/// The places that are the same on all devices; nothing if they differ. Without a filling a device
/// may have more rows of a move than it is to have.
std::optional<std::vector<Slot>> slots_of(const RowExchangePlan& plan, bool fills) {
  std::vector<Slot> slots;
  for (std::size_t i = 0; i < plan.moves.size(); ++i) {
    const RowPermute& m = plan.moves[i];
    std::optional<std::array<std::int64_t, 3>> first;
    std::int64_t lo = 0, hi = 0;
    bool same_places = true;
    for_equal<3>({&m.lo, &m.hi, &m.place}, [&](std::int64_t, std::int64_t, const auto& v) {
      if (v[0] >= v[1]) return;
      if (!first) {
        first = v;
        lo = v[0];
        hi = v[1];
      }
      const bool same = v[0] == (*first)[0] && v[1] == (*first)[1];
      same_places = same_places && v[2] == (*first)[2] && (!fills || same);
      lo = std::min(lo, v[0]);
      hi = std::max(hi, v[1]);
    });
    if (!same_places) return std::nullopt;
    if (!first) continue;
    auto same = std::find_if(slots.begin(), slots.end(),
                             [&](const Slot& s) { return s.lo == lo && s.hi == hi; });
    if (same != slots.end()) {
      // Each device has the rows of one of them.
      bool both = false;
      for (const std::size_t k : same->moves) {
        const RowPermute& other = plan.moves[k];
        for_equal<4>({&m.lo, &m.hi, &other.lo, &other.hi},
                     [&](std::int64_t, std::int64_t, const auto& v) {
                       both = both || (v[0] < v[1] && v[2] < v[3]);
                     });
      }
      if (both) return std::nullopt;
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

/// All moves bring something, to rows of that one block.
bool lands_within(const RowExchangePlan& plan, std::int64_t block) {
  return plan.block == block &&
         std::all_of(plan.moves.begin(), plan.moves.end(), [&](const RowPermute& m) {
           bool any = false;
           for_equal<2>({&m.lo, &m.hi},
                        [&](std::int64_t, std::int64_t, const auto& v) { any |= v[0] < v[1]; });
           return any && m.lo.least() >= 0 && m.lo.greatest() <= block && m.hi.least() >= 0 &&
                  m.hi.greatest() <= block;
         });
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
  const std::int64_t ways = plan.moves.front().lo.size();
  if (ways > most) return std::nullopt;
  Table table{plan.block, {}};
  auto divide = [&](std::int64_t n) { table.chunk = std::gcd(table.chunk, n); };
  std::int64_t offset = 0;
  for (const RowPermute& m : plan.moves) {
    for_equal<3>({&m.lo, &m.hi, &m.place}, [&](std::int64_t, std::int64_t, const auto& v) {
      if (v[0] >= v[1]) return;
      divide(v[0]);
      divide(v[1]);
      divide(offset - v[2]);
    });
    offset += m.rows;
    divide(offset);
  }
  const std::int64_t chunks = plan.block / table.chunk;
  if (chunks * ways > most) return std::nullopt;
  table.rows.assign(std::size_t(chunks * ways), missing < 0 ? 0 : missing / table.chunk);
  offset = 0;
  for (const RowPermute& m : plan.moves) {
    for (std::size_t t = 0; t < std::size_t(ways); ++t) {
      for (std::int64_t k = m.lo[t] / table.chunk; k < m.hi[t] / table.chunk; ++k) {
        table.rows[t * std::size_t(chunks) + std::size_t(k)] =
            k + (offset - m.place[t]) / table.chunk;
      }
    }
    offset += m.rows;
  }
  return table;
}

Dims with_dim(Dims dims, std::int64_t d, std::int64_t size) {
  dims[std::size_t(d)] = size;
  return dims;
}

}  // namespace

ir::Instruction* RowExchangeEmitter::moved_rows(const RowPermute& m,
                                                const std::vector<ir::Instruction*>& arrays,
                                                std::int64_t dim, const IndexList& axes,
                                                double share, const ReshardReason& reason) {
  // Each device takes the rows from the array that it sends of.
  std::set<std::int64_t> used;
  for_equal<1>({&m.array}, [&](std::int64_t, std::int64_t, const auto& v) { used.insert(v[0]); });
  ir::Builder& b = emit_.b();
  ir::Instruction* x = nullptr;
  for (std::int64_t a : used) {
    ir::Instruction* rows_of = arrays[std::size_t(a)];
    if (rows_of->shape.dim(dim) < m.rows) rows_of = emit_.resized(rows_of, dim, m.rows);
    rows_of = emit_.dynamic_slice_dim(rows_of, dim, emit_.lookup(m.cut, axes), m.rows);
    if (!x) {
      x = rows_of;
      continue;
    }
    ir::Instruction* is_this =
        b.compare(ir::Direction::eq, emit_.lookup(m.array, axes), emit_.index(a));
    x = b.select(b.splat(is_this, x->shape.dims), rows_of, x);
  }
  if (!m.travels) return x;
  x = b.collective_permute(x, emit_.pairs_along(axes, m.target));
  // All permutes of an exchange together: what the busiest device receives.
  const auto senders = double(senders_of(m));
  report_.note(x, reason,
               double(x->shape.byte_count()) * share * senders / double(emit_.ways(axes)));
  return x;
}

ir::Instruction* RowExchangeEmitter::exchange(const RowExchangePlan& plan,
                                              const std::vector<ir::Instruction*>& arrays,
                                              std::int64_t dim, const IndexList& axes,
                                              ir::Instruction* fill, const ReshardReason& reason) {
  return exchange_blocks(plan, arrays, dim, axes, fill, {plan.block}, reason).front();
}

std::vector<ir::Instruction*> RowExchangeEmitter::exchange_blocks(
    const RowExchangePlan& plan, const std::vector<ir::Instruction*>& arrays, std::int64_t dim,
    const IndexList& axes, ir::Instruction* fill, const Dims& blocks, const ReshardReason& reason) {
  double rows = 0;
  for (const RowPermute& m : plan.moves) {
    if (m.travels) rows += double(m.rows) * double(senders_of(m));
  }
  const double share = rows == 0 ? 0 : double(plan.rows_received) * double(emit_.ways(axes)) / rows;
  std::vector<ir::Instruction*> moved;
  for (const RowPermute& m : plan.moves) {
    moved.push_back(moved_rows(m, arrays, dim, axes, share, reason));
  }
  std::vector<ir::Instruction*> out;
  std::int64_t begin = 0;
  const Shape& array = arrays.front()->shape;
  ir::Instruction* other = fill ? fill : emit_.constant_scalar(array.dtype, 0);
  if (blocks.size() == 1 && lands_within(plan, blocks.front())) {
    const Destination to{dim, axes, fill, other, with_dim(array.dims, dim, plan.block)};
    return {placed_rows(plan, moved, to)};
  }
  for (std::int64_t block : blocks) {
    // What of the moves lands in this block.
    RowExchangePlan part;
    part.block = block;
    std::vector<ir::Instruction*> landed;
    for (std::size_t i = 0; i < plan.moves.size(); ++i) {
      RowPermute m = plan.moves[i];
      bool any = false;
      m.lo = m.lo.plus(-begin).at_least(0).at_most(block);
      m.hi = m.hi.plus(-begin).at_least(0).at_most(block);
      m.place = m.place.plus(-begin);
      for_equal<2>({&m.lo, &m.hi},
                   [&](std::int64_t, std::int64_t, const auto& v) { any = any || v[0] < v[1]; });
      if (!any) continue;
      part.moves.push_back(std::move(m));
      landed.push_back(moved[i]);
    }
    const Destination to{dim, axes, fill, other, with_dim(array.dims, dim, block)};
    out.push_back(placed_rows(part, landed, to));
    begin += block;
  }
  return out;
}

ir::Instruction* RowExchangeEmitter::joined(const std::vector<ir::Instruction*>& parts,
                                            std::int64_t dim) {
  return parts.size() == 1 ? parts.front() : emit_.b().concatenate(parts, dim);
}

ir::Instruction* RowExchangeEmitter::placed_rows(const RowExchangePlan& plan,
                                                 const std::vector<ir::Instruction*>& moved,
                                                 const Destination& to) {
  if (plan.moves.empty() || plan.block == 0) return emit_.b().splat(to.other, to.dims);
  if (ir::Instruction* x = concatenated_rows(plan, moved, to)) return x;
  if (ir::Instruction* x = gathered_rows(plan, moved, to)) return x;
  return shifted_rows(plan, moved, to);
}

ir::Instruction* RowExchangeEmitter::concatenated_rows(const RowExchangePlan& plan,
                                                       const std::vector<ir::Instruction*>& moved,
                                                       const Destination& to) {
  const auto slots = slots_of(plan, to.fill != nullptr);
  if (!slots) return nullptr;
  ir::Builder& b = emit_.b();
  std::vector<ir::Instruction*> parts;
  std::int64_t at = 0;
  auto fill_to = [&](std::int64_t end) {
    if (end > at) parts.push_back(b.splat(to.other, with_dim(to.dims, to.dim, end - at)));
  };
  for (const Slot& slot : *slots) {
    fill_to(slot.lo);
    at = slot.hi;
    const Dims dims = with_dim(to.dims, to.dim, slot.hi - slot.lo);
    // Devices to which nothing comes have the filling; a permute gives them zeros.
    ir::Instruction* x = nullptr;
    for (std::size_t i : slot.moves) {
      const RowPermute& m = plan.moves[i];
      ByCoordinate mine;
      std::int64_t place = 0;
      for_equal<3>({&m.lo, &m.hi, &m.place}, [&](std::int64_t, std::int64_t n, const auto& v) {
        mine.append(n, v[0] < v[1] ? 1 : 0, 0);
        if (v[0] < v[1]) place = v[2];
      });
      ir::Instruction* rows_here =
          emit_.slice_dim(moved[i], to.dim, slot.lo - place, slot.hi - place);
      if (!x) {
        const bool all = mine.count(0) == 0;
        if (all || !to.fill || (m.travels && is_zero(*to.fill))) {
          x = rows_here;
          continue;
        }
        x = b.splat(to.fill, dims);
      }
      ir::Instruction* is_mine =
          b.compare(ir::Direction::eq, emit_.lookup(mine, to.axes), emit_.index(1));
      x = b.select(b.splat(is_mine, dims), rows_here, x);
    }
    parts.push_back(x);
  }
  fill_to(plan.block);
  return joined(parts, to.dim);
}

ir::Instruction* RowExchangeEmitter::gathered_rows(const RowExchangePlan& plan,
                                                   std::vector<ir::Instruction*> moved,
                                                   const Destination& to) {
  std::int64_t count = 0;
  for (const RowPermute& m : plan.moves) count += m.rows;
  const auto table = table_of(plan, to.fill ? count : -1);
  if (!table) return nullptr;
  ir::Builder& b = emit_.b();
  const std::int64_t dim = to.dim;
  if (to.fill) {
    moved.push_back(b.splat(to.fill, with_dim(to.dims, dim, table->chunk)));
    count += table->chunk;
  }
  ir::Instruction* x = joined(moved, dim);
  const std::int64_t chunks = plan.block / table->chunk;
  Dims dims = with_dim(x->shape.dims, dim, count / table->chunk);
  if (table->chunk > 1) dims.insert(dims.begin() + dim + 1, table->chunk);
  if (table->chunk > 1) x = b.reshape(x, dims);
  Literal values(Shape(s32, {std::int64_t(table->rows.size())}));
  auto data = values.mutable_data<std::int32_t>();
  for (std::size_t i = 0; i < table->rows.size(); ++i) data[i] = std::int32_t(table->rows[i]);
  const ByCoordinate starts = ByCoordinate::line(emit_.ways(to.axes), 0, chunks);
  ir::Instruction* picks =
      b.dynamic_slice(b.constant(values), {emit_.lookup(starts, to.axes)}, {chunks});
  ir::GatherAttrs attrs;
  attrs.start_index_map = attrs.collapsed_slice_dims = {dim};
  attrs.index_vector_dim = 1;
  attrs.slice_sizes = with_dim(dims, dim, 1);
  for (std::int64_t d = 0; d < std::int64_t(dims.size()); ++d) {
    if (d != dim) attrs.offset_dims.push_back(d);
  }
  x = b.emit(ir::Opcode::gather, {x, picks}, attrs);
  return x->shape.dims == to.dims ? x : b.reshape(x, to.dims);
}

ir::Instruction* RowExchangeEmitter::shifted_rows(const RowExchangePlan& plan,
                                                  const std::vector<ir::Instruction*>& moved,
                                                  const Destination& to) {
  ir::Builder& b = emit_.b();
  const std::int64_t block = plan.block;
  // Without a fill the largest move may be under the others, unmasked.
  std::vector<std::size_t> order(plan.moves.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
    return plan.moves[x].rows > plan.moves[y].rows;
  });
  ir::Instruction* acc = to.fill ? b.splat(to.fill, to.dims) : nullptr;
  for (std::size_t i : order) {
    const RowPermute& m = plan.moves[i];
    ir::Instruction* x = moved[i];
    // Shift the rows to their place. Every device must find its window inside the padded rows.
    const std::int64_t high_place = m.place.greatest(), low_place = m.place.least();
    const bool covers = m.lo.count(0) == m.lo.size() && m.hi.count(block) == m.hi.size();
    if (high_place != 0 || low_place != 0 || m.rows != block) {
      std::int64_t low = std::max<std::int64_t>(high_place, 0);
      std::int64_t high = std::max<std::int64_t>(block - (low_place + m.rows), 0);
      x = emit_.pad_dim(x, to.dim, {low, high, 0}, to.other);
      const ByCoordinate starts = m.place.times(-1).plus(low);
      if (x->shape.dim(to.dim) != block) {
        x = emit_.dynamic_slice_dim(x, to.dim, emit_.lookup(starts, to.axes), block);
      }
    }
    if (!acc || covers) {
      acc = x;
    } else {
      ir::Instruction* mask = emit_.range_mask(to.dims, to.dim, emit_.lookup(m.lo, to.axes),
                                               emit_.lookup(m.hi, to.axes));
      acc = b.select(mask, x, acc);
    }
  }
  return acc;
}

}  // namespace tessera::spmd
