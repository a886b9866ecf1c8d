// SPDX-License-Identifier: Apache-2.0
// Reductions: each device reduces its part with the neutral element, the partial results are joined
// by a collective of the same monoid, and the user's initial value enters once. Reducers that only
// select (argmax and the like) gather one partial result per device and reduce those again.
#include <algorithm>

#include "src/base/check.h"
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

bool is_literal(const ir::Instruction& x, const Literal& value) {
  const ir::Instruction* at = &x;
  while (at->is(ir::Opcode::copy)) at = at->operand(0);
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

/// One partial result per device, gathered along a new leading dim and reduced again.
std::vector<Value*> reduce_gathered(ComputationPartitioner& p, const ir::Instruction& source,
                                    const std::vector<ir::Instruction*>& partial,
                                    const std::vector<ir::Instruction*>& inits,
                                    const ComputeLayout& layout, const std::vector<int>& axes) {
  ir::Builder& b = p.b();
  std::vector<ir::Instruction*> operands;
  const std::int64_t k = p.ways(axes);
  for (std::size_t i = 0; i < partial.size(); ++i) {
    Dims dims = partial[i]->shape.dims;
    dims.insert(dims.begin(), 1);
    ir::Instruction* x =
        b.all_gather(b.reshape(partial[i], dims), 0, ir::DeviceGroups::over(p.mesh(), axes));
    p.transfer = {layout.operands[i].to_spec_string(), reduced(layout.results[i]).to_spec_string(),
                  "partial results of " + op_label(source), false};
    p.note(x, byte_count(x) * double(k - 1) / double(k));
    operands.push_back(x);
  }
  p.transfer = {};
  operands.insert(operands.end(), inits.begin(), inits.end());
  std::vector<TensorSharding> results;
  for (const TensorSharding& s : layout.results) results.push_back(reduced(s));
  ir::Instruction* joined = p.emit_local(source, operands, p.local_tuple(source.shape, results),
                                         ir::DimensionsAttrs{{0}});
  std::vector<Value*> out;
  std::vector<ir::Instruction*> parts = p.unpack(joined);
  std::vector<Shape> shapes = flatten(source.shape);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    out.push_back(p.make(parts[i], results[i], shapes[i]));
  }
  return out;
}

}  // namespace

void partition_reduce(ComputationPartitioner& p, const ir::Instruction& source) {
  std::optional<FactorRule> rule = rule_for(source);
  if (!rule) return p.replicate(source, "no rule is known");
  const std::size_t count = source.operands.size() / 2;
  const Dims& dims = source.get<ir::DimensionsAttrs>().dims;
  const ir::Computation& reducer = *source.called.front();
  std::optional<ir::Opcode> op;
  std::optional<Literal> identity;
  if (count == 1) op = ir::as_binary_reducer(reducer);
  if (op) identity = ir::identity_of(*op, source.operand(0)->shape.dtype);
  if (!identity && !only_selects(reducer)) {
    for (Factor& f : rule->factors) {
      if (f.kind == FactorKind::reduction) f.kind = FactorKind::need_replication;
    }
  }
  ComputeLayout layout = p.layout_for(source, *rule);
  std::vector<Value*> values = p.operands_in(source, layout.operands);
  std::vector<int> axes;  // in the order of the reduced elements
  for (std::size_t d = 0; d < layout.operands[0].dims.size(); ++d) {
    if (!contains(dims, std::int64_t(d))) continue;
    const std::vector<int>& a = layout.operands[0].dims[d].axes;
    axes.insert(axes.end(), a.begin(), a.end());
  }
  ir::Builder& b = p.b();
  std::vector<ir::Instruction*> inputs, inits;
  for (std::size_t i = 0; i < count; ++i) inits.push_back(values[count + i]->local);
  if (axes.empty()) {
    for (std::size_t i = 0; i < count; ++i) inputs.push_back(values[i]->local);
    inputs.insert(inputs.end(), inits.begin(), inits.end());
    ir::Instruction* x = p.emit_local(source, inputs, p.local_tuple(source.shape, layout.results));
    std::vector<ir::Instruction*> parts = p.unpack(x);
    std::vector<Shape> shapes = flatten(source.shape);
    std::vector<Value*> results;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      results.push_back(p.make(parts[i], layout.results[i], shapes[i]));
    }
    return p.define(source, results);
  }
  if (identity) {
    ir::Instruction* neutral = b.constant(*identity);
    ir::Instruction* x = p.emit_local(source, {p.masked(values[0], dims, neutral), neutral},
                                      p.local_shape(source.shape, layout.results[0]));
    Value* partial = p.make(x, layout.results[0], source.shape);
    partial->partial_op = *op;
    if (is_literal(*source.operand(1), *identity)) return p.define(source, partial);
    Value* sum =
        p.reshard(partial, reduced(p.declared_array(source)), "result of " + op_label(source));
    x = b.binary(*op, b.splat(inits[0], sum->local->shape.dims), sum->local);
    return p.define(source, p.make(x, sum->sharding, source.shape));
  }
  for (std::size_t i = 0; i < count; ++i) inputs.push_back(p.masked(values[i], dims, inits[i]));
  inputs.insert(inputs.end(), inits.begin(), inits.end());
  std::vector<TensorSharding> partial_layout;
  for (const TensorSharding& s : layout.results) partial_layout.push_back(reduced(s));
  ir::Instruction* x = p.emit_local(source, inputs, p.local_tuple(source.shape, partial_layout));
  p.define(source, reduce_gathered(p, source, p.unpack(x), inits, layout, axes));
}

}  // namespace tessera::spmd
