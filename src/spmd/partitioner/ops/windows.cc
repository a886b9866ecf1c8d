// SPDX-License-Identifier: Apache-2.0
// Windows that glide along split dims (convolutions, pooling): each device fetches the rows that
// its windows reach beyond its own. Reductions of all earlier elements are in prefix_scan.cc.
#include <algorithm>
#include <optional>

#include "src/base/check.h"
#include "src/base/contains.h"
#include "src/spmd/partitioner/families.h"
#include "src/spmd/partitioner/ops/ordered.h"

namespace tessera::spmd {

namespace {

/// The rows that each device needs along one dim, in the input spread by its dilation.
struct Halo {
  std::int64_t dim = 0;       ///< of the input
  std::int64_t interior = 0;  ///< to spread the local rows by first
  IndexList axes;
  bool everywhere = false;
  RowExchangePlan plan;
};

/// Windows of `kernel` taps whose first output on the device at c begins `step` * c rows after that
/// of the device before. `everywhere`: each device has all rows and only picks its own.
Halo halo_for(const PartitionContext& p, std::int64_t dim, const IndexList& axes, std::int64_t size,
              const ir::WindowDim& w, std::int64_t step, std::int64_t outputs, std::int64_t kernel,
              bool everywhere) {
  Halo halo{dim, w.lhs_dilation - 1, axes, everywhere, {}};
  const std::int64_t ways = p.emit.ways(axes), spread = (size - 1) * w.lhs_dilation + 1;
  const std::int64_t rows = (outputs - 1) * w.stride + (kernel - 1) * w.rhs_dilation + 1;
  const ByCoordinate begin = ByCoordinate::line(ways, -w.pad_low, step);
  RowSource part = spread_part(everywhere ? 1 : ways, size, 0, halo.interior, spread);
  if (everywhere) {
    part.everywhere = true;
    for (ByCoordinate* list : {&part.start, &part.lo, &part.hi}) {
      *list = ByCoordinate::same(ways, (*list)[0]);
    }
  }
  halo.plan = plan_windows({part}, begin, spread, rows);
  return halo;
}

/// The layout in which an operand's rows are fetched: dims of which each device has all stay so.
TensorSharding fetched_from(TensorSharding layout, const std::vector<Halo>& halos) {
  for (const Halo& h : halos) {
    if (h.everywhere) layout = without_dims(layout, {h.dim});
  }
  return layout;
}

/// Devices that differ along these axes only have all of the dim, or can make it.
bool is_everywhere(const Value& v, std::int64_t dim, const IndexList& axes) {
  if (v.is_recomputable()) return true;
  if (!v.sharding.unreduced.empty() || v.sharding.shards(dim) > 1) return false;
  const IndexList used = used_axes(v.sharding);
  return std::none_of(axes.begin(), axes.end(), [&](int a) { return contains(used, a); });
}

double price(const PartitionContext& p, const std::vector<Halo>& halos, const Shape& global,
             const TensorSharding& s) {
  double total = 0;
  for (const Halo& h : halos) {
    const double row = row_bytes(global, s, h.dim);
    total += p.module.rows_price(row * double(h.plan.rows_moved), h.plan.permutes, h.axes);
  }
  return total;
}

ir::Instruction* fetch(PartitionContext& p, const ir::Instruction& source, ir::Instruction* x,
                       const std::vector<Halo>& halos, ir::Instruction* fill,
                       const TensorSharding& layout) {
  const ReshardReason reason =
      ReshardReason::within(layout, "rows that windows of " + op_label(source) + " reach");
  for (const Halo& h : halos) {
    x = p.emit.pad_dim(x, h.dim, {0, 0, h.interior}, fill);
    x = p.rows.exchange(h.plan, {x}, h.dim, h.axes, fill, reason);
  }
  return x;
}

/// The window that is left once the rows have been fetched.
ir::WindowDim bare(const ir::WindowDim& w, std::int64_t size) {
  ir::WindowDim out;
  out.size = size;
  out.stride = w.stride;
  out.rhs_dilation = w.rhs_dilation;
  out.reversal = w.reversal;
  return out;
}

/// A reduce-window along split dims.
struct SplitWindows {
  ComputeLayout layout;
  std::optional<std::int64_t> sums;  ///< the dim of a scan
  std::vector<Halo> halos;
};

/// None if it is cheaper to leave unsplit what windows glide along, or nothing of that is split.
std::optional<SplitWindows> split_windows(PartitionContext& p, const ir::Instruction& source) {
  const FactorRule rule = *rule_for(source);
  if (source.operand(0)->shape.element_count() == 0) return std::nullopt;
  const std::size_t count = source.operands().size() / 2;
  const Shape& in = source.operand(0)->shape;
  const std::vector<Shape> out = flatten(source.shape);
  const auto& window = source.get<ir::WindowAttrs>().dims;
  const std::optional<ComputeLayout> given = p.layouts.given(source, rule);
  SplitWindows w{given ? *given : p.layouts.choose(source, rule), std::nullopt, {}};
  const TensorSharding& s = w.layout.operands[0];
  auto everywhere = [&](std::size_t d) {
    for (std::size_t i = 0; i < count; ++i) {
      const Value* v = p.values.operand(*source.operand(i));
      if (!is_everywhere(*v, std::int64_t(d), s.dims[d].axes)) return false;
    }
    return true;
  };
  w.sums = scan_dim(source, s);
  double cost = w.layout.cost;
  if (w.sums) {
    Dims local = s.shard_dims(in.dims);
    local[std::size_t(*w.sums)] = s.shards(*w.sums);
    for (const Shape& x : out) {
      cost += p.module.rows_price(double(Shape(x.dtype, local).byte_count()), 1,
                                  s.dims[std::size_t(*w.sums)].axes);
    }
  } else {
    for (std::size_t d = 0; d < window.size(); ++d) {
      const std::int64_t ways = s.shards(std::int64_t(d));
      if (ways == 1 || window[d] == ir::WindowDim{}) continue;
      const std::int64_t block = ceil_div(out[0].dims[d], ways);
      w.halos.push_back(halo_for(p, std::int64_t(d), s.dims[d].axes, in.dims[d], window[d],
                                 block * window[d].stride, block, window[d].size, everywhere(d)));
    }
    for (const Shape& x : out) cost += price(p, w.halos, Shape(x.dtype, in.dims), s);
  }
  if (!w.sums && w.halos.empty()) return std::nullopt;
  const bool unsplit_is_cheaper =
      !w.sums && !given && p.layouts.choose(source, without_windows(rule)).cost <= cost;
  if (unsplit_is_cheaper) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    w.layout.operands[i] = fetched_from(w.layout.operands[i], w.halos);
  }
  return w;
}

}  // namespace

