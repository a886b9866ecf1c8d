// SPDX-License-Identifier: Apache-2.0
// Fourier transforms along split dims. Those of several dims go dim by dim: first the ones that
// are unsplit, then, their axes moved, the others. A single dim is cut into two (Cooley and Tukey),
// with an all-to-all before, between and after.
#include <algorithm>
#include <array>

#include "src/base/arrays/literal_util.h"
#include "src/base/check.h"
#include "src/cost/collectives.h"
#include "src/spmd/partitioner/families.h"
#include "src/spmd/partitioner/ops/ordered.h"

namespace tessera::spmd {

namespace {

using ir::FftType;
using ir::Opcode;

bool is_real(FftType type) { return type == FftType::rfft || type == FftType::irfft; }

/// What a transform may cost in parts, against what it costs with more of it on each device.
constexpr double kWorthOfParts = 1.5;

/// Some of the dims of a transform.
struct Stage {
  Dims dims;  ///< ascending
  Shape in, out;
  ComputeLayout layout;
};

/// The transforms along some dims, on a local array that has all of them.
ir::Instruction* transformed(PartitionContext& p, ir::Instruction* x, FftType type,
                             const Stage& stage, const Dims& lengths, std::int64_t rank) {
  ir::Builder& b = p.b();
  const std::int64_t first = rank - std::int64_t(lengths.size());
  const FftType plain = ir::is_inverse(type) ? FftType::ifft : FftType::fft;
  auto along = [&](std::int64_t d, FftType kind) {
    const std::int64_t n = lengths[std::size_t(d - first)];
    if (d == rank - 1) return b.fft(x, kind, {n});
    Dims perm;
    for (std::int64_t i = 0; i < rank; ++i) perm.push_back(i);
    std::swap(perm[std::size_t(d)], perm.back());
    return b.transpose(b.fft(b.transpose(x, perm), kind, {n}), perm);
  };
  const bool last = stage.dims.back() == rank - 1;
  if (last && stage.dims.front() == rank - std::int64_t(stage.dims.size())) {
    Dims sizes;
    for (std::int64_t d : stage.dims) sizes.push_back(lengths[std::size_t(d - first)]);
    return b.fft(x, type, sizes);
  }
  if (last && !ir::is_inverse(type)) x = along(rank - 1, type);
  for (std::int64_t d : stage.dims) {
    if (d != rank - 1) x = along(d, plain);
  }
  if (last && ir::is_inverse(type)) x = along(rank - 1, type);
  return x;
}

ComputeLayout layout_of(const PartitionContext& p, const Stage& stage, const TensorSharding& from,
                        const TensorSharding& to) {
  return layout_of_step(p, stage.dims, {stage.in}, {from}, {stage.out}, {to});
}

/// Two stages that together are the transform, the cheapest; empty if it is cheaper at once.
std::vector<Stage> stages_of(PartitionContext& p, const ir::Instruction& source,
                             const TensorSharding& from, const TensorSharding& to, double price) {
  const auto& attrs = source.get<ir::FftAttrs>();
  const Shape &in = source.operand(0)->shape, &out = source.shape;
  const std::int64_t rank = in.rank(), count = std::int64_t(attrs.lengths.size());
  const Shape middle = attrs.type == FftType::rfft ? out : in;
  std::vector<Stage> best;
  for (std::int64_t mask = 1; mask + 1 < std::int64_t(1) << count; ++mask) {
    std::vector<Stage> both{{{}, in, middle, {}}, {{}, middle, out, {}}};
    for (std::int64_t i = 0; i < count; ++i) {
      both[(mask >> i & 1) != 0 ? 0 : 1].dims.push_back(rank - count + i);
    }
    // The real side of the last dim is at the beginning, or at the end.
    const bool last_first = both[0].dims.back() == rank - 1;
    if (is_real(attrs.type) && last_first == ir::is_inverse(attrs.type)) continue;
    for (const TensorSharding& between : {from, to}) {
      both[0].layout = layout_of(p, both[0], from, reduced(between));
      const TensorSharding& reached = both[0].layout.results[0];
      both[1].layout = layout_of(p, both[1], reached, to);
      const double total = both[0].layout.cost + both[1].layout.cost -
                           p.module.reshard_cost(reached, reduced(between), middle);
      if (total < price) {
        price = total;
        best = both;
      }
    }
  }
  return best;
}

ir::Instruction* swapped(PartitionContext& p, ir::Instruction* x, std::int64_t dim,
                         const IndexList& axes, const ReshardReason& reason) {
  x = p.b().all_to_all(x, dim, p.emit.groups(axes));
  p.report.note(x, reason);
  return x;
}

/// exp(2 pi i a b / n), or its conjugate, at [.., a, b]: b begins at `first`.
ir::Instruction* twiddles(PartitionContext& p, const Shape& shape, std::int64_t n,
                          ir::Instruction* first, bool inverse) {
  ir::Builder& b = p.b();
  const std::int64_t rank = shape.rank();
  const Dims plane{shape.dim(rank - 2), shape.dim(rank - 1)};
  ir::Instruction* at = b.binary(Opcode::add, b.iota(Shape(s32, plane), 1), b.splat(first, plane));
  at = b.binary(Opcode::multiply, at, b.iota(Shape(s32, plane), 0));
  const double turn = (inverse ? 2 : -2) * 3.14159265358979323846 / double(n);
  ir::Instruction* angle =
      b.binary(Opcode::multiply, b.convert(at, f64), b.splat(b.scalar(f64, turn), plane));
  const DType part = shape.dtype == DType::c128 ? f64 : f32;
  ir::Instruction* x = b.binary(Opcode::complex, b.convert(b.unary(Opcode::cosine, angle), part),
                                b.convert(b.unary(Opcode::sine, angle), part));
  return b.broadcast(x, shape.dims, {rank - 2, rank - 1});
}

/// A transform of the last dim, split into as many parts as devices; each ends with its own part.
ir::Instruction* across(PartitionContext& p, ir::Instruction* x, FftType type, std::int64_t n,
                        const IndexList& axes, const ReshardReason& reason) {
  ir::Builder& b = p.b();
  const std::int64_t k = p.emit.ways(axes), rows = n / k, part = rows / k;
  Dims batch = x->shape.dims;
  batch.pop_back();
  const std::int64_t d = std::int64_t(batch.size());
  auto with = [&](Dims tail) {
    Dims dims = batch;
    dims.insert(dims.end(), tail.begin(), tail.end());
    return dims;
  };
  Dims flip;
  for (std::int64_t i = 0; i < d; ++i) flip.push_back(i);
  flip.insert(flip.end(), {d + 1, d});
  const ByCoordinate starts = ByCoordinate::line(k, 0, part);
  // Element n1 * rows + n2 is on device n1; now n2 is split instead: [n1, n2].
  x = swapped(p, b.reshape(x, with({k, part})), d, axes, reason);
  x = b.transpose(b.fft(b.transpose(x, flip), type, {k}), flip);
  x = b.binary(Opcode::multiply, x,
               twiddles(p, x->shape, n, p.emit.lookup(starts, axes), ir::is_inverse(type)));
  // [k1, n2] with n2 split to k1 split; then k1 + k * k2 is where the results belong.
  x = b.reshape(swapped(p, x, d, axes, reason), with({rows}));
  x = b.reshape(b.fft(x, type, {rows}), with({k, part}));
  x = swapped(p, x, d, axes, reason);
  return b.reshape(b.transpose(x, flip), with({rows}));
}

/// A transform along split dims: in stages of some dims each, or of one dim in parts.
struct SplitFft {
  std::vector<Stage> stages;
  std::optional<ComputeLayout> parts;
};

/// Neither if the op runs on whole dims.
SplitFft split_fft(PartitionContext& p, const ir::Instruction& source) {
  const auto& attrs = source.get<ir::FftAttrs>();
  const Shape &in = source.operand(0)->shape, &out = source.shape;
  const FactorRule rule = *rule_for(source);
  const Value* v = p.values.operand(*source.operand(0));
  const std::int64_t rank = in.rank(), count = std::int64_t(attrs.lengths.size());
  const TensorSharding from = v->is_recomputable() ? p.source.replicated(rank) : v->sharding;
  const TensorSharding to = reduced(p.source.sharding(source));
  bool split = false;
  for (std::int64_t d = rank - count; d < rank; ++d) {
    split |= from.shards(d) > 1 || to.shards(d) > 1;
  }
  if (!split || in.element_count() == 0 || out.element_count() == 0) return {};
  const ComputeLayout at_once = p.layouts.choose(source, rule);
  double price = at_once.cost;
  // Work that devices repeat is not to be had for somewhat fewer bytes.
  const double parts = parts_of(at_once.results[0]);
  if (parts < parts_of(from) && parts < parts_of(to)) price *= kWorthOfParts;
  std::vector<Stage> stages = stages_of(p, source, from, to, price);
  if (!stages.empty()) return {std::move(stages), std::nullopt};
  if (count != 1 || is_real(attrs.type)) return {};
  FactorRule halves = rule;
  halves.factors[std::size_t(halves.operands[0].back().front())].kind = FactorKind::permutation;
  ComputeLayout layout = p.layouts.choose(source, halves);
  const TensorSharding& s = layout.operands[0];
  const std::int64_t k = s.shards(rank - 1), n = in.dims.back();
  const double bytes = cost::received_bytes(Opcode::all_to_all,
                                            double(local_shape(in, s).byte_count()) * 3, double(k));
  if (k == 1 || n % (k * k) != 0 || n != std::int64_t(std::int32_t(n)) ||
      price <= layout.cost + p.module.rows_price(bytes, 3, s.dims.back().axes)) {
    return {};
  }
  return {{}, std::move(layout)};
}

}  // namespace

OpPlan plan_fft(PartitionContext& p, const ir::Instruction& source) {
  const SplitFft split = split_fft(p, source);
  if (split.parts) return planned(*split.parts);
  if (split.stages.empty()) return plan_by_rule(p, source);
  return {split.stages.front().layout.operands, split.stages.back().layout.results};
}

void partition_fft(PartitionContext& p, const ir::Instruction& source) {
  const auto& attrs = source.get<ir::FftAttrs>();
  const SplitFft split = split_fft(p, source);
  if (!split.parts && split.stages.empty()) return partition_by_rule(p, source);
  Value* v = p.values.operand(*source.operand(0));
  if (split.parts) {
    const TensorSharding& s = split.parts->operands[0];
    v = p.values.reshard(v, s, operand_reason(source, 0));
    ir::Instruction* x =
        across(p, v->local, attrs.type, source.operand(0)->shape.dims.back(), s.dims.back().axes,
               ReshardReason::within(s, "parts of " + op_label(source)));
    return p.values.define(source, x, split.parts->results);
  }
  for (const Stage& stage : split.stages) {
    v = p.values.reshard(v, stage.layout.operands[0], "dims of " + op_label(source));
    ir::Instruction* x =
        transformed(p, v->local, attrs.type, stage, attrs.lengths, source.shape.rank());
    v = p.values.make(x, stage.layout.results[0], stage.out);
  }
  p.values.define(source, v);
}

}  // namespace tessera::spmd
