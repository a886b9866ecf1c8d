// SPDX-License-Identifier: Apache-2.0
// Reductions: each device reduces its part with the neutral element, the partial results are joined
// by a collective of the same monoid, and the user's initial value enters once. Of other reducers
// (argmax and the like) one partial result per device travels, and those are reduced again.
#include <algorithm>

#include "src/base/check.h"
#include "src/ir/constraint.h"
#include "src/spmd/partitioner/families.h"
#include "src/spmd/partitioner/ops/ordered.h"

namespace tessera::spmd {

bool is_literal(const ir::Instruction& x, const Literal& value) {
  const ir::Instruction* at = &x;
  while (at->is(ir::Opcode::copy) || ir::is_constraint(*at)) at = at->operand(0);
  return at->is(ir::Opcode::constant) && !at->get<ir::ConstantAttrs>().elided &&
         at->get<ir::ConstantAttrs>().value == value;
}

namespace {

/// reducer(x, x) = x: built of comparisons and selections only.
bool only_selects(const ir::Computation& reducer) {
  for (const auto& i : reducer.instructions()) {
    switch (i->opcode) {
      case ir::Opcode::parameter:
      case ir::Opcode::compare:
      case ir::Opcode::select:
      case ir::Opcode::and_:
      case ir::Opcode::or_:
      case ir::Opcode::maximum:
      case ir::Opcode::minimum:
      case ir::Opcode::tuple:
      case ir::Opcode::copy:
        break;
      default:
        return false;
    }
  }
  return true;
}

/// One monoid per operand, each with its neutral element.
struct Monoids {
  std::vector<ir::Opcode> ops;
  std::vector<Literal> identities;
};

/// The reducer's operands, if each is reduced for itself by a known monoid.
std::optional<Monoids> monoids_of(const ir::Instruction& source) {
  const ir::Computation& reducer = *source.called().front();
  const std::size_t count = source.operands().size() / 2;
  Monoids out;
  if (count == 1) {
    if (auto op = ir::as_binary_reducer(reducer)) out.ops.push_back(*op);
  } else if (reducer.root()->is(ir::Opcode::tuple)) {
    for (std::size_t i = 0; i < count; ++i) {
      const ir::Instruction& x = *reducer.root()->operand(i);
      if (!ir::is_commutative(x.opcode) || x.operands().size() != 2) return std::nullopt;
      const ir::Instruction *a = reducer.parameter(i), *b = reducer.parameter(count + i);
      const bool both =
          (x.operand(0) == a && x.operand(1) == b) || (x.operand(0) == b && x.operand(1) == a);
      if (!both) return std::nullopt;
      out.ops.push_back(x.opcode);
    }
  }
  if (out.ops.size() != count) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    auto identity = ir::identity_of(out.ops[i], source.operand(i)->shape.dtype);
    if (!identity) return std::nullopt;
    out.identities.push_back(*identity);
  }
  return out;
}

/// Partial results are partial sums (or products, ...); the user's initial value enters last.
std::vector<Value*> reduce_monoids(PartitionContext& p, const ir::Instruction& source,
                                   const Monoids& monoids, const std::vector<Value*>& values,
                                   const std::vector<TensorSharding>& layout) {
  ir::Builder& b = p.b();
  const std::size_t count = monoids.ops.size();
  const Dims& dims = source.get<ir::DimensionsAttrs>().dims;
  std::vector<ir::Instruction*> inputs, neutral;
  for (std::size_t i = 0; i < count; ++i) {
    neutral.push_back(b.constant(monoids.identities[i]));
    inputs.push_back(p.values.masked(values[i], dims, neutral[i]));
  }
  inputs.insert(inputs.end(), neutral.begin(), neutral.end());
  ir::Instruction* x = p.emit.local_op(source, inputs, local_tuple(source.shape, layout));
  std::vector<Value*> out = p.values.make(p.emit.unpack(x), layout, flatten(source.shape));
  const std::vector<TensorSharding> requested = reduced(p.source.shardings(source));
  for (std::size_t i = 0; i < count; ++i) {
    out[i]->set_partial_op(monoids.ops[i]);
    if (is_literal(*source.operand(count + i), monoids.identities[i])) continue;
    Value* sum = p.values.reshard(out[i], requested[i], "result of " + op_label(source));
    ir::Instruction* init = b.splat(values[count + i]->local, sum->local->shape.dims);
    x = b.binary(monoids.ops[i], init, sum->local);
    out[i] = p.values.make(x, sum->sharding, out[i]->shape);
  }
  return out;
}

/// The rows that aren't padding, as preds.
ir::Instruction* presence(PartitionContext& p, Value* v, const Dims& dims) {
  ir::Instruction* all = p.b().splat(p.emit.constant_scalar(DType::pred, 1), v->local->shape.dims);
  Value* flags = p.values.make(all, v->sharding, Shape(DType::pred, v->shape.dims));
  return p.values.masked(flags, dims, p.emit.constant_scalar(DType::pred, 0));
}

/// Nothing is known of the reducer but that it is associative: absent elements stand for its
/// neutral one, and the first device alone has the initial values.
std::vector<Value*> reduce_any(PartitionContext& p, const ir::Instruction& source,
                               const std::vector<Value*>& values,
                               const std::vector<TensorSharding>& layout, const IndexList& axes) {
  ir::Builder& b = p.b();
  const std::size_t count = source.operands().size() / 2;
  const Dims& dims = source.get<ir::DimensionsAttrs>().dims;
  ir::Computation* reducer = flagged(p, source);
  std::vector<ir::Instruction*> inputs, inits;
  for (std::size_t i = 0; i < count; ++i) inputs.push_back(values[i]->local);
  inputs.push_back(presence(p, values[0], dims));
  for (std::size_t i = 0; i < count; ++i) inits.push_back(values[count + i]->local);
  std::vector<Shape> leaves = flatten(local_tuple(source.shape, layout));
  leaves.push_back(Shape(DType::pred, leaves.front().dims));
  auto emit = [&](std::vector<ir::Instruction*> operands, const Dims& over, const Shape& shape,
                  ir::Instruction* flag) {
    operands.insert(operands.end(), inits.begin(), inits.end());
    operands.push_back(flag);
    return b.emit_shaped(ir::Opcode::reduce, shape, operands, ir::DimensionsAttrs{over}, {reducer});
  };
  ir::Instruction* first = b.compare(ir::Direction::eq, p.emit.coordinate(axes), p.emit.index(0));
  std::vector<ir::Instruction*> own =
      p.emit.unpack(emit(inputs, dims, Shape::tuple(leaves), first));
  // Which parts hold anything is known to all.
  const TensorSharding& s = values[0]->sharding;
  Literal holding(Shape(DType::pred, {p.emit.ways(axes)}));
  for (std::int64_t c = 0; c < p.emit.ways(axes); ++c) {
    bool any = true;
    std::int64_t rest = c;
    for (std::size_t d = s.dims.size(); d-- > 0;) {
      if (!contains(dims, std::int64_t(d))) continue;
      const std::int64_t n = values[0]->shape.dims[d], ways = s.shards(std::int64_t(d));
      any &= rest % ways * ceil_div(n, ways) < n;
      rest /= ways;
    }
    holding.mutable_data<Pred>()[std::size_t(c)] = Pred(any || c == 0);
  }
  own.pop_back();
  return reduce_parts(
      p, source, own, layout, axes, [&](std::vector<ir::Instruction*> parts, const Shape& shape) {
        parts.push_back(b.broadcast(b.constant(holding), parts.front()->shape.dims, {0}));
        std::vector<Shape> all = flatten(shape);
        all.push_back(Shape(DType::pred, all.front().dims));
        return emit(parts, {0}, Shape::tuple(all), p.emit.constant_scalar(DType::pred, 0));
      });
}

/// How a reducer joins the parts of several devices.
enum class Joins : std::uint8_t {
  partial_values,  ///< by collectives of its own monoids
  any_order,       ///< by itself, in any order
  in_order,        ///< by itself, neighbours with each other
};

Joins joins_of(const ir::Instruction& source, const std::optional<Monoids>& monoids) {
  if (monoids) return Joins::partial_values;
  return only_selects(*source.called().front()) ? Joins::any_order : Joins::in_order;
}

/// Axes on the reduced dims, in the order of the reduced elements.
IndexList reduced_axes(const ir::Instruction& source, const TensorSharding& operand) {
  IndexList axes;
  for (std::size_t d = 0; d < operand.dims.size(); ++d) {
    if (!contains(source.get<ir::DimensionsAttrs>().dims, std::int64_t(d))) continue;
    axes.insert(axes.end(), operand.dims[d].axes.begin(), operand.dims[d].axes.end());
  }
  return axes;
}

/// The layout of the partial result of an operand in its layout. What is unreduced of the operand
/// stays so.
TensorSharding partial_layout(PartitionContext& p, const ir::Instruction& source,
                              const TensorSharding& operand) {
  const Dims& dims = source.get<ir::DimensionsAttrs>().dims;
  TensorSharding s = p.source.replicated(operand.rank() - std::int64_t(dims.size()));
  for (std::size_t d = 0, k = 0; d < operand.dims.size(); ++d) {
    if (!contains(dims, std::int64_t(d))) s.dims[k++].axes = operand.dims[d].axes;
  }
  s.unreduced = reduced_axes(source, operand);
  s.unreduced.insert(s.unreduced.end(), operand.unreduced.begin(), operand.unreduced.end());
  s.reduction = operand.reduction;
  return s;
}

std::vector<TensorSharding> partial_layouts(PartitionContext& p, const ir::Instruction& source) {
  std::vector<TensorSharding> out;
  for (std::size_t i = 0; i < source.operands().size() / 2; ++i) {
    out.push_back(partial_layout(p, source, p.source.sharding(*source.operand(i))));
  }
  return out;
}

/// Of partial values that the reducer joins, where the result is requested as such: each device
/// reduces its own. (XLA does likewise with an operand and a result that are unreduced.)
std::optional<OpPlan> reduces_partial_values(PartitionContext& p, const ir::Instruction& source,
                                             const std::optional<Monoids>& monoids) {
  if (!monoids || monoids->ops.size() != 1) return std::nullopt;
  const TensorSharding& requested = p.source.sharding(source);
  const Value& v = *p.values.computed(*source.operand(0));
  const Reduction kind = reduction_of(monoids->ops[0]);
  if (v.sharding.unreduced.empty() || v.partial_op != monoids->ops[0]) return std::nullopt;
  // Another initial value would enter on each device.
  if (kind == Reduction::other || kind != requested.reduction) return std::nullopt;
  if (!is_literal(*source.operand(1), monoids->identities[0])) return std::nullopt;
  for (const int axis : v.sharding.unreduced) {
    if (!contains(requested.unreduced, axis)) return std::nullopt;
  }
  return OpPlan{
      {v.sharding, p.source.replicated(0)}, {partial_layout(p, source, v.sharding)}, monoids->ops};
}

}  // namespace