OpPlan plan_reduce_window(PartitionContext& p, const ir::Instruction& source) {
  const std::optional<SplitWindows> w = split_windows(p, source);
  return w ? planned(w->layout) : plan_by_rule(p, source);
}

void partition_reduce_window(PartitionContext& p, const ir::Instruction& source) {
  const std::optional<SplitWindows> w = split_windows(p, source);
  if (!w) return partition_by_rule(p, source);
  const auto& [split, sums, halos] = *w;
  const std::size_t count = source.operands().size() / 2;
  std::vector<Value*> values = p.values.operands_in(source, split.operands);
  std::vector<ir::Instruction*> parts;
  if (sums) {
    parts = prefix_scan(p, source, values, *sums);
  } else {
    std::vector<ir::Instruction*> inputs;
    for (std::size_t i = 0; i < count; ++i) {
      inputs.push_back(
          fetch(p, source, values[i]->local, halos, values[count + i]->local, split.operands[i]));
    }
    for (std::size_t i = 0; i < count; ++i) inputs.push_back(values[count + i]->local);
    ir::WindowAttrs local = source.get<ir::WindowAttrs>();
    for (const Halo& h : halos) {
      ir::WindowDim& w = local.dims[std::size_t(h.dim)];
      w = bare(w, w.size);
    }
    parts = p.emit.unpack(
        p.emit.local_op(source, inputs, local_tuple(source.shape, split.results), local));
  }
  p.values.define(source, parts, split.results);
}

namespace {

/// A convolution, and by which factors its work may be split.
struct Convolution {
  const ir::Instruction& source;
  const ir::ConvolutionAttrs& attrs;
  const Shape &lhs, &rhs;
  FactorRule rule;

  explicit Convolution(const ir::Instruction& op)
      : source(op),
        attrs(op.get<ir::ConvolutionAttrs>()),
        lhs(op.operand(0)->shape),
        rhs(op.operand(1)->shape),
        rule(*rule_for(op)) {
    std::vector<char> keep(rule.factors.size(), 0);
    auto allow = [&](std::size_t operand, std::int64_t dim) {
      for (int f : rule.operands[operand][std::size_t(dim)]) keep[std::size_t(f)] = 1;
    };
    allow(0, attrs.input_batch);
    allow(0, attrs.input_feature);
    allow(1, attrs.kernel_output_feature);
    const bool empty =
        lhs.element_count() == 0 || rhs.element_count() == 0 || op.shape.element_count() == 0;
    for (std::size_t s = 0; s < attrs.input_spatial.size() && !empty; ++s) {
      const int f = only_factor(0, attrs.input_spatial[s]);
      const bool sums = f >= 0 && f == only_factor(1, attrs.kernel_spatial[s]);
      if (!sums || !attrs.window[s].reversal) allow(0, attrs.input_spatial[s]);
    }
    for (std::size_t f = 0; f < keep.size(); ++f) {
      if (!keep[f]) rule.factors[f].kind = FactorKind::need_replication;
    }
  }

  /// The factor of a dim; -1 if it has several.
  int only_factor(std::size_t operand, std::int64_t dim) const {
    const IndexList& f = rule.operands[operand][std::size_t(dim)];
    return f.size() == 1 ? f.front() : -1;
  }

