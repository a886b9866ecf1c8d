// SPDX-License-Identifier: Apache-2.0
// Gather and scatter. Split batch dims and full window dims need nothing. Along an operand dim
// that indices point into, each device serves the rows it owns: gathers sum the answers (the others
// gave zeros), scatters drop what is not theirs. Indices are clamped or dropped by the global
// sizes.
#include <algorithm>

#include "src/base/check.h"
#include "src/ir/analysis/indexed_dims.h"
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

namespace {

using ir::Opcode;

/// Indices as s32, those that s32 can't hold moved out of every range but kept on their side.
ir::Instruction* narrow_indices(PartitionContext& p, ir::Instruction* x) {
  ir::Builder& b = p.b();
  const DType dtype = x->shape.dtype;
  if (dtype == s32 || byte_size(dtype) < 4) return b.convert(x, s32);
  const Dims& dims = x->shape.dims;
  const double limit = double(std::int64_t(1) << 30);
  ir::Instruction* high = b.splat(p.emit.constant_scalar(dtype, limit), dims);
  ir::Instruction* low =
      b.splat(p.emit.constant_scalar(dtype, is_signed_integer(dtype) ? -1 : 0), dims);
  return b.convert(b.emit(Opcode::clamp, {low, x, high}), s32);
}

/// One scalar per index component, along the index vector dim of `like`.
ir::Instruction* along_vector(PartitionContext& p, const std::vector<ir::Instruction*>& parts,
                              const Dims& like, std::int64_t vector_dim) {
  ir::Builder& b = p.b();
  if (vector_dim == std::int64_t(like.size())) return b.splat(parts.front(), like);
  std::vector<ir::Instruction*> rows;
  for (ir::Instruction* x : parts) rows.push_back(b.reshape(x, {1}));
  ir::Instruction* all = rows.size() == 1 ? rows.front() : b.concatenate(rows, 0);
  return b.broadcast(all, like, {vector_dim});
}

/// One component of the indices, without the index vector dim.
ir::Instruction* component(PartitionContext& p, ir::Instruction* x, std::size_t k,
                           std::int64_t vector_dim) {
  if (vector_dim == x->shape.rank()) return x;
  x = p.emit.slice_dim(x, vector_dim, std::int64_t(k), std::int64_t(k) + 1);
  Dims dims = x->shape.dims;
  dims.erase(dims.begin() + vector_dim);
  return p.b().reshape(x, dims);
}

/// Indices minus the shard offsets of the operand dims that they point into.
ir::Instruction* localized(PartitionContext& p, ir::Instruction* indices,
                           const TensorSharding& layout, const Dims& global, const Dims& map,
                           std::int64_t vector_dim) {
  std::vector<ir::Instruction*> offsets;
  for (std::int64_t d : map) {
    offsets.push_back(layout.shards(d) == 1
                          ? p.emit.index(0)
                          : p.emit.shard_offset(layout, d, global[std::size_t(d)]));
  }
  return p.b().binary(Opcode::subtract, indices,
                      along_vector(p, offsets, indices->shape.dims, vector_dim));
}

/// Indices plus a constant per component.
ir::Instruction* shifted(PartitionContext& p, ir::Instruction* indices, const Dims& by,
                         std::int64_t vector_dim) {
  std::vector<ir::Instruction*> parts;
  for (std::int64_t n : by) parts.push_back(p.emit.index(n));
  return p.b().binary(Opcode::add, indices,
                      along_vector(p, parts, indices->shape.dims, vector_dim));
}

/// What a scatter's updates cover of one operand dim.
enum class Place : std::uint8_t {
  full,   ///< all of it, or batch by batch
  row,    ///< one row that an index names: who has it takes the update
  rows,   ///< a window that an index names, and that may reach into two shards
  fixed,  ///< rows that no index names
};

std::vector<Place> places_of(const ir::Instruction& scatter) {
  const ir::IndexedDims dims = ir::indexed_dims(scatter);
  const Dims& operand = scatter.operand(0)->shape.dims;
  std::vector<Place> places(operand.size(), Place::full);
  for (std::size_t d = 0; d < operand.size(); ++d) {
    const std::int64_t dim = std::int64_t(d), taken = dims.sizes[d];
    if (contains(dims.array_batching, dim) || taken == operand[d]) continue;
    const bool named = contains(dims.mapped, dim);
    places[d] = !named ? Place::fixed : taken == 1 ? Place::row : Place::rows;
  }
  return places;
}

FactorRule factors_of_gather(const ir::Instruction& source) {
  return split_only(*rule_for(source), {FactorKind::reduction});
}

/// Index components that point into a split dim of the operand.
std::vector<std::size_t> served_components(const ir::Instruction& source,
                                           const TensorSharding& split) {
  const auto& attrs = source.get<ir::GatherAttrs>();
  const Shape& operand = source.operand(0)->shape;
  std::vector<std::size_t> served;
  for (std::size_t k = 0; k < attrs.start_index_map.size(); ++k) {
    const std::int64_t d = attrs.start_index_map[k];
    if (split.shards(d) == 1 || attrs.slice_sizes[std::size_t(d)] == operand.dim(d)) continue;
    served.push_back(k);
  }
  return served;
}

}  // namespace