OpPlan plan_reduce(PartitionContext& p, const ir::Instruction& source) {
  FactorRule rule = *rule_for(source);
  const std::size_t count = source.operands().size() / 2;
  const std::optional<Monoids> monoids = monoids_of(source);
  if (auto plan = reduces_partial_values(p, source, monoids)) return *plan;
  const Joins joins = joins_of(source, monoids);
  bool first = true;
  for (std::size_t d = 0; d < rule.operands[0].size() && joins == Joins::in_order; ++d) {
    // Such a reducer need not commute: each device's elements must stand together.
    Factor& f = rule.factors[std::size_t(rule.operands[0][d].front())];
    if (f.kind != FactorKind::reduction) continue;
    if (!first) f.kind = FactorKind::need_replication;
    if (f.size > 1) first = false;
  }
  OpPlan plan = planned(p.layouts.choose(source, rule));
  if (reduced_axes(source, plan.operands[0]).empty()) return plan;
  if (!monoids) {
    plan.results = reduced(p.source.shardings(source));
    return plan;
  }
  plan.partial_ops = monoids->ops;
  for (std::size_t i = 0; i < count; ++i) {
    // The user's initial value enters the completed sum.
    if (is_literal(*source.operand(count + i), monoids->identities[i])) continue;
    plan.results[i] = reduced(p.source.shardings(source)[i]);
  }
  return plan;
}

