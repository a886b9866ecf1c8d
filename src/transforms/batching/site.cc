// SPDX-License-Identifier: Apache-2.0
// What the rules have in common: operands on a common dim, the op itself on other shapes.
#include "src/transforms/batching/site.h"

#include <utility>

#include "src/ir/channels.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/post_order.h"

namespace tessera::transforms::batching {

using ir::Instruction;

namespace {

void drop_layouts(Shape* shape) {
  shape->layout.clear();
  for (Shape& element : shape->elements) drop_layouts(&element);
}

}  // namespace

bool BatchSite::batched(std::size_t first, std::size_t last) const {
  for (std::size_t i = first; i < last; ++i) {
    if (batched(i)) return true;
  }
  return false;
}

std::vector<Batched> BatchSite::operand_leaves() const {
  std::vector<Batched> out;
  for (std::size_t i = 0; i < operand_count(); ++i) {
    for (Batched& leaf : leaves(operand(i))) out.push_back(std::move(leaf));
  }
  return out;
}

Dims BatchSite::operand_dims() const {
  Dims out;
  for (const Batched& leaf : operand_leaves()) out.push_back(leaf.dim);
  return out;
}

std::vector<Instruction*> BatchSite::packed_operands() {
  std::vector<Instruction*> out;
  for (std::size_t i = 0; i < operand_count(); ++i) out.push_back(packed(b, operand(i)));
  return out;
}

std::int64_t BatchSite::common_dim(std::size_t first, std::size_t last) const {
  std::map<std::int64_t, int> votes;
  std::int64_t best = kNotBatched;
  for (std::size_t i = first; i < last; ++i) {
    if (batched(i)) ++votes[dim(i)];
  }
  for (std::size_t i = first; i < last; ++i) {
    if (batched(i) && (best == kNotBatched || votes[dim(i)] > votes[best])) best = dim(i);
  }
  return best == kNotBatched ? 0 : best;
}

Instruction* BatchSite::spread(Instruction* per_entry, const Dims& dims, std::int64_t batch) {
  return b.broadcast(per_entry, dims, {batch});
}

Batched BatchSite::emit(std::vector<Instruction*> operands, ir::Attributes attrs,
                        std::span<const std::int64_t> dims) {
  Shape shape = batched_shape(op.shape, dims, size());
  drop_layouts(&shape);
  Instruction* made = emit_calling(shape, std::move(operands), std::move(attrs), op.called());
  return unpacked(b, made, dims);
}

Batched BatchSite::emit(std::vector<Instruction*> operands, ir::Attributes attrs,
                        std::int64_t dim) {
  Dims dims;
  for (const Shape& leaf : flatten(op.shape)) dims.push_back(leaf.is_array() ? dim : kNotBatched);
  return emit(std::move(operands), std::move(attrs), dims);
}

Instruction* BatchSite::emit_calling(const Shape& shape, std::vector<Instruction*> operands,
                                     ir::Attributes attrs, std::vector<ir::Computation*> called) {
  ir::give_fresh_channel(&attrs, b.module());
  Instruction* out =
      b.emit_shaped(op.opcode, shape, std::move(operands), std::move(attrs), std::move(called));
  out->backend_config = op.backend_config;
  out->frontend_attributes = op.frontend_attributes;
  return out;
}

void BatchSite::refuse_side_effects(std::size_t callee) const {
  for (const ir::Computation* c : ir::post_order({op.called(callee)})) {
    for (const auto& i : c->instructions()) {
      if (!i->has_side_effect()) continue;
      const auto* call = i->attrs.get_if<ir::CustomCallAttrs>();
      const ir::CustomCallTarget* target = call ? ir::find_custom_call(call->target) : nullptr;
      if (target != nullptr && target->is_marker()) continue;
      not_implemented("which entries run " + op.called(callee)->name() + " differs, and " +
                      i->describe() + " in it has side effects");
    }
  }
}

void BatchSite::not_implemented(const std::string& why) const {
  throw NotImplementedError(
      std::string(ir::name(op.opcode)) + " " + op.describe() + " can't be batched: " + why,
      op.location());
}

}  // namespace tessera::transforms::batching