OpPlan plan_gather(PartitionContext& p, const ir::Instruction& source) {
  OpPlan plan = planned(p.layouts.choose(source, factors_of_gather(source)));
  if (!served_components(source, plan.operands[0]).empty()) {
    plan.results = {reduced(p.source.sharding(source))};
  }
  return plan;
}

void partition_gather(PartitionContext& p, const ir::Instruction& source) {
  const auto& attrs = source.get<ir::GatherAttrs>();
  const ComputeLayout layout = p.layouts.choose(source, factors_of_gather(source));
  const Shape& operand = source.operand(0)->shape;
  const TensorSharding& split = layout.operands[0];
  std::vector<Value*> operands = p.values.operands_in(source, layout.operands);
  ir::Builder& b = p.b();
  ir::Instruction *x = operands[0]->local, *indices = operands[1]->local;
  ir::GatherAttrs local = attrs;
  for (std::size_t d = 0; d < operand.dims.size(); ++d) {
    if (attrs.slice_sizes[d] == operand.dims[d]) local.slice_sizes[d] = x->shape.dims[d];
  }
  const std::vector<std::size_t> served = served_components(source, split);
  const Shape result = local_shape(source.shape, layout.results[0]);
  if (served.empty()) {
    x = p.emit.local_op(source, {x, indices}, result, local);
    return p.values.define(source, p.values.make(x, layout.results[0], source.shape));
  }
  indices = narrow_indices(p, indices);
  std::vector<ir::Instruction*> low, high;
  for (std::int64_t d : attrs.start_index_map) {
    low.push_back(p.emit.index(0));
    high.push_back(p.emit.index(operand.dim(d) - attrs.slice_sizes[std::size_t(d)]));
  }
  const Dims& shape = indices->shape.dims;
  indices = b.emit(Opcode::clamp, {along_vector(p, low, shape, attrs.index_vector_dim), indices,
                                   along_vector(p, high, shape, attrs.index_vector_dim)});
  indices =
      localized(p, indices, split, operand.dims, attrs.start_index_map, attrs.index_vector_dim);
  ir::Instruction* zero = p.emit.constant_scalar(x->shape.dtype, 0);
  // A slice of several rows may reach into two shards: zeros on both sides stand for the others'.
  Dims margin(attrs.start_index_map.size(), 0);
  std::vector<ir::PadDim> padding(operand.dims.size());
  for (std::size_t k : served) {
    const std::int64_t d = attrs.start_index_map[k], rows = attrs.slice_sizes[std::size_t(d)];
    if (rows == 1) continue;
    margin[k] = rows;
    padding[std::size_t(d)] = {rows, rows, 0};
  }
  const bool padded = padding != std::vector<ir::PadDim>(operand.dims.size());
  if (padded) indices = shifted(p, indices, margin, attrs.index_vector_dim);
  ir::Instruction* mine = nullptr;
  for (std::size_t k : served) {
    if (margin[k] > 0) continue;
    ir::Instruction* at = component(p, indices, k, attrs.index_vector_dim);
    const std::int64_t block = x->shape.dim(attrs.start_index_map[k]);
    const Dims& dims = at->shape.dims;
    ir::Instruction* owns =
        b.binary(Opcode::and_, b.compare(ir::Direction::ge, at, b.splat(p.emit.index(0), dims)),
                 b.compare(ir::Direction::lt, at, b.splat(p.emit.index(block), dims)));
    mine = mine ? b.binary(Opcode::and_, mine, owns) : owns;
  }
  if (padded) x = b.pad(x, zero, padding);
  local.indices_are_sorted = false;
  x = p.emit.local_op(source, {x, indices}, Shape(x->shape.dtype, result.dims), local);
  Dims batch;
  for (std::int64_t d = 0; d < source.shape.rank(); ++d) {
    if (!contains(attrs.offset_dims, d)) batch.push_back(d);
  }
  if (mine) x = b.select(b.broadcast(mine, result.dims, batch), x, b.splat(zero, result.dims));
  define_sum_of_bits(p, source, x, layout.results[0], reduced(p.source.sharding(source)));
}

