// SPDX-License-Identifier: Apache-2.0
// Sorts along a split dim. Leighton's columnsort: four sorts of each device's own rows, two
// all-to-alls between them and an exchange of halves with the neighbours order all of it, on any
// data, with never more than a shard on a device. Shards of few rows are merged two by two, as in
// Batcher's bitonic sort. Where only the first rows of a sort are used, each device sends its own
// first rows.
#include <algorithm>

#include "src/base/check.h"
#include "src/cost/collectives.h"
#include "src/ir/rewrite/on_arrays.h"
#include "src/spmd/partitioner/families.h"
#include "src/spmd/partitioner/ops/ordered.h"

namespace tessera::spmd {

namespace {

using ir::Opcode;

/// Any two sorts by it agree on all data: no comparison of floats that NaN makes no order.
bool is_order(const ir::Computation& comparator) {
  if (ir::not_on_arrays(comparator) || !comparator.root()->shape.is_array()) return false;
  for (const auto& i : comparator.instructions()) {
    if (i->is(Opcode::call) && !is_order(*i->called().front())) return false;
    if (!i->is(Opcode::compare)) continue;
    const auto& attrs = i->get<ir::CompareAttrs>();
    if (attrs.direction == ir::Direction::le || attrs.direction == ir::Direction::ge) return false;
    if (attrs.direction == ir::Direction::eq || attrs.direction == ir::Direction::ne) continue;
    if (is_floating(i->operand(0)->shape.dtype) && attrs.type != ir::ComparisonType::total_order) {
      return false;
    }
  }
  return true;
}

/// The sort is of one array by its elements' order itself, ascending (1) or descending (-1), so
/// that elements that are equal to it have the same bits; or by another order (0).
int plain_order(const ir::Instruction& source) {
  const ir::Instruction& root = *source.called().front()->root();
  if (source.operands().size() != 1 || !root.is(Opcode::compare)) return 0;
  if (!root.operand(0)->is(Opcode::parameter) || !root.operand(1)->is(Opcode::parameter) ||
      root.operand(0) == root.operand(1)) {
    return 0;
  }
  const bool less = root.get<ir::CompareAttrs>().direction == ir::Direction::lt;
  if (!less && root.get<ir::CompareAttrs>().direction != ir::Direction::gt) return 0;
  return less == (root.operand(0)->get<ir::ParameterAttrs>().number == 0) ? 1 : -1;
}

/// The operand that holds each row's place along the dim, if there is one.
int places_operand(const ir::Instruction& source, std::int64_t dim) {
  for (std::size_t i = 0; i < source.operands().size(); ++i) {
    const ir::Instruction* x = source.operand(i);
    if (!is_integer(x->shape.dtype) || byte_size(x->shape.dtype) < 4) continue;
    std::int64_t along = dim;
    while (x->is(Opcode::copy) || x->is(Opcode::broadcast)) {
      if (x->is(Opcode::broadcast)) {
        const Dims& map = x->get<ir::DimensionsAttrs>().dims;
        along = std::find(map.begin(), map.end(), along) - map.begin();
      }
      x = x->operand(0);
    }
    if (x->is(Opcode::iota) && x->get<ir::IotaAttrs>().dim == along) return int(i);
  }
  return -1;
}

/// A sort of one device's arrays: by the user's comparator and then, so that no two rows are equal,
/// by their places. Rows whose place is `size` or beyond are padding and come last.
struct LocalSort {
  PartitionContext& p;
  const ir::Instruction& source;
  std::int64_t dim = 0, size = 0;
  int places = -1;      ///< among the arrays; -1: rows may be equal
  bool padded = false;  ///< some rows are padding
  ir::Computation* made = nullptr;

