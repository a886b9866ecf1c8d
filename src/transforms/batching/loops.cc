// SPDX-License-Identifier: Apache-2.0
// Batches while loops: entries make their trips together.
#include "src/transforms/batching/site.h"

namespace tessera::transforms::batching {

using ir::Computation;
using ir::Instruction;

namespace {

/// A computation of one parameter, a flat tuple, being written.
struct LoopPart {
  ir::Builder builder;
  std::vector<Instruction*> elements;

  LoopPart(const Computation& source, const Instruction& loop, const Shape& state)
      : builder(source.module()->add_computation(source.name())) {
    builder.metadata = loop.metadata;
    Instruction* parameter = builder.parameter(0, state);
    for (std::size_t k = 0; k < state.elements.size(); ++k) {
      elements.push_back(builder.get_tuple_element(parameter, std::int64_t(k)));
    }
  }
  Computation* finish(Instruction* root) {
    builder.computation()->set_root(root);
    builder.computation()->remove_dead();
    return builder.computation();
  }
};

/// A loop whose condition differs between entries: it runs while that of any entry holds, and
/// carries the condition of each along. What an entry carries stays as it is once its own condition
/// fails.
class LoopPerEntry {
 public:
  LoopPerEntry(BatchSite& site, const Flags& carried)
      : site_(site), batcher_(site.batcher), loop_(site.op) {
    for (const bool flag : carried) dims_.push_back(flag ? 0 : kNotBatched);
  }

  Batched run(const Batched& init) {
    ir::Builder& b = site_.b;
    std::vector<Instruction*> state;
    for (const Batched& leaf : leaves(init)) state.push_back(leaf.array);
    state.push_back(condition_on(b, init));
    Instruction* packed_state = b.tuple(state);
    Computation* condition = any_runs(packed_state->shape);
    Computation* body = trip(packed_state->shape);
    Instruction* made = b.while_loop(condition, body, packed_state);
    made->frontend_attributes = loop_.frontend_attributes;
    std::vector<Batched> results;
    for (std::size_t k = 0; k < dims_.size(); ++k) {
      Batched leaf;
      leaf.array = b.get_tuple_element(made, std::int64_t(k));
      leaf.dim = dims_[k];
      results.push_back(leaf);
    }
    return from_leaves(loop_.shape, results);
  }

 private:
  Instruction* condition_on(ir::Builder& b, const Batched& state) {
    return batcher_.at(b, batcher_.run(b, *loop_.called(0), {state}), 0);
  }

  Computation* any_runs(const Shape& state) {
    LoopPart part(*loop_.called(0), loop_, state);
    ir::Builder& b = part.builder;
    Computation* either = ir::scalar_computation(batcher_.module(), ir::Opcode::or_, DType::pred);
    return part.finish(b.reduce(part.elements.back(), b.scalar(DType::pred, 0), {0}, either));
  }

  Computation* trip(const Shape& shape) {
    LoopPart part(*loop_.called(1), loop_, shape);
    ir::Builder& b = part.builder;
    std::vector<Batched> before;
    for (std::size_t k = 0; k < dims_.size(); ++k) {
      Batched leaf;
      leaf.array = part.elements[k];
      leaf.dim = dims_[k];
      before.push_back(leaf);
    }
    Instruction* runs = part.elements.back();
    const Batched after = batcher_.arranged(
        b, batcher_.run(b, *loop_.called(1), {from_leaves(loop_.shape, before)}), dims_);
    b.metadata = loop_.metadata;
    std::vector<Batched> next = leaves(after);
    for (std::size_t k = 0; k < next.size(); ++k) {
      TESSERA_CHECK(next[k].dim == dims_[k], "a carry of " + loop_.describe());
      if (next[k].array == before[k].array || !next[k].batched()) continue;
      Instruction* mask = b.broadcast(runs, next[k].array->shape.dims, {0});
      next[k].array = b.select(mask, next[k].array, before[k].array);
    }
    std::vector<Instruction*> state;
    for (const Batched& leaf : next) state.push_back(leaf.array);
    Instruction* goes_on = condition_on(b, from_leaves(loop_.shape, next));
    // A condition may hold again of what an entry has kept since it failed: it decides nothing.
    state.push_back(b.binary(ir::Opcode::and_, runs, goes_on));
    return part.finish(b.tuple(state));
  }

  BatchSite& site_;
  Batcher& batcher_;
  const Instruction& loop_;
  Dims dims_;
};

}  // namespace

Batched batch_while(BatchSite& site) {
  Dependence& dependence = site.batcher.dependence();
  Flags init;
  for (std::int64_t d : dims_of(site.operand(0))) init.push_back(d != kNotBatched);
  const Flags carried = dependence.carries(site.op, init);
  Dims dims;
  for (const bool flag : carried) dims.push_back(flag ? 0 : kAsItComes);
  const Batched state = site.batcher.arranged(site.b, site.operand(0), dims);
  if (dependence.results(*site.op.called(0), carried).at(0)) {
    site.refuse_side_effects(0);
    site.refuse_side_effects(1);
    return LoopPerEntry(site, carried).run(state);
  }
  const BatchedComputation condition = site.batcher.computation(*site.op.called(0), dims);
  const BatchedComputation body = site.batcher.computation(*site.op.called(1), dims, dims);
  TESSERA_CHECK(condition.out_dims == Dims{kNotBatched} && body.out_dims == dims,
                "the carries of " + site.op.describe());
  const Shape shape = batched_shape(site.op.shape, dims, site.size());
  Instruction* made = site.emit_calling(shape, {packed(site.b, state)}, site.op.attrs,
                                        {condition.computation, body.computation});
  return unpacked(site.b, made, dims);
}

}  // namespace tessera::transforms::batching