  /// The rule for windows that find all their rows on the device.
  FactorRule without_halos() const {
    FactorRule out = rule;
    for (std::int64_t d : attrs.input_spatial) {
      const int f = only_factor(0, d);
      if (f >= 0) out.factors[std::size_t(f)].kind = FactorKind::need_replication;
    }
    return out;
  }
};

std::vector<Halo> halos_of(const PartitionContext& p, const Convolution& c,
                           const ComputeLayout& layout, const Value& input) {
  std::vector<Halo> halos;
  for (std::size_t s = 0; s < c.attrs.input_spatial.size(); ++s) {
    const std::int64_t in = c.attrs.input_spatial[s];
    const std::int64_t ways = layout.operands[0].shards(in);
    if (ways == 1) continue;
    const ir::WindowDim& w = c.attrs.window[s];
    const std::int64_t out = c.source.shape.dim(c.attrs.output_spatial[s]);
    const IndexList& axes = layout.operands[0].dims[std::size_t(in)].axes;
    const bool everywhere = is_everywhere(input, in, axes);
    if (layout.operands[1].shards(c.attrs.kernel_spatial[s]) > 1) {
      const std::int64_t block = ceil_div(w.size, ways);
      halos.push_back(
          halo_for(p, in, axes, c.lhs.dim(in), w, block * w.rhs_dilation, out, block, everywhere));
    } else {
      const std::int64_t block = ceil_div(out, ways);
      halos.push_back(
          halo_for(p, in, axes, c.lhs.dim(in), w, block * w.stride, block, w.size, everywhere));
    }
  }
  return halos;
}

/// The cheaper layout of windows along split dims, for which `halos` are fetched, and of none such.
ComputeLayout layout_of(PartitionContext& p, const Convolution& c, std::vector<Halo>* halos) {
  const Value& input = *p.values.operand(*c.source.operand(0));
  if (std::optional<ComputeLayout> given = p.layouts.given(c.source, c.rule)) {
    *halos = halos_of(p, c, *given, input);
    return *given;
  }
  ComputeLayout layout = p.layouts.choose(c.source, c.rule);
  *halos = halos_of(p, c, layout, input);
  if (halos->empty()) return layout;
  ComputeLayout other = p.layouts.choose(c.source, c.without_halos());
  if (other.cost > layout.cost + price(p, *halos, c.lhs, layout.operands[0])) return layout;
  halos->clear();
  return other;
}

/// The attributes of the op on shards: windows that fit what was fetched, a device's own groups.
ir::ConvolutionAttrs local_attrs(const PartitionContext& p, const Convolution& c,
                                 const ComputeLayout& layout, const TensorSharding& input,
                                 const Shape& kernel) {
  ir::ConvolutionAttrs local = c.attrs;
  for (std::size_t s = 0; s < c.attrs.input_spatial.size(); ++s) {
    if (input.shards(c.attrs.input_spatial[s]) == 1) continue;
    local.window[s] = bare(c.attrs.window[s], kernel.dim(c.attrs.kernel_spatial[s]));
  }
  // The group is the major factor of the dims that it cuts: a device has some of the groups.
  auto ways_of_group = [&](std::int64_t dim) {
    const int group = c.rule.operands[0][std::size_t(dim)].front();
    return p.emit.ways(layout.factor_axes[std::size_t(group)]);
  };
  if (c.attrs.feature_group_count > 1) {
    local.feature_group_count /= ways_of_group(c.attrs.input_feature);
  }
  if (c.attrs.batch_group_count > 1) {
    local.batch_group_count /= ways_of_group(c.attrs.input_batch);
  }
  return local;
}

}  // namespace

OpPlan plan_convolution(PartitionContext& p, const ir::Instruction& source) {
  const Convolution c(source);
  std::vector<Halo> halos;
  OpPlan plan = planned(layout_of(p, c, &halos));
  plan.operands[0] = fetched_from(plan.operands[0], halos);
  return plan;
}

void partition_convolution(PartitionContext& p, const ir::Instruction& source) {
  const Convolution c(source);
  std::vector<Halo> halos;
  ComputeLayout layout = layout_of(p, c, &halos);
  const TensorSharding split = layout.operands[0];
  layout.operands[0] = fetched_from(split, halos);
  std::vector<Value*> operands = p.values.operands_in(source, layout.operands);
  ir::Instruction* zero = p.emit.constant_scalar(c.lhs.dtype, 0);
  ir::Instruction* x = p.values.masked(operands[0], {c.attrs.input_feature}, zero);
  Dims summed{c.attrs.kernel_input_feature};
  summed.insert(summed.end(), c.attrs.kernel_spatial.begin(), c.attrs.kernel_spatial.end());
  ir::Instruction* kernel =
      p.values.masked(operands[1], summed, p.emit.constant_scalar(c.rhs.dtype, 0));
  x = fetch(p, source, x, halos, zero, layout.operands[0]);
  const TensorSharding& result = layout.results.front();
  x = p.emit.local_op(source, {x, kernel}, local_shape(source.shape, result),
                      local_attrs(p, c, layout, split, kernel->shape));
  p.values.define(source, p.values.make(x, result, source.shape));
}

}  // namespace tessera::spmd
