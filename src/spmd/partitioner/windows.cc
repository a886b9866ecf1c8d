// SPDX-License-Identifier: Apache-2.0
// Windows that glide along split dims (convolutions, pooling): each device fetches the rows that
// its windows reach beyond its own. Running sums over a whole dim exchange one total per device
// instead.
#include <algorithm>
#include <optional>

#include "src/base/check.h"
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

namespace {

/// The rows that each device needs along one dim, in the input spread by its dilation.
struct Halo {
  std::int64_t dim = 0;       ///< of the input
  std::int64_t interior = 0;  ///< to spread the local rows by first
  std::vector<int> axes;
  RoutePlan plan;
};

/// Windows of `kernel` taps whose first output on the device at c begins `step` * c rows after that
/// of the device before.
Halo halo_for(const ComputationPartitioner& p, std::int64_t dim, const std::vector<int>& axes,
              std::int64_t size, const ir::WindowDim& w, std::int64_t step, std::int64_t outputs,
              std::int64_t kernel) {
  Halo halo{dim, w.lhs_dilation - 1, axes, {}};
  const std::int64_t ways = p.ways(axes), spread = (size - 1) * w.lhs_dilation + 1;
  const std::int64_t rows = (outputs - 1) * w.stride + (kernel - 1) * w.rhs_dilation + 1;
  Dims begin;
  for (std::int64_t c = 0; c < ways; ++c) begin.push_back(c * step - w.pad_low);
  halo.plan =
      plan_windows({spread_part(ways, size, 0, halo.interior, spread)}, begin, spread, rows);
  return halo;
}

double price(const ComputationPartitioner& p, const std::vector<Halo>& halos, const Shape& global,
             const TensorSharding& s) {
  double total = 0;
  for (const Halo& h : halos) {
    double row = double(byte_size(global.dtype));
    Dims local = s.shard_dims(global.dims);
    for (std::size_t d = 0; d < local.size(); ++d) {
      if (std::int64_t(d) != h.dim) row *= double(local[d]);
    }
    total += row * double(h.plan.rows_received) + p.cost().latency_bytes * h.plan.permutes;
  }
  return total;
}

ir::Instruction* fetch(ComputationPartitioner& p, const ir::Instruction& source, ir::Instruction* x,
                       const std::vector<Halo>& halos, ir::Instruction* fill,
                       const TensorSharding& layout) {
  const std::string spec = layout.to_spec_string();
  p.transfer = {spec, spec, "rows that windows of " + op_label(source) + " reach", false};
  for (const Halo& h : halos) {
    if (h.interior > 0) {
      std::vector<ir::PadDim> spread(x->shape.dims.size());
      spread[std::size_t(h.dim)].interior = h.interior;
      x = p.b().pad(x, fill, spread);
    }
    x = p.emit_route(h.plan, {x}, h.dim, h.axes, fill, source.shape);
  }
  p.transfer = {};
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

FactorRule without(FactorRule rule, FactorKind kind) {
  for (Factor& f : rule.factors) {
    if (f.kind == kind) f.kind = FactorKind::need_replication;
  }
  return rule;
}

// ----- running sums

/// A window that holds all elements up to its own (1), from its own on (-1), or none such (0).
int running(const ir::WindowDim& w, std::int64_t size) {
  if (w.size != size || w.stride != 1 || w.lhs_dilation != 1 || w.rhs_dilation != 1) return 0;
  if (w.pad_low == size - 1 && w.pad_high == 0) return 1;
  if (w.pad_low == 0 && w.pad_high == size - 1) return -1;
  return 0;
}

/// The dim along which a reduce-window is a running sum that the layout splits, if it is one.
std::optional<std::int64_t> running_dim(const ir::Instruction& source, const TensorSharding& s) {
  if (source.operands.size() != 2) return std::nullopt;
  auto op = ir::as_binary_reducer(*source.called.front());
  if (!op) return std::nullopt;
  auto identity = ir::identity_of(*op, source.shape.dtype);
  if (!identity || !is_literal(*source.operand(1), *identity)) return std::nullopt;
  const auto& window = source.get<ir::WindowAttrs>().dims;
  std::optional<std::int64_t> found;
  for (std::size_t d = 0; d < window.size(); ++d) {
    if (window[d] == ir::WindowDim{}) continue;
    if (s.shards(std::int64_t(d)) == 1) continue;
    if (found || running(window[d], source.shape.dims[d]) == 0) return std::nullopt;
    found = std::int64_t(d);
  }
  return found;
}

ir::Instruction* running_sum(ComputationPartitioner& p, const ir::Instruction& source, Value* v,
                             std::int64_t dim) {
  ir::Builder& b = p.b();
  const ir::Opcode op = *ir::as_binary_reducer(*source.called.front());
  const DType dtype = source.shape.dtype;
  ir::Instruction* neutral = b.constant(*ir::identity_of(op, dtype));
  ir::Instruction* x = p.masked(v, {dim}, neutral);
  const std::size_t d = std::size_t(dim);
  const Dims local = x->shape.dims;
  ir::WindowAttrs window = source.get<ir::WindowAttrs>();
  const bool forward = running(window.dims[d], source.shape.dims[d]) > 0;
  window.dims[d].size = local[d];
  (forward ? window.dims[d].pad_low : window.dims[d].pad_high) = local[d] - 1;
  ir::Instruction* inner = p.emit_local(source, {x, neutral}, x->shape, window);
  // The last row of the inner result is the device's total.
  Dims starts(local.size(), 0), limits = local;
  starts[d] = forward ? local[d] - 1 : 0;
  limits[d] = starts[d] + 1;
  ir::Instruction* total = b.slice(inner, starts, limits);
  Dims flat = total->shape.dims;
  flat.insert(flat.begin(), 1);
  const std::vector<int>& axes = v->sharding.dims[d].axes;
  const std::int64_t k = p.ways(axes);
  ir::Instruction* all =
      b.all_gather(b.reshape(total, flat), 0, ir::DeviceGroups::over(p.mesh(), axes));
  const std::string spec = v->sharding.to_spec_string();
  p.transfer = {spec, spec, "totals of " + op_label(source), false};
  p.note(all, byte_count(all) * double(k - 1) / double(k));
  p.transfer = {};
  Dims before, after;
  for (std::int64_t c = 0; c < k; ++c) {
    before.push_back(c);
    after.push_back(c + 1);
  }
  ir::Instruction* others =
      p.range_mask(all->shape.dims, 0, forward ? nullptr : p.lookup(after, axes),
                   forward ? p.lookup(before, axes) : nullptr);
  all = b.select(others, all, b.splat(neutral, all->shape.dims));
  ir::Instruction* carry =
      b.reduce(all, neutral, {0}, ir::scalar_computation(p.module().target(), op, dtype));
  Dims rest = local, map;
  rest.erase(rest.begin() + dim);
  for (std::int64_t i = 0; i < std::int64_t(local.size()); ++i) {
    if (i != dim) map.push_back(i);
  }
  return b.binary(op, inner, b.broadcast(b.reshape(carry, rest), local, map));
}

}  // namespace

void partition_reduce_window(ComputationPartitioner& p, const ir::Instruction& source) {
  std::optional<FactorRule> rule = rule_for(source);
  if (!rule || source.operands.size() != 2 || source.operand(0)->shape.element_count() == 0) {
    return partition_by_rule(p, source);
  }
  const Shape& in = source.operand(0)->shape;
  const Shape& out = source.shape;
  const auto& window = source.get<ir::WindowAttrs>().dims;
  const ComputeLayout split = p.layout_for(source, *rule);
  const TensorSharding& s = split.operands[0];
  const std::optional<std::int64_t> sums = running_dim(source, s);
  std::vector<Halo> halos;
  double cost = split.cost;
  if (sums) {
    double totals = double(byte_size(in.dtype)) * double(s.shards(*sums));
    Dims local = s.shard_dims(in.dims);
    for (std::size_t d = 0; d < local.size(); ++d) {
      if (std::int64_t(d) != *sums) totals *= double(local[d]);
    }
    cost += totals + p.cost().latency_bytes;
  } else {
    for (std::size_t d = 0; d < window.size(); ++d) {
      const std::int64_t ways = s.shards(std::int64_t(d));
      if (ways == 1 || window[d] == ir::WindowDim{}) continue;
      const std::int64_t block = ceil_div(out.dims[d], ways);
      halos.push_back(halo_for(p, std::int64_t(d), s.dims[d].axes, in.dims[d], window[d],
                               block * window[d].stride, block, window[d].size));
    }
    cost += price(p, halos, in, s);
  }
  if (!sums && (halos.empty() ||
                p.layout_for(source, without(*rule, FactorKind::permutation)).cost <= cost)) {
    return partition_by_rule(p, source);
  }
  std::vector<Value*> values = p.operands_in(source, split.operands);
  ir::Instruction* x;
  if (sums) {
    x = running_sum(p, source, values[0], *sums);
  } else {
    ir::Instruction* init = values[1]->local;
    x = fetch(p, source, values[0]->local, halos, init, s);
    ir::WindowAttrs local{window};
    for (const Halo& h : halos) {
      ir::WindowDim& w = local.dims[std::size_t(h.dim)];
      w = bare(w, w.size);
    }
    x = p.emit_local(source, {x, init}, p.local_shape(out, split.results[0]), local);
  }
  p.define(source, p.make(x, split.results[0], out));
}

void partition_convolution(ComputationPartitioner& p, const ir::Instruction& source) {
  std::optional<FactorRule> rule = rule_for(source);
  if (!rule) return p.replicate(source, "no rule is known");
  const auto& attrs = source.get<ir::ConvolutionAttrs>();
  const Shape &lhs = source.operand(0)->shape, &rhs = source.operand(1)->shape;
  // Groups tie features together in ways that shards would have to follow.
  const bool grouped = attrs.feature_group_count != 1 || attrs.batch_group_count != 1;
  auto factor = [&](std::size_t operand, std::int64_t dim) {
    const std::vector<int>& f = rule->operands[operand][std::size_t(dim)];
    return f.size() == 1 ? f.front() : -1;
  };
  std::vector<char> keep(rule->factors.size(), 0);
  auto allow = [&](int f) {
    if (f >= 0) keep[std::size_t(f)] = 1;
  };
  if (attrs.batch_group_count == 1) allow(factor(0, attrs.input_batch));
  if (!grouped) {
    allow(factor(1, attrs.kernel_output_feature));
    allow(factor(0, attrs.input_feature));
  }
  const bool empty =
      lhs.element_count() == 0 || rhs.element_count() == 0 || source.shape.element_count() == 0;
  for (std::size_t s = 0; s < attrs.input_spatial.size() && !empty; ++s) {
    const int f = factor(0, attrs.input_spatial[s]);
    const bool sums = f >= 0 && f == factor(1, attrs.kernel_spatial[s]);
    if (!sums || !attrs.window[s].reversal) allow(f);
  }
  for (std::size_t f = 0; f < keep.size(); ++f) {
    if (!keep[f]) rule->factors[f].kind = FactorKind::need_replication;
  }

  auto halos_of = [&](const ComputeLayout& layout) {
    std::vector<Halo> halos;
    for (std::size_t s = 0; s < attrs.input_spatial.size(); ++s) {
      const std::int64_t in = attrs.input_spatial[s], kernel = attrs.kernel_spatial[s];
      const std::int64_t ways = layout.operands[0].shards(in);
      if (ways == 1) continue;
      const ir::WindowDim& w = attrs.window[s];
      const std::int64_t out = source.shape.dim(attrs.output_spatial[s]);
      const std::vector<int>& axes = layout.operands[0].dims[std::size_t(in)].axes;
      if (layout.operands[1].shards(kernel) > 1) {
        const std::int64_t block = ceil_div(w.size, ways);
        halos.push_back(halo_for(p, in, axes, lhs.dim(in), w, block * w.rhs_dilation, out, block));
      } else {
        const std::int64_t block = ceil_div(out, ways);
        halos.push_back(halo_for(p, in, axes, lhs.dim(in), w, block * w.stride, block, w.size));
      }
    }
    return halos;
  };
  ComputeLayout layout = p.layout_for(source, *rule);
  std::vector<Halo> halos = halos_of(layout);
  if (!halos.empty()) {
    FactorRule still = *rule;
    for (std::size_t s = 0; s < attrs.input_spatial.size(); ++s) {
      const int f = factor(0, attrs.input_spatial[s]);
      if (f >= 0) still.factors[std::size_t(f)].kind = FactorKind::need_replication;
    }
    ComputeLayout other = p.layout_for(source, still);
    if (other.cost <= layout.cost + price(p, halos, lhs, layout.operands[0])) {
      layout = other;
      halos.clear();
    }
  }
  std::vector<Value*> operands = p.operands_in(source, layout.operands);
  ir::Instruction* zero = p.constant_scalar(lhs.dtype, 0);
  ir::Instruction* x = p.masked(operands[0], {attrs.input_feature}, zero);
  Dims summed{attrs.kernel_input_feature};
  summed.insert(summed.end(), attrs.kernel_spatial.begin(), attrs.kernel_spatial.end());
  ir::Instruction* kernel = p.masked(operands[1], summed, p.constant_scalar(rhs.dtype, 0));
  x = fetch(p, source, x, halos, zero, layout.operands[0]);
  ir::ConvolutionAttrs local = attrs;
  for (std::size_t s = 0; s < attrs.input_spatial.size(); ++s) {
    if (layout.operands[0].shards(attrs.input_spatial[s]) == 1) continue;
    local.window[s] = bare(attrs.window[s], kernel->shape.dim(attrs.kernel_spatial[s]));
  }
  x = p.emit_local(source, {x, kernel}, p.local_shape(source.shape, layout.results.front()), local);
  p.define(source, p.make(x, layout.results.front(), source.shape));
}

}  // namespace tessera::spmd
