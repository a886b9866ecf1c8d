// SPDX-License-Identifier: Apache-2.0
// Ops without a form on a batch: a scan computes one entry after the other. And random numbers.
#include "src/transforms/batching/site.h"

namespace tessera::transforms::batching {

using ir::Instruction;

Batched loop_over_entries(BatchSite& site) {
  const std::vector<Batched> arguments = site.operand_leaves();
  for (const Batched& leaf : arguments) {
    if (!leaf.array->shape.is_array()) site.not_implemented("it is ordered by a token");
  }
  const std::vector<Shape> shapes = flatten(site.op.shape);
  for (const Shape& leaf : shapes) {
    if (!leaf.is_array()) site.not_implemented("it gives a token");
  }
  ir::Builder in(
      site.b.module()->add_computation(std::string(ir::name(site.op.opcode)) + ".entry"));
  in.metadata = site.b.metadata;
  // Slices of what is batched, then what all entries share.
  std::vector<Instruction*> operands;
  std::vector<Batched> of_entry(arguments.size());
  for (const bool sliced : {true, false}) {
    for (std::size_t k = 0; k < arguments.size(); ++k) {
      const Batched& leaf = arguments[k];
      if (leaf.batched() != sliced) continue;
      Instruction* x = sliced ? site.at(leaf, 0) : leaf.array;
      Shape shape(x->shape.dtype, x->shape.dims);
      if (sliced) shape.dims.erase(shape.dims.begin());
      of_entry[k].array = in.parameter(std::int64_t(operands.size()), shape);
      operands.push_back(x);
    }
  }
  std::span<const Batched> rest = of_entry;
  std::vector<Instruction*> own;
  for (const Instruction* o : site.op.operands()) {
    own.push_back(packed(in, from_leaves(o->shape, &rest)));
  }
  auto copy = std::make_unique<Instruction>(static_cast<const ir::InstructionData&>(site.op));
  copy->set_operands(std::move(own));
  copy->set_called(site.op.called());
  copy->metadata = in.metadata;
  Instruction* made = in.computation()->add(std::move(copy));
  std::vector<Instruction*> results;
  for (const Batched& leaf : leaves(unpacked(in, made, Dims(shapes.size(), kNotBatched)))) {
    results.push_back(leaf.array);
  }
  in.computation()->set_root(in.tuple(results));
  ir::ScanAttrs attrs;
  attrs.length = site.size();
  for (const Batched& leaf : arguments) attrs.constants += leaf.batched() ? 0 : 1;
  Instruction* scan = site.b.emit(ir::Opcode::scan, operands, attrs, {in.computation()});
  const Batched stacked = unpacked(site.b, scan, Dims(shapes.size(), 0));
  return from_leaves(site.op.shape, stacked.elements);
}

/// Products in which each entry has groups, or scales, of its own.
Batched batch_entry_by_entry(BatchSite& site) { return loop_over_entries(site); }

/// Numbers of distributions that differ.
Batched batch_rng(BatchSite& site) { return loop_over_entries(site); }

/// Each key has bits of its own, those that it has outside of a batch.
Batched batch_rng_bit_generator(BatchSite& site) { return loop_over_entries(site); }

}  // namespace tessera::transforms::batching