void partition_reduce(PartitionContext& p, const ir::Instruction& source) {
  const std::size_t count = source.operands().size() / 2;
  const Dims& dims = source.get<ir::DimensionsAttrs>().dims;
  std::vector<Value*> values;
  for (const ir::Instruction* o : source.operands()) values.push_back(p.values.declared(*o));
  std::vector<ir::Instruction*> inputs, inits;
  for (std::size_t i = 0; i < count; ++i) inits.push_back(values[count + i]->local);
  const IndexList axes = reduced_axes(source, values[0]->sharding);
  std::vector<TensorSharding> partial = partial_layouts(p, source);
  if (axes.empty()) {
    for (std::size_t i = 0; i < count; ++i) inputs.push_back(values[i]->local);
    inputs.insert(inputs.end(), inits.begin(), inits.end());
    ir::Instruction* x = p.emit.local_op(source, inputs, local_tuple(source.shape, partial));
    return p.values.define(source, x, partial);
  }
  const std::optional<Monoids> monoids = monoids_of(source);
  if (monoids) {
    return p.values.define(source, reduce_monoids(p, source, *monoids, values, partial));
  }
  for (TensorSharding& s : partial) s = reduced(s);
  if (joins_of(source, monoids) == Joins::in_order) {
    return p.values.define(source, reduce_any(p, source, values, partial, axes));
  }
  for (std::size_t i = 0; i < count; ++i)
    inputs.push_back(p.values.masked(values[i], dims, inits[i]));
  inputs.insert(inputs.end(), inits.begin(), inits.end());
  ir::Instruction* x = p.emit.local_op(source, inputs, local_tuple(source.shape, partial));
  p.values.define(
      source, reduce_parts(p, source, p.emit.unpack(x), partial, axes,
                           [&](std::vector<ir::Instruction*> parts, const Shape& shape) {
                             parts.insert(parts.end(), inits.begin(), inits.end());
                             return p.emit.local_op(source, parts, shape, ir::DimensionsAttrs{{0}});
                           }));
}

}  // namespace tessera::spmd