  ir::Computation* comparator(const std::vector<ir::Instruction*>& xs) {
    if (made) return made;
    const ir::Computation& theirs = *source.called().front();
    ir::Builder b(p.module.target()->add_computation(theirs.name() + "_then_place"));
    std::vector<ir::Instruction*> forth, back;
    ir::Instruction* place[2] = {nullptr, nullptr};
    for (std::size_t i = 0; i < xs.size(); ++i) {
      ir::Instruction* pair[2];
      for (std::size_t side = 0; side < 2; ++side) {
        pair[side] = b.parameter(std::int64_t(2 * i + side), Shape(xs[i]->shape.dtype, {}));
        if (int(i) == places) place[side] = pair[side];
      }
      if (i >= source.operands().size()) continue;
      forth.insert(forth.end(), {pair[0], pair[1]});
      back.insert(back.end(), {pair[1], pair[0]});
    }
    ir::Instruction* out = ir::on_arrays(b, theirs, forth).front();
    if (places >= 0) {
      ir::Instruction* after = ir::on_arrays(b, theirs, back).front();
      ir::Instruction* earlier = b.compare(ir::Direction::lt, place[0], place[1]);
      ir::Instruction* tie = b.binary(Opcode::and_, b.unary(Opcode::not_, after), earlier);
      out = b.binary(Opcode::or_, out, tie);
      if (padded) {
        ir::Instruction* end = b.scalar(place[0]->shape.dtype, double(size));
        ir::Instruction* real = b.binary(Opcode::and_, b.compare(ir::Direction::lt, place[0], end),
                                         b.compare(ir::Direction::lt, place[1], end));
        out = b.select(real, out, earlier);
      }
    }
    b.computation()->set_root(out);
    return made = b.computation();
  }

