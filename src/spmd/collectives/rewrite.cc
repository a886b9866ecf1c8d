// SPDX-License-Identifier: Apache-2.0
#include "src/spmd/collectives/rewrite.h"

#include <algorithm>
#include <memory>
#include <optional>

namespace tessera::spmd {

using ir::Instruction;
using ir::Opcode;

Rewrite::Rewrite(ir::Computation* computation)
    : computation_(computation), builder_(computation), users_(ir::users_of(*computation)) {}

std::span<Instruction* const> Rewrite::users(const Instruction* i) const {
  if (std::size_t(i->index) >= users_.size()) return {};
  return users_[std::size_t(i->index)];
}

bool Rewrite::untouched(const Instruction* i) const {
  return std::size_t(i->index) < users_.size() && touched_.count(i) == 0;
}

bool Rewrite::has_one_use(const Instruction* i) const {
  if (!untouched(i) || i == computation_->root() || !i->control_predecessors.empty()) return false;
  const auto& all = users(i);
  return all.size() == 1 && std::count(all[0]->operands.begin(), all[0]->operands.end(), i) == 1;
}

ir::Builder& Rewrite::builder(const Instruction* of) {
  builder_.metadata = of->metadata;
  return builder_;
}

void Rewrite::replace(Instruction* from, Instruction* to) {
  // The root says how the results lie.
  if (from == computation_->root() && to->sharding.empty() && !to->is(Opcode::parameter)) {
    to->sharding = from->sharding;
  }
  replaced_[from] = to;
  touch(from);
  touch(to);
}

std::size_t Rewrite::finish() {
  if (replaced_.empty()) return 0;
  computation_->replace_all_uses(replaced_);
  computation_->sort_topologically();
  computation_->remove_dead();
  return replaced_.size();
}

bool is_plain_collective(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::all_gather:
    case Opcode::all_reduce:
    case Opcode::reduce_scatter:
    case Opcode::all_to_all:
    case Opcode::collective_permute:
      break;
    default:
      return false;
  }
  if (i.operands.size() != 1 || !i.shape.is_array() || !i.operand(0)->shape.is_array()) {
    return false;
  }
  return i.control_predecessors.empty();
}

namespace {

Instruction* with_attributes(ir::Builder& b, const Instruction& like,
                             std::vector<Instruction*> operands, ir::Attributes attrs,
                             const Shape* shape) {
  if (auto* c = attrs.edit_if<ir::CollectiveAttrs>(); c && c->channel_id) {
    c->channel_id = ir::next_channel_id(b.module());
  }
  if (auto* p = attrs.edit_if<ir::PermuteAttrs>(); p && p->channel_id) {
    p->channel_id = ir::next_channel_id(b.module());
  }
  Instruction* out =
      shape ? b.emit_shaped(like.opcode, *shape, std::move(operands), std::move(attrs), like.called)
            : b.emit(like.opcode, std::move(operands), std::move(attrs), like.called);
  out->backend_config = like.backend_config;
  out->frontend_attributes = like.frontend_attributes;
  return out;
}

}  // namespace

Instruction* same_collective(ir::Builder& b, const Instruction& like,
                             std::vector<Instruction*> operands, const Shape& shape) {
  return with_attributes(b, like, std::move(operands), like.attrs, &shape);
}

Instruction* flat_gather(ir::Builder& b, const Instruction& like,
                         std::vector<Instruction*> operands, const Shape& shape) {
  ir::CollectiveAttrs attrs = like.get<ir::CollectiveAttrs>();
  attrs.dims = {0};
  return with_attributes(b, like, std::move(operands), std::move(attrs), &shape);
}

Instruction* regrouped(ir::Builder& b, const Instruction& like, Instruction* operand,
                       ir::DeviceGroups groups) {
  ir::CollectiveAttrs attrs = like.get<ir::CollectiveAttrs>();
  attrs.groups = std::move(groups);
  return with_attributes(b, like, {operand}, std::move(attrs), nullptr);
}

bool only_moves(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::reshape:
    case Opcode::transpose:
    case Opcode::copy:
      return i.shape.is_array() && i.shape.dtype == i.operand(0)->shape.dtype;
    default:
      return false;
  }
}

bool may_stand_outside(const Instruction& i) {
  if (ir::has_side_effect(i.opcode) || !i.control_predecessors.empty()) return false;
  if (ir::is_collective(i.opcode)) return is_plain_collective(i);
  switch (i.opcode) {
    case Opcode::parameter:
    case Opcode::rng:
    case Opcode::opt_barrier:
    case Opcode::custom_call:
    case Opcode::while_:
    case Opcode::conditional:
    case Opcode::call:
    case Opcode::fusion:
    case Opcode::after_all:
    case Opcode::tuple:
      return false;
    default:
      return i.shape.is_array();
  }
}

void set_order(ir::Computation* computation, const std::vector<Instruction*>& order) {
  TESSERA_CHECK(order.size() == computation->instructions().size(),
                "an order that lacks instructions of " + computation->name());
  // Sorting follows control edges first, so that a chain of them is the order itself.
  std::vector<std::vector<Instruction*>> kept;
  kept.reserve(order.size());
  for (std::size_t n = 0; n < order.size(); ++n) {
    kept.push_back(std::move(order[n]->control_predecessors));
    order[n]->control_predecessors.clear();
    if (n > 0) order[n]->control_predecessors = {order[n - 1]};
  }
  std::vector<char> placed(order.size(), 0);
  bool fits = true;
  for (std::size_t n = 0; n < order.size(); ++n) {
    for (const Instruction* o : order[n]->operands) fits = fits && placed[std::size_t(o->index)];
    for (const Instruction* p : kept[n]) fits = fits && placed[std::size_t(p->index)];
    placed[std::size_t(order[n]->index)] = 1;
  }
  if (fits) computation->sort_topologically();
  for (std::size_t n = 0; n < order.size(); ++n)
    order[n]->control_predecessors = std::move(kept[n]);
  TESSERA_CHECK(fits, "an order of " + computation->name() + " in which operands come late");
}

}  // namespace tessera::spmd
