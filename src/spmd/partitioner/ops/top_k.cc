// SPDX-License-Identifier: Apache-2.0
// The k greatest of a split dim are among the k greatest of each part: each device picks its own,
// and only those few travel.
#include <algorithm>
#include <cstddef>

#include "src/spmd/partitioner/families.h"
#include "src/spmd/partitioner/ops/ordered.h"

namespace tessera::spmd {

ir::Instruction* last_of_all(PartitionContext& p, DType dtype, bool largest) {
  if (!is_floating(dtype)) {
    const ir::Opcode op = largest ? ir::Opcode::maximum : ir::Opcode::minimum;
    return p.b().constant(*ir::identity_of(op, dtype));
  }
  std::vector<std::byte> bits(byte_size(dtype), std::byte{0xFF});
  if (!largest) bits.back() = std::byte{0x7F};
  return p.b().constant(Literal(Shape(dtype, {}), bits));
}

namespace {

/// (a, b, index of a, index of b) -> a comes first, by its value alone.
ir::Computation* order_of(ir::Module* module, DType dtype, bool largest) {
  ir::Builder b(module->add_computation(std::string(largest ? "greater_" : "less_") +
                                        std::string(tessera::name(dtype))));
  ir::Instruction* x = b.parameter(0, Shape(dtype, {}), "a");
  ir::Instruction* y = b.parameter(1, Shape(dtype, {}), "b");
  b.parameter(2, Shape(s32, {}), "i");
  b.parameter(3, Shape(s32, {}), "j");
  b.computation()->set_root(b.compare(
      largest ? ir::Direction::gt : ir::Direction::lt, x, y,
      is_floating(dtype) ? ir::ComparisonType::total_order : ir::ComparisonType::by_dtype));
  return b.computation();
}

bool orders(const ir::Instruction& x) { return x.is(ir::Opcode::sort) || x.is(ir::Opcode::topk); }

/// The sort or selection takes `array` in that layout if it is computed by its batch.
bool takes_in_layout(PartitionContext& p, const ir::Instruction& user, const ir::Instruction* array,
                     const TensorSharding& layout) {
  std::vector<Shape> shapes;
  std::vector<TensorSharding> shardings;
  auto declared = [&](const ir::Instruction& x) { return p.module.shardings_of(x); };
  for (const ir::Instruction* o : user.operands()) {
    shapes.push_back(o->shape);
    const bool free = o->is(ir::Opcode::iota);
    shardings.push_back(free ? p.source.replicated(o->shape.rank()) : declared(*o).front());
  }
  const ComputeLayout other =
      p.module.choose_layout({*rule_for(user), shapes, shardings, flatten(user.shape),
                              declared(user), 16 * double(shapes.front().element_count())});
  for (std::size_t j = 0; j < shapes.size(); ++j) {
    if (user.operand(j) == array && same_layout(other.operands[j], layout)) return true;
  }
  return false;
}

/// Another op takes the operand in that layout too, so that both share the way there.
bool is_shared_layout(PartitionContext& p, const ir::Instruction& source, std::size_t i,
                      const TensorSharding& layout) {
  const ir::Instruction* array = source.operand(i);
  for (const ir::Instruction* user : p.source.users(*array)) {
    if (user == &source) continue;
    if (orders(*user) && takes_in_layout(p, *user, array, layout)) return true;
    for (std::size_t j = 0; user->is(ir::Opcode::call) && j < user->operands().size(); ++j) {
      if (user->operand(j) != array) continue;
      const ir::Computation& callee = *user->called().front();
      for (const auto& x : callee.instructions()) {
        const bool takes = orders(*x) && x->operand(0) == callee.parameter(j);
        if (takes && takes_in_layout(p, *x, callee.parameter(j), layout)) return true;
      }
    }
  }
  return false;
}

}  // namespace

double price_of(PartitionContext& p, const ir::Instruction& source, const ComputeLayout& layout) {
  double price = layout.cost;
  for (std::size_t i = 0; i < source.operands().size(); ++i) {
    Value* v = p.values.operand(*source.operand(i));
    if (!v->shape.is_array() || v->is_recomputable()) continue;
    const bool shared = is_shared_layout(p, source, i, layout.operands[i]);
    price += (shared ? 0 : p.values.reshard_price(v, layout.operands[i])) -
             p.module.reshard_cost(v->sharding, layout.operands[i], v->shape);
  }
  return price;
}

ComputeLayout layout_of_step(const PartitionContext& p, const Dims& dims,
                             const std::vector<Shape>& in, const std::vector<TensorSharding>& from,
                             const std::vector<Shape>& out, const std::vector<TensorSharding>& to) {
  FactorRule rule;
  TensorFactors operand, result;
  for (std::int64_t d = 0; d < in[0].rank(); ++d) {
    const FactorKind kind =
        contains(dims, d) ? FactorKind::need_replication : FactorKind::pass_through;
    operand.push_back({int(rule.factors.size())});
    rule.factors.push_back({in[0].dim(d), kind});
    if (in[0].dim(d) != out[0].dim(d)) rule.factors.push_back({out[0].dim(d), kind});
    result.push_back({int(rule.factors.size()) - 1});
  }
  rule.operands.assign(in.size(), operand);
  rule.results.assign(out.size(), result);
  const double work = 16 * double(std::max(in[0].element_count(), out[0].element_count()));
  return p.module.choose_layout({std::move(rule), in, from, out, to, work});
}

namespace {

/// A selection along a dim that stays split.
struct SplitTopK {
  std::vector<TensorSharding> operands;
  std::int64_t k = 0;  ///< how many each device picks
  ComputeLayout last;  ///< of the selection among those
};

/// None if it is cheaper to have all of the dim on each device, or if there is no other way.
std::optional<SplitTopK> split_top_k(PartitionContext& p, const ir::Instruction& source) {
  const FactorRule rule = *rule_for(source);
  const Shape& in = source.operand(0)->shape;
  if (!source.shape.is_tuple || in.element_count() == 0 ||
      source.shape.elements[0].element_count() == 0 || in.dtype == DType::pred ||
      is_complex(in.dtype)) {
    return std::nullopt;
  }
  const std::int64_t dim = in.rank() - 1;
  FactorRule parts = rule;
  parts.factors[std::size_t(parts.operands[0][std::size_t(dim)].front())].kind =
      FactorKind::reduction;
  const bool planned = p.module.stage() == PartitionStage::device;
  ComputeLayout split;
  if (planned) {
    split.operands = {p.source.sharding(*source.operand(0))};
  } else {
    split = p.layouts.choose(source, parts);
  }
  const TensorSharding& s = split.operands[0];
  const std::int64_t ways = s.shards(dim);
  if (ways == 1) return std::nullopt;
  const std::vector<Shape> results = flatten(source.shape);
  const std::int64_t k = std::min(source.get<ir::TopKAttrs>().k, ceil_div(in.dim(dim), ways));
  const std::vector<TensorSharding> requested = reduced(p.source.shardings(source));
  std::vector<Shape> candidates = results;
  for (Shape& c : candidates) c.dims[std::size_t(dim)] = ways * k;
  ComputeLayout last = layout_of_step(p, {dim}, candidates, std::vector(2, s), results, requested);
  if (planned) return SplitTopK{split.operands, k, std::move(last)};
  double price = price_of(p, source, split) + last.cost;
  for (std::size_t i = 0; i < results.size(); ++i) {
    price -= p.module.reshard_cost(split.results[i], requested[i], results[i]);
  }
  if (price_of(p, source, p.layouts.choose(source, rule)) <= price) return std::nullopt;
  return SplitTopK{split.operands, k, std::move(last)};
}

}  // namespace

OpPlan plan_top_k(PartitionContext& p, const ir::Instruction& source) {
  const std::optional<SplitTopK> split = split_top_k(p, source);
  if (!split) return plan_by_rule(p, source);
  return {split->operands, split->last.results};
}

void partition_top_k(PartitionContext& p, const ir::Instruction& source) {
  const std::optional<SplitTopK> split = split_top_k(p, source);
  if (!split) return partition_by_rule(p, source);
  const auto& attrs = source.get<ir::TopKAttrs>();
  const Shape& in = source.operand(0)->shape;
  const std::vector<Shape> results = flatten(source.shape);
  const std::int64_t dim = in.rank() - 1, n = in.dim(dim), k = split->k;
  const std::size_t d = std::size_t(dim);
  const TensorSharding& s = split->operands[0];
  const std::int64_t ways = s.shards(dim);
  const ComputeLayout& last = split->last;

  ir::Builder& b = p.b();
  Value* v = p.values.operand_in(source, 0, s);
  ir::Instruction* x = p.values.masked(v, {dim}, last_of_all(p, in.dtype, attrs.largest));
  Shape picked = x->shape, places(s32, x->shape.dims);
  picked.dims[d] = places.dims[d] = k;
  std::vector<ir::Instruction*> own = p.emit.unpack(b.emit_shaped(
      ir::Opcode::topk, Shape::tuple({picked, places}), {x}, ir::TopKAttrs{k, attrs.largest}));
  own[1] = b.binary(ir::Opcode::add, own[1], b.splat(p.emit.shard_offset(s, dim, n), places.dims));
  // Parts stand in the order of their indices, and a stable sort leaves equals so.
  std::vector<ir::Instruction*> all;
  for (std::size_t i = 0; i < own.size(); ++i) {
    Shape candidates = results[i];
    candidates.dims[d] = ways * k;
    all.push_back(p.values
                      .reshard(p.values.make(own[i], s, candidates), last.operands[i],
                               "winners of " + op_label(source))
                      ->local);
  }
  ir::Instruction* sorted =
      b.sort(all, dim, true, order_of(p.module.target(), in.dtype, attrs.largest));
  std::vector<ir::Instruction*> winners = p.emit.unpack(sorted);
  for (ir::Instruction*& x : winners) x = p.emit.resized(x, dim, attrs.k);
  p.values.define(source, winners, last.results);
}

}  // namespace tessera::spmd