  std::vector<ir::Instruction*> operator()(const std::vector<ir::Instruction*>& xs) {
    return p.emit.unpack(p.b().sort(xs, dim, places < 0, comparator(xs)));
  }
};

std::vector<ir::Instruction*> sliced(PartitionContext& p, std::vector<ir::Instruction*> xs,
                                     std::int64_t dim, std::int64_t from, std::int64_t to) {
  for (ir::Instruction*& x : xs) x = p.emit.slice_dim(x, dim, from, to);
  return xs;
}

/// One array from two, and a choice between two, for several arrays at once.
std::vector<ir::Instruction*> joined(ir::Builder& b, const std::vector<ir::Instruction*>& xs,
                                     const std::vector<ir::Instruction*>& ys, std::int64_t dim) {
  std::vector<ir::Instruction*> out;
  for (std::size_t i = 0; i < xs.size(); ++i) out.push_back(b.concatenate({xs[i], ys[i]}, dim));
  return out;
}

std::vector<ir::Instruction*> chosen(ir::Builder& b, ir::Instruction* condition,
                                     const std::vector<ir::Instruction*>& xs,
                                     const std::vector<ir::Instruction*>& ys) {
  std::vector<ir::Instruction*> out;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    out.push_back(b.select(b.splat(condition, xs[i]->shape.dims), xs[i], ys[i]));
  }
  return out;
}

/// How the rows of a sort are laid out, and how they travel.
struct Exchange {
  std::int64_t dim = 0, size = 0, ways = 1;
  IndexList axes;
  std::int64_t block = 0;  ///< rows of a device while they are sorted
  int places = -1;         ///< the operand with the rows' places; operands.size(): one more
  bool padded = false;
  bool by_merging = false;  ///< two blocks at a time
  int plain = 0;            ///< see plain_order: padding then is what comes last
  DType place_type = s32;
  double bytes = 0;
  int collectives = 0;
  ReshardReason reason = "";
};

/// How often each of `ways` blocks meets another until all are in order.
int rounds_of_merging(std::int64_t ways) {
  int levels = 0;
  for (std::int64_t k = 1; k < ways; k *= 2) ++levels;
  return levels * (levels + 1) / 2;
}

/// The cheapest that orders any data; none if the blocks are too small for their number and that is
/// no power of two.
std::optional<Exchange> exchange_for(const ir::Instruction& source, const TensorSharding& s) {
  Exchange e;
  e.dim = source.get<ir::SortAttrs>().dim;
  const Shape& in = source.operand(0)->shape;
  e.size = in.dim(e.dim);
  e.ways = s.shards(e.dim);
  e.axes = s.dims[std::size_t(e.dim)].axes;
  const std::int64_t shard = ceil_div(e.size, e.ways);
  const std::int64_t step = e.ways % 2 == 0 ? e.ways : 2 * e.ways;
  e.block = ceil_div(shard, step) * step;
  e.by_merging = e.ways == 2 || e.block < 2 * (e.ways - 1) * (e.ways - 1);
  if (e.by_merging) {
    if ((e.ways & (e.ways - 1)) != 0) return std::nullopt;
    e.block = shard;
  }
  const std::int64_t rows = e.block * e.ways;
  if (rows != std::int64_t(std::int32_t(rows))) return std::nullopt;
  e.padded = rows != e.size;
  // Two parts, the lower one first, are merged as they stand.
  e.plain = plain_order(source);
  const bool needs_places = e.plain == 0 && (e.padded || e.ways > 2);
  e.place_type = rows + (e.padded ? 1 : 0) <= 65536 ? u16 : s32;
  if (needs_places) {
    e.places = places_operand(source, e.dim);
    if (e.places < 0) e.places = int(source.operands().size());
  }
  double row = 0;
  for (const ir::Instruction* o : source.operands()) row += row_bytes(o->shape, s, e.dim);
  int arrays = int(source.operands().size());
  if (e.places == arrays) {
    row += row_bytes(Shape(e.place_type, in.dims), s, e.dim);
    ++arrays;
  }
  const int rounds = rounds_of_merging(e.ways);
  const double swap = cost::received_bytes(ir::Opcode::all_to_all, 1, double(e.ways));
  e.bytes = row * double(e.block) * (e.by_merging ? rounds : 2 * swap + 1);
  e.collectives = arrays * (e.by_merging ? rounds : 4);
  if (e.block != shard) {
    const RowExchangePlan plan =
        plan_row_exchange({block_part(e.ways, e.size, e.block)}, e.ways, e.size, shard);
    e.bytes += row * double(plan.rows_received);
    e.collectives += plan.permutes * int(source.operands().size());
  }
  return e;
}

/// The device's own rows, made `e.block` many, with their places behind them if they need some.
std::vector<ir::Instruction*> rows_of(PartitionContext& p, const std::vector<Value*>& values,
                                      const Exchange& e) {
  ir::Builder& b = p.b();
  const std::int64_t shard = values.front()->local->shape.dim(e.dim), past_end = e.block * e.ways;
  std::vector<ir::Instruction*> out;
  for (Value* v : values) {
    ir::Instruction *x = v->local, *fill = nullptr;
    if (e.plain != 0 && e.padded) {
      fill = last_of_all(p, x->shape.dtype, e.plain < 0);
      x = p.values.masked(v, {e.dim}, fill);
    } else if (int(out.size()) == e.places) {
      fill = b.scalar(x->shape.dtype, double(past_end));
    }
    out.push_back(fill ? p.emit.pad_dim(x, e.dim, {0, e.block - shard, 0}, fill)
                       : p.emit.resized(x, e.dim, e.block));
  }
  if (e.places != int(out.size())) return out;
  const Dims dims = out.front()->shape.dims;
  const Dims line{e.block};
  ir::Instruction* row = b.iota(Shape(s32, line), 0);
  ir::Instruction* place =
      b.binary(Opcode::add, row,
               b.splat(p.emit.shard_offset(values.front()->sharding, e.dim, e.size), line));
  if (e.block != shard) {
    ir::Instruction* real = b.compare(ir::Direction::lt, row, b.splat(p.emit.index(shard), line));
    place = b.select(real, place, b.splat(p.emit.index(past_end), line));
  }
  out.push_back(b.broadcast(b.convert(place, e.place_type), dims, {e.dim}));
  return out;
}

/// From the device at c to the one at `to(c)`.
template <class To>
std::vector<ir::Instruction*> sent(PartitionContext& p, std::vector<ir::Instruction*> xs,
                                   const Exchange& e, To to) {
  Dims target;
  for (std::int64_t c = 0; c < e.ways; ++c) target.push_back(to(c));
  for (ir::Instruction*& x : xs) {
    x = p.b().collective_permute(x, p.emit.pairs_along(e.axes, target));
    p.report.note(x, e.reason);
  }
  return xs;
}

/// Block j of each array goes to device j. `dealt`: blocks are dealt out row by row.
std::vector<ir::Instruction*> swapped(PartitionContext& p, std::vector<ir::Instruction*> xs,
                                      const Exchange& e, bool dealt) {
  ir::Builder& b = p.b();
  for (ir::Instruction*& x : xs) {
    const Dims dims = x->shape.dims;
    if (dealt) {
      Dims split = dims, perm;
      const std::size_t d = std::size_t(e.dim);
      split[d] = e.block / e.ways;
      split.insert(split.begin() + e.dim + 1, e.ways);
      for (std::size_t i = 0; i < split.size(); ++i) perm.push_back(std::int64_t(i));
      std::swap(perm[d], perm[d + 1]);
      x = b.reshape(b.transpose(b.reshape(x, split), perm), dims);
    }
    x = b.all_to_all(x, e.dim, p.emit.groups(e.axes));
    p.report.note(x, e.reason);
  }
  return xs;
}

/// Blocks in runs of 2, 4, ... devices, every other run the other way round, so that two runs make
/// one that rises and falls, which halves again and again put in order.
std::vector<ir::Instruction*> merge_across(PartitionContext& p, std::vector<ir::Instruction*> xs,
                                           const Exchange& e, LocalSort& sort) {
  ir::Builder& b = p.b();
  for (std::int64_t run = 2; run <= e.ways; run *= 2) {
    for (std::int64_t apart = run / 2; apart > 0; apart /= 2) {
      std::vector<ir::Instruction*> other =
          sent(p, xs, e, [&](std::int64_t c) { return c ^ apart; });
      std::vector<std::int64_t> keeps;
      for (std::int64_t c = 0; c < e.ways; ++c) {
        const bool lower = (c & apart) == 0, rising = (c & run) == 0;
        keeps.push_back(lower == rising ? 0 : e.block);
      }
      if (e.places < 0 && e.plain == 0) {
        // Of rows that are equal the lower device's come first: it has two blocks, its own first.
        ir::Instruction* first =
            b.compare(ir::Direction::eq, p.emit.coordinate(e.axes), p.emit.index(0));
        std::vector<ir::Instruction*> own = xs;
        xs = chosen(b, first, own, other);
        other = chosen(b, first, other, own);
      }
      xs = sort(joined(b, xs, other, e.dim));
      for (ir::Instruction*& x : xs) {
        x = p.emit.dynamic_slice_dim(x, e.dim, p.emit.lookup(keeps, e.axes), e.block);
      }
    }
  }
  return xs;
}

std::vector<ir::Instruction*> sort_across(PartitionContext& p, std::vector<ir::Instruction*> xs,
                                          const Exchange& e, LocalSort& sort) {
  ir::Builder& b = p.b();
  if (e.by_merging) return merge_across(p, std::move(xs), e, sort);
  const std::int64_t half = e.block / 2;
  xs = sort(swapped(p, sort(xs), e, true));
  xs = sort(swapped(p, xs, e, false));
  // All rows are less than half a block from where they belong: each device orders its lower half
  // and the upper half of the one before. The first gets the last's rows, which come after its own
  // and go back as they are, so that nobody keeps halves for a case of its own.
  std::vector<ir::Instruction*> border =
      sent(p, sliced(p, xs, e.dim, half, e.block), e, [&](auto c) { return (c + 1) % e.ways; });
  border = sort(joined(b, border, sliced(p, xs, e.dim, 0, half), e.dim));
  std::vector<std::int64_t> keeps(std::size_t(e.ways), half), returns(std::size_t(e.ways), 0);
  std::swap(keeps.front(), returns.front());
  auto halves = [&](const std::vector<std::int64_t>& starts) {
    std::vector<ir::Instruction*> out;
    for (ir::Instruction* x : border) {
      out.push_back(p.emit.dynamic_slice_dim(x, e.dim, p.emit.lookup(starts, e.axes), half));
    }
    return out;
  };
  const std::vector<ir::Instruction*> back =
      sent(p, halves(returns), e, [&](auto c) { return (c + e.ways - 1) % e.ways; });
  return joined(b, halves(keeps), back, e.dim);
}

/// A sort along a dim that stays split.
struct SplitSort {
  ComputeLayout layout;
  Exchange exchange;
};

/// None if it is cheaper to have all of the dim on each device, or if there is no other way.
std::optional<SplitSort> split_sort(PartitionContext& p, const ir::Instruction& source) {
  const FactorRule rule = *rule_for(source);
  const std::int64_t dim = source.get<ir::SortAttrs>().dim;
  if (source.operand(0)->shape.element_count() == 0 || !is_order(*source.called().front())) {
    return std::nullopt;
  }
  FactorRule across = rule;
  across.factors[std::size_t(across.operands[0][std::size_t(dim)].front())].kind =
      FactorKind::permutation;
  const std::optional<ComputeLayout> given = p.layouts.given(source, across);
  const ComputeLayout split = given ? *given : p.layouts.choose(source, across);
  if (split.operands[0].shards(dim) == 1) return std::nullopt;
  const std::optional<Exchange> e = exchange_for(source, split.operands[0]);
  if (!e) return std::nullopt;
  if (given) return SplitSort{split, *e};
  const double price =
      price_of(p, source, split) + p.module.rows_price(e->bytes, e->collectives, e->axes);
  const ComputeLayout kept = p.layouts.choose(source, rule);
  // Gathering what is split at both ends is the last resort.
  bool gathers = false;
  for (std::size_t i = 0; i < source.operands().size(); ++i) {
    gathers |= gathers_for_lack_of_form(p, source, i, *p.values.operand(*source.operand(i)), kept);
  }
  if (!gathers && price_of(p, source, kept) <= price) return std::nullopt;
  return SplitSort{split, *e};
}

}  // namespace

