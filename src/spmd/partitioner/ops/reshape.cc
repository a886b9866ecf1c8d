// SPDX-License-Identifier: Apache-2.0
// Reshapes. Dims that correspond one to one keep any sharding; where dims are split or merged, an
// even split of shared factors stays local, an uneven one moves rows between neighbours, and one
// that cuts across the other side moves piece by piece.
#include <algorithm>
#include <optional>

#include "src/base/check.h"
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

namespace {

/// Dims of operand and result that hold the same elements.
struct Segment {
  Dims in, out;  ///< dims of size 1 are left out
};

std::vector<Segment> segments_of(const Dims& in, const Dims& out) {
  std::vector<Segment> segments;
  std::size_t i = 0, o = 0;
  while (true) {
    while (i < in.size() && in[i] == 1) ++i;
    while (o < out.size() && out[o] == 1) ++o;
    if (i == in.size() && o == out.size()) return segments;
    Segment s;
    std::int64_t a = 1, b = 1;
    do {
      if (a <= b && i < in.size()) {
        if (in[i] != 1) s.in.push_back(std::int64_t(i));
        a *= in[i++];
      } else {
        if (out[o] != 1) s.out.push_back(std::int64_t(o));
        b *= out[o++];
      }
    } while (a != b);
    segments.push_back(std::move(s));
  }
}

/// Size-1 dims have no place for axes, and axes of size 1 split nothing.
TensorSharding without_ones(TensorSharding s, const Dims& global) {
  for (std::size_t d = 0; d < global.size(); ++d) {
    erase_if(s.dims[d].axes,
             [&](int a) { return global[d] == 1 || s.mesh->axes[std::size_t(a)].size == 1; });
  }
  return s;
}

bool even(const TensorSharding& s, const Dims& dims, const Dims& global) {
  return std::all_of(dims.begin(), dims.end(),
                     [&](std::int64_t d) { return global[std::size_t(d)] % s.shards(d) == 0; });
}

/// The axes of a segment whose first dim carries all of them; empty otherwise.
const IndexList* major_axes(const TensorSharding& s, const Dims& dims) {
  if (dims.empty()) return nullptr;
  for (std::size_t i = 1; i < dims.size(); ++i) {
    if (s.shards(dims[i]) > 1) return nullptr;
  }
  const IndexList& axes = s.dims[std::size_t(dims[0])].axes;
  return s.shards(dims[0]) > 1 ? &axes : nullptr;
}

std::int64_t inner_count(const Dims& dims, const Dims& global) {
  std::int64_t n = 1;
  for (std::size_t i = 1; i < dims.size(); ++i) n *= global[std::size_t(dims[i])];
  return n;
}

/// A segment that is split along its first dims, in blocks that hold different rows on both sides.
struct Shift {
  Segment segment;
  IndexList axes;
  RowExchangePlan plan;
  std::int64_t from_block;  ///< rows of the joined segment in a shard of the operand
};

/// Layouts of operand and result under which the reshape is local but for the shifts.
struct Plan {
  TensorSharding in, out;
  std::vector<Shift> shifts;
};

/// Axes of some dims with the distance, in elements, between their neighbours. Two even splits of
/// the same elements are the same split if these are equal.
std::vector<std::pair<int, std::int64_t>> places(const TensorSharding& s, const Dims& dims,
                                                 const Dims& global) {
  std::vector<std::pair<int, std::int64_t>> out;
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    const std::size_t d = std::size_t(dims[i]);
    std::int64_t at = stride * global[d];
    for (int axis : s.dims[d].axes) {
      at /= s.mesh->axes[std::size_t(axis)].size;
      out.emplace_back(axis, at);
    }
    stride *= global[d];
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// The coordinate along `to` of each coordinate along `from`, if these are the same axes.
std::optional<std::vector<std::int64_t>> reordered(const PartitionContext& p, const IndexList& from,
                                                   const IndexList& to) {
  if (from.empty() || !std::is_permutation(from.begin(), from.end(), to.begin(), to.end())) {
    return std::nullopt;
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> digits;  // stride and size of each axis
  for (int axis : to) {
    std::int64_t stride = 1, size = 1;
    for (std::size_t k = from.size(); k-- > 0;) {
      size = p.emit.ways({from[k]});
      if (from[k] == axis) break;
      stride *= size;
    }
    digits.emplace_back(stride, size);
  }
  std::vector<std::int64_t> out;
  for (std::int64_t c = 0; c < p.emit.ways(from); ++c) {
    std::int64_t at = 0;
    for (const auto& [stride, size] : digits) at = at * size + c / stride % size;
    out.push_back(at);
  }
  return out;
}

/// How far the elements from `at` on of some dims, taken as one, are contiguous in one shard; whose
/// shard that is along these dims' axes, and where in it they begin.
struct Run {
  std::int64_t owner = 0, local = 0, length = 0;
};

Run run_at(const TensorSharding& s, const Dims& dims, const Dims& global, std::int64_t at) {
  Run run;
  std::int64_t inner = 1, local_inner = 1, ways = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    const std::int64_t size = global[std::size_t(dims[i])], n = s.shards(dims[i]);
    const std::int64_t block = ceil_div(size, n), place = at / inner % size;
    run.owner += place / block * ways;
    run.local += place % block * local_inner;
    if (run.length == 0) {
      // The innermost split dim ends the run, or all of it does.
      const std::int64_t end = std::min((place / block + 1) * block, size);
      if (n > 1 || i == 0) run.length = (end - place) * inner - at % inner;
    }
    inner *= size;
    local_inner *= block;
    ways *= n;
  }
  return run;
}

/// Moves the elements of a segment from one split to another along the same axes, piece by piece.
/// Nothing if there are too many pieces.
std::optional<RowExchangePlan> plan_segment(const Segment& s, const TensorSharding& in_layout,
                                            const TensorSharding& out_layout, const Dims& in,
                                            const Dims& out,
                                            const std::vector<std::int64_t>& source_of) {
  constexpr std::int64_t most = 64;  // pieces of one device
  const std::int64_t ways = std::int64_t(source_of.size());
  std::int64_t size = 1, from_block = 1, to_block = 1;
  for (std::int64_t d : s.in) {
    size *= in[std::size_t(d)];
    from_block *= ceil_div(in[std::size_t(d)], in_layout.shards(d));
  }
  for (std::int64_t d : s.out) to_block *= ceil_div(out[std::size_t(d)], out_layout.shards(d));
  std::vector<RowRun> pieces;
  for (std::int64_t at = 0; at < size;) {
    const Run from = run_at(in_layout, s.in, in, at), to = run_at(out_layout, s.out, out, at);
    const std::int64_t rows = std::min(from.length, to.length);
    pieces.push_back(
        {source_of[std::size_t(from.owner)], to.owner, from.local, to.local, rows, 0, from_block});
    if (std::int64_t(pieces.size()) > most * ways) return std::nullopt;
    at += rows;
  }
  return plan_pieces(pieces, ways, to_block);
}

/// Where a segment is one dim on each side, the result takes the axes of the operand; others keep
/// theirs if they agree (or can be shifted) and lose them if not.
Plan plan_for(const PartitionContext& p, const Dims& in, const Dims& out,
              const TensorSharding& in_layout, const TensorSharding& out_layout, bool by_pieces) {
  Plan plan{without_ones(reduced(in_layout), in), without_ones(reduced(out_layout), out), {}};
  for (const Segment& s : segments_of(in, out)) {
    if (s.in.size() == 1 && s.out.size() == 1) {
      plan.out.dims[std::size_t(s.out[0])].axes = plan.in.dims[std::size_t(s.in[0])].axes;
      continue;
    }
    if (even(plan.in, s.in, in) && even(plan.out, s.out, out)) {
      if (places(plan.in, s.in, in) == places(plan.out, s.out, out)) continue;
    } else {
      const IndexList* a = major_axes(plan.in, s.in);
      const IndexList* b = major_axes(plan.out, s.out);
      if (a && b && *a == *b) {
        const std::int64_t n = p.emit.ways(*a), inner = inner_count(s.in, in);
        const std::int64_t size = in[std::size_t(s.in[0])] * inner;
        const std::int64_t from_block = ceil_div(in[std::size_t(s.in[0])], n) * inner;
        const std::int64_t to_block =
            ceil_div(out[std::size_t(s.out[0])], n) * inner_count(s.out, out);
        plan.shifts.push_back(
            {s, *a, plan_row_exchange({block_part(n, size, from_block)}, n, size, to_block),
             from_block});
        continue;
      }
    }
    if (by_pieces) {
      const IndexList from = axes_on(plan.in, s.in), to = axes_on(plan.out, s.out);
      if (std::optional<std::vector<std::int64_t>> order = reordered(p, from, to)) {
        if (auto exchange = plan_segment(s, plan.in, plan.out, in, out, *order)) {
          std::int64_t from_block = 1;
          for (std::int64_t d : s.in) {
            from_block *= ceil_div(in[std::size_t(d)], plan.in.shards(d));
          }
          plan.shifts.push_back({s, to, std::move(*exchange), from_block});
          continue;
        }
      }
    }
    plan.in = without_dims(plan.in, s.in);
    plan.out = without_dims(plan.out, s.out);
  }
  return plan;
}

double price(PartitionContext& p, Value* v, const Plan& plan, const ir::Instruction& source,
             const TensorSharding& requested) {
  const std::int64_t width = std::int64_t(byte_size(source.shape.dtype));
  double total = p.values.reshard_price(v, plan.in);
  total += p.module.reshard_cost(plan.out, requested, source.shape);
  const double shards = parts_of(plan.in);
  for (const Shift& s : plan.shifts) {
    const double local = double(source.shape.element_count() * width) / shards;
    total += p.module.rows_price(local * double(s.plan.rows_moved) / double(s.from_block),
                                 s.plan.permutes, s.axes);
  }
  // Work that several devices repeat is paid, to break ties.
  return total + p.module.machine().work(double(source.shape.element_count()) / shards);
}

}  // namespace

OpPlan plan_reshape(PartitionContext& p, const ir::Instruction& source) {
  const ir::Instruction& operand = *source.operand(0);
  const Dims &in = operand.shape.dims, &out = source.shape.dims;
  Value* v = p.values.operand(operand);
  const TensorSharding requested = reduced(p.source.sharding(source));
  std::vector<Plan> candidates;
  bool settled = false;  // nothing has to move
  const TensorSharding replicated_in = p.source.replicated(operand.shape.rank());
  if (source.shape.element_count() > 0) {
    const ComputeLayout layout = p.layouts.choose(source, split_only(*rule_for(source), {}));
    candidates.push_back(
        plan_for(p, in, out, layout.operands[0], layout.results[0], /*by_pieces=*/false));
    const Plan& first = candidates.front();
    settled = first.shifts.empty() && same_layout(first.in, v->sharding) &&
              same_layout(first.out, requested) && same_layout(layout.operands[0], v->sharding) &&
              same_layout(layout.results[0], requested);
    if (!settled) {
      candidates.push_back(plan_for(p, in, out, v->sharding, requested, /*by_pieces=*/true));
    }
  }
  if (!settled) candidates.push_back({replicated_in, p.source.replicated(source.shape.rank()), {}});
  const Plan* best = nullptr;
  double least = 0;
  for (const Plan& c : candidates) {
    double cost = settled ? 0 : price(p, v, c, source, requested);
    // Gathering what is split at both ends is the last resort.
    if (is_fully_replicated(c.in) && !is_fully_replicated(v->sharding) &&
        !is_fully_replicated(requested)) {
      cost += 1e30;
    }
    if (!best || cost < least) {
      best = &c;
      least = cost;
    }
  }
  return {{best->in}, {best->out}};
}

void partition_reshape(PartitionContext& p, const ir::Instruction& source) {
  const Dims &in = source.operand(0)->shape.dims, &out = source.shape.dims;
  const Value* operand = p.values.declared(*source.operand(0));
  Plan plan{operand->sharding, p.source.sharding(source), {}};
  if (source.shape.element_count() > 0) {
    plan = plan_for(p, in, out, plan.in, plan.out, /*by_pieces=*/true);
  }
  TESSERA_CHECK(
      same_layout(plan.in, operand->sharding),
      source.describe() + " is not in a layout of its own: " + operand->sharding.to_spec_string());
  ir::Instruction* x = operand->local;
  ir::Builder& b = p.b();
  Dims local_out = plan.out.shard_dims(out);
  for (const Shift& s : plan.shifts) {
    // The segment as one dim, rows moved, then all of it in the result's dims below.
    Dims dims = x->shape.dims, joined;
    std::int64_t at = -1;
    const std::int64_t first = s.segment.in.front(), last = s.segment.in.back();
    for (std::int64_t d = 0; d < std::int64_t(dims.size()); ++d) {
      if (d == first) {
        at = std::int64_t(joined.size());
        joined.push_back(s.from_block);
      } else if (d < first || d > last) {
        joined.push_back(dims[std::size_t(d)]);
      }
    }
    x = b.reshape(x, joined);
    x = p.rows.exchange(s.plan, {x}, at, s.axes, nullptr,
                        ReshardReason::between(plan.in, plan.out, "rows of reshape"));
    // Back to the operand's rank, so that the dims of other segments are found again.
    Dims spread = x->shape.dims;
    spread.insert(spread.begin() + at + 1, std::size_t(last - first), 1);
    x = b.reshape(x, spread);
  }
  x = b.reshape(x, local_out);
  p.values.define(source, p.values.make(x, plan.out, source.shape));
}

}  // namespace tessera::spmd