namespace {

/// A scatter on shards of its operand.
struct LocalScatter {
  const ir::Instruction& source;
  const ir::ScatterAttrs& attrs;
  const ComputeLayout& layout;
  const std::vector<Place>& places;
  Dims window;  ///< rows of an update along each dim of the operand
  /// Room on both sides of a shard for the parts of windows that other devices have.
  std::vector<ir::PadDim> margin;
  bool served = false;  ///< indices point into split dims

  LocalScatter(const ir::Instruction& op, const ComputeLayout& by,
               const std::vector<Place>& covered)
      : source(op),
        attrs(op.get<ir::ScatterAttrs>()),
        layout(by),
        places(covered),
        window(ir::indexed_dims(op).sizes),
        margin(places.size()) {
    for (std::size_t d = 0; d < places.size(); ++d) {
      if (layout.operands[0].shards(std::int64_t(d)) == 1 || places[d] == Place::full) continue;
      served = true;
      if (places[d] == Place::rows) margin[d] = {window[d], window[d], 0};
    }
  }

  const Dims& global() const { return source.operand(0)->shape.dims; }
  bool has_margin() const { return margin != std::vector<ir::PadDim>(margin.size()); }
};

/// Indices as the device's shard (with its margin) counts. `given`: their value.
ir::Instruction* local_indices(PartitionContext& p, const LocalScatter& s, const Value& given) {
  ir::Builder& b = p.b();
  ir::Instruction* indices = given.local;
  const bool padded = !given.sharding.splits_evenly(given.shape.dims);
  const Dims& named = s.attrs.scatter_dims_to_operand_dims;
  if (s.served || padded) indices = narrow_indices(p, indices);
  if (s.has_margin()) {
    // A window that leaves the array is dropped by all who have a part of it.
    std::vector<ir::Instruction*> high;
    for (std::int64_t d : named) {
      high.push_back(p.emit.index(s.global()[std::size_t(d)] - s.window[std::size_t(d)]));
    }
    const Dims& dims = indices->shape.dims;
    ir::Instruction* outside = b.splat(p.emit.index(-(std::int64_t(1) << 30)), dims);
    ir::Instruction* fits = b.binary(
        Opcode::and_, b.compare(ir::Direction::ge, indices, b.splat(p.emit.index(0), dims)),
        b.compare(ir::Direction::le, indices,
                  along_vector(p, high, dims, s.attrs.index_vector_dim)));
    indices = b.select(fits, indices, outside);
  }
  if (s.served) {
    TensorSharding mapped = s.layout.operands[0];
    for (std::size_t d = 0; d < s.places.size(); ++d) {
      // Windows of all rows start at 0 in each shard.
      if (s.places[d] == Place::full) mapped.dims[d].axes.clear();
    }
    indices = localized(p, indices, mapped, s.global(), named, s.attrs.index_vector_dim);
  }
  if (s.has_margin()) {
    Dims by;
    for (std::int64_t d : named) by.push_back(s.margin[std::size_t(d)].low);
    indices = shifted(p, indices, by, s.attrs.index_vector_dim);
  }
  if (padded) {
    // Indices in the padding point nowhere.
    Value* v = p.values.make(indices, given.sharding, Shape(s32, given.shape.dims));
    Dims all;
    for (std::int64_t d = 0; d < v->shape.rank(); ++d) all.push_back(d);
    indices = p.values.masked(v, all, p.emit.index(-1));
  }
  return indices;
}

/// The op on local operands, with room for the margin while it runs.
std::vector<ir::Instruction*> scatter_into_shards(PartitionContext& p, const LocalScatter& s,
                                                  std::vector<ir::Instruction*> locals,
                                                  ir::ScatterAttrs attrs) {
  ir::Builder& b = p.b();
  Shape shape = local_tuple(s.source.shape, s.layout.results);
  if (!s.has_margin()) return p.emit.unpack(p.emit.local_op(s.source, locals, shape, attrs));
  const Dims own = locals[0]->shape.dims;
  for (std::size_t i = 0; 2 * i + 1 < locals.size(); ++i) {
    locals[i] = b.pad(locals[i], p.emit.constant_scalar(locals[i]->shape.dtype, 0), s.margin);
    (shape.is_tuple ? shape.elements[i] : shape).dims = locals[i]->shape.dims;
  }
  std::vector<ir::Instruction*> parts =
      p.emit.unpack(p.emit.local_op(s.source, locals, shape, attrs));
  Dims starts, limits;
  for (std::size_t d = 0; d < own.size(); ++d) {
    starts.push_back(s.margin[d].low);
    limits.push_back(s.margin[d].low + own[d]);
  }
  for (ir::Instruction*& part : parts) part = b.slice(part, starts, limits);
  return parts;
}

/// A scatter, by what it joins updates, and by which factors its work may be split.
struct Scatter {
  std::vector<Place> places;
  std::optional<Opcode> op;
  std::optional<Literal> identity;
  FactorRule rule;

