// SPDX-License-Identifier: Apache-2.0
// Batches calls, branches and scans.
#include <algorithm>

#include "src/transforms/batching/site.h"

namespace tessera::transforms::batching {

using ir::Computation;
using ir::Instruction;

namespace {

Flags flags_of(const Dims& dims) {
  Flags out;
  for (std::int64_t d : dims) out.push_back(d != kNotBatched);
  return out;
}

}  // namespace

/// A fusion is for the shapes of an entry: what it computes is called.
Batched batch_call(BatchSite& site) {
  const BatchedComputation callee =
      site.batcher.computation(*site.op.called(0), site.operand_dims());
  Instruction* made = site.b.call(callee.computation, site.packed_operands());
  if (site.op.is(ir::Opcode::call)) made->frontend_attributes = site.op.frontend_attributes;
  return unpacked(site.b, made, callee.out_dims);
}

namespace {

/// Each entry has a branch of its own: all of them are computed, and each entry takes what its
/// branch gives.
Batched batch_branches(BatchSite& site) {
  ir::Builder& b = site.b;
  const Instruction& op = site.op;
  const auto count = op.called().size();
  std::vector<std::vector<Batched>> results;
  for (std::size_t k = 0; k < count; ++k) {
    site.refuse_side_effects(k);
    results.push_back(leaves(site.batcher.run(b, *op.called(k), {site.operand(k + 1)})));
  }
  // Masks of entries that take branch k, the last one apart.
  Instruction* index = site.at(0, 0);
  std::vector<Instruction*> masks;
  for (std::size_t k = 0; k + 1 < count; ++k) {
    if (index->shape.dtype == DType::pred) {
      masks.push_back(index);
    } else {
      Instruction* number = b.splat(b.scalar(index->shape.dtype, double(k)), index->shape.dims);
      masks.push_back(b.compare(ir::Direction::eq, index, number));
    }
  }
  std::vector<Batched> out = results.back();
  for (std::size_t leaf = 0; leaf < out.size(); ++leaf) {
    if (!out[leaf].array->shape.is_array()) site.not_implemented("a branch gives a token");
    for (std::size_t k = count - 1; k-- > 0;) {
      const Batched& taken = results[k][leaf];
      if (taken.array == out[leaf].array && taken.dim == out[leaf].dim) continue;
      const std::int64_t dim =
          taken.batched() ? taken.dim : std::max<std::int64_t>(out[leaf].dim, 0);
      Instruction* on_true = site.at(taken, dim);
      Instruction* mask = site.spread(masks[k], on_true->shape.dims, dim);
      out[leaf].array = b.select(mask, on_true, site.at(out[leaf], dim));
      out[leaf].dim = dim;
    }
  }
  return from_leaves(op.shape, out);
}

}  // namespace

Batched batch_conditional(BatchSite& site) {
  if (site.batched(0)) return batch_branches(site);
  const Instruction& op = site.op;
  Dims out(flatten(op.shape).size(), kAsItComes);
  for (std::size_t k = 0; k < op.called().size(); ++k) {
    const Flags depends =
        site.batcher.dependence().results(*op.called(k), flags_of(dims_of(site.operand(k + 1))));
    for (std::size_t leaf = 0; leaf < out.size(); ++leaf) {
      if (depends[leaf]) out[leaf] = 0;
    }
  }
  std::vector<Computation*> branches;
  for (std::size_t k = 0; k < op.called().size(); ++k) {
    const BatchedComputation branch =
        site.batcher.computation(*op.called(k), dims_of(site.operand(k + 1)), out);
    TESSERA_CHECK(branch.out_dims == out, "branches of " + op.describe() + " differ");
    branches.push_back(branch.computation);
  }
  const Shape shape = batched_shape(op.shape, out, site.size());
  return unpacked(site.b, site.emit_calling(shape, site.packed_operands(), op.attrs, branches),
                  out);
}

/// Slices are taken along a dim in front of the batch.
Batched batch_scan(BatchSite& site) {
  const auto& attrs = site.op.get<ir::ScanAttrs>();
  const auto carries = std::size_t(attrs.carries);
  const std::size_t inputs = site.operand_count() - carries - std::size_t(attrs.constants);
  const std::size_t outputs = site.op.shape.elements.size() - carries;
  const Flags in = flags_of(site.operand_dims());
  const Flags carried = site.batcher.dependence().scan_carries(site.op, in);

  std::vector<Instruction*> operands;
  Dims of_step, out_of_step, out;
  Flags reached;
  for (std::size_t i = 0; i < site.operand_count(); ++i) {
    const bool is_carry = i >= inputs && i < inputs + carries;
    if (i < inputs && site.batched(i)) {
      const std::int64_t dim = std::max(site.dim(i), attrs.dim + 1);
      operands.push_back(site.at(i, dim));
      of_step.push_back(dim - 1);
    } else if (is_carry && carried[i - inputs]) {
      operands.push_back(site.at(i, 0));
      of_step.push_back(0);
    } else {
      operands.push_back(site.array(i));
      of_step.push_back(site.dim(i));
    }
    reached.push_back(of_step.back() != kNotBatched);
  }
  const Computation& step = *site.op.called(0);
  const Flags depends = site.batcher.dependence().results(step, reached);
  for (std::size_t k = 0; k < outputs; ++k) {
    out_of_step.push_back(depends[k] ? attrs.dim : kAsItComes);
    out.push_back(depends[k] ? attrs.dim + 1 : kNotBatched);
  }
  for (std::size_t k = 0; k < carries; ++k) {
    out_of_step.push_back(carried[k] ? 0 : kAsItComes);
    out.push_back(out_of_step.back());
  }
  const BatchedComputation made = site.batcher.computation(step, of_step, out_of_step);
  TESSERA_CHECK(made.out_dims == out_of_step, "the step of " + site.op.describe());
  const Shape shape = batched_shape(site.op.shape, out, site.size());
  Instruction* scan = site.emit_calling(shape, operands, site.op.attrs, {made.computation});
  return unpacked(site.b, scan, out);
}

}  // namespace tessera::transforms::batching
