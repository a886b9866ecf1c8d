// SPDX-License-Identifier: Apache-2.0
// Adds and removes constraint calls that give uses of an argument a sharding of their own.
#include "src/spmd/auto_sharding/argument_views.h"

#include <memory>
#include <string>
#include <utility>

#include "src/ir/constraint.h"
#include "src/ir/hooks.h"

namespace tessera::spmd {
namespace {

/// A frontend attribute: names are the user's, and a program may be read from text.
constexpr const char* kView = "tessera.argument_view";

/// One that makes no difference.
bool is_same_view(const ir::Instruction& i) {
  return is_argument_view(i) && i.sharding == i.operand(0)->sharding;
}

}  // namespace

void add_views(ir::Module* module) {
  ir::Computation* entry = module->entry();
  // Propagation drops dead code, and would drop the views that only it uses.
  entry->remove_dead();
  for (ir::Instruction* p : entry->parameters()) {
    if (!p->shape.is_array() || p->shape.rank() == 0 || entry->root() == p) continue;
    if (p->use_count() == 0) continue;
    auto view = std::make_unique<ir::Instruction>();
    view->opcode = ir::Opcode::sharding_constraint;
    view->shape = p->shape;
    view->name = p->name + ".view";
    view->frontend_attributes.edit()[kView] = "true";
    view->attrs = ir::ShardingConstraintAttrs{};
    view->metadata = p->users().front()->metadata;  // what moves, moves for that
    ir::Instruction* added = entry->add(std::move(view));
    p->replace_all_uses_with(added);
    added->set_operands({p});
  }
  entry->sort_topologically();
}

void drop_views(ir::Module* module) {
  ir::Computation* entry = module->entry();
  for (ir::Instruction* p : entry->parameters()) {
    for (ir::Instruction* user : p->users()) {
      if (is_same_view(*user)) user->replace_all_uses_with(p);
    }
  }
  entry->remove_dead();
}

const ir::Instruction* without_view(const ir::Instruction* i) {
  return i != nullptr && is_same_view(*i) ? i->operand(0) : i;
}

bool is_argument_view(const ir::Instruction& i) {
  return ir::is_constraint(i) && i.operand(0)->is(ir::Opcode::parameter) &&
         i.frontend_attributes->count(kView) > 0;
}

}  // namespace tessera::spmd