  explicit Scatter(const ir::Instruction& source)
      : places(places_of(source)), rule(*rule_for(source)) {
    if (source.operands().size() == 3) {
      op = ir::as_binary_reducer(*source.called().front());
      if (op) identity = ir::identity_of(*op, source.shape.dtype);
    }
    const bool may_sum =
        identity && !source.get<ir::ScatterAttrs>().scatter_dims_to_operand_dims.empty();
    rule = may_sum ? split_only(rule, {FactorKind::reduction}) : split_only(rule, {});
    for (std::size_t d = 0; d < places.size(); ++d) {
      if (places[d] != Place::fixed) continue;
      for (int f : rule.operands[0][d]) {
        rule.factors[std::size_t(f)].kind = FactorKind::need_replication;
      }
    }
  }
};

}  // namespace

OpPlan plan_scatter(PartitionContext& p, const ir::Instruction& source) {
  const Scatter s(source);
  OpPlan plan = planned(p.layouts.choose(source, s.rule));
  if (s.op) plan.partial_ops = {*s.op};
  return plan;
}

void partition_scatter(PartitionContext& p, const ir::Instruction& source) {
  const auto& attrs = source.get<ir::ScatterAttrs>();
  const std::size_t count = (source.operands().size() - 1) / 2;
  const auto [places, op, identity, rule] = Scatter(source);
  const ComputeLayout layout = p.layouts.choose(source, rule);
  const std::vector<Value*> values = p.values.operands_in(source, layout.operands);
  const LocalScatter scatter(source, layout, places);
  std::vector<ir::Instruction*> locals;
  for (Value* v : values) locals.push_back(v->local);
  locals[count] = local_indices(p, scatter, *values[count]);
  ir::ScatterAttrs local = attrs;
  if (scatter.served || !values[count]->sharding.splits_evenly(values[count]->shape.dims)) {
    local.indices_are_sorted = false;
  }
  const IndexList& axes = layout.results[0].unreduced;
  if (!axes.empty()) {
    // The operand counts once.
    ir::Builder& b = p.b();
    ir::Instruction* first = b.compare(ir::Direction::eq, p.emit.coordinate(axes), p.emit.index(0));
    const Dims& dims = locals[0]->shape.dims;
    locals[0] = b.select(b.splat(first, dims), locals[0], b.splat(b.constant(*identity), dims));
  }
  const std::vector<ir::Instruction*> parts =
      scatter_into_shards(p, scatter, std::move(locals), std::move(local));
  const std::vector<Shape> shapes = flatten(source.shape);
  std::vector<Value*> results;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    results.push_back(p.values.make(parts[i], layout.results[i], shapes[i]));
    if (op) results.back()->set_partial_op(*op);
  }
  p.values.define(source, results);
}

}  // namespace tessera::spmd