OpPlan plan_sort(PartitionContext& p, const ir::Instruction& source) {
  const std::optional<SplitSort> split = split_sort(p, source);
  return split ? planned(split->layout) : plan_by_rule(p, source);
}

void partition_sort(PartitionContext& p, const ir::Instruction& source) {
  std::optional<SplitSort> split = split_sort(p, source);
  if (!split) return partition_by_rule(p, source);
  Exchange& e = split->exchange;
  const std::vector<Value*> values = p.values.operands_in(source, split->layout.operands);
  e.reason = ReshardReason::within(split->layout.operands[0], "rows of " + op_label(source));
  LocalSort sort{p, source, e.dim, e.size, e.places, e.padded};
  std::vector<ir::Instruction*> xs = sort_across(p, rows_of(p, values, e), e, sort);
  const std::int64_t shard = ceil_div(e.size, e.ways);
  if (e.block != shard) {
    const RowExchangePlan plan =
        plan_row_exchange({block_part(e.ways, e.size, e.block)}, e.ways, e.size, shard);
    for (std::size_t i = 0; i < source.operands().size(); ++i) {
      xs[i] = p.rows.exchange(plan, {xs[i]}, e.dim, e.axes, nullptr, e.reason);
    }
  }
  p.values.define(source, xs, split->layout.results);
}

}  // namespace tessera::spmd
