// SPDX-License-Identifier: Apache-2.0
#include "src/spmd/refine/argument_views.h"

#include <memory>
#include <string>
#include <utility>

#include "src/ir/hooks.h"
#include "src/spmd/partitioner/context.h"

namespace tessera::spmd {
namespace {

constexpr std::string_view kView = ".view";

}  // namespace

ArgumentViews add_views(ir::Module* module) {
  ArgumentViews views;
  ir::Computation* entry = module->entry();
  for (ir::Instruction* p : entry->parameters()) {
    if (!p->shape.is_array() || p->shape.rank() == 0 || entry->root() == p) continue;
    if (p->use_count() == 0) continue;
    auto view = std::make_unique<ir::Instruction>();
    view->opcode = ir::Opcode::custom_call;
    view->shape = p->shape;
    view->name = p->name + std::string(kView);
    ir::CustomCallAttrs attrs;
    attrs.target = ir::kShardingTarget;
    view->attrs = std::move(attrs);
    view->metadata = p->metadata;
    ir::Instruction* added = entry->add(std::move(view));
    p->replace_all_uses_with(added);
    added->set_operands({p});
    views[p] = added;
  }
  entry->sort_topologically();
  return views;
}

void drop_views(ir::Module* module, const ArgumentViews& views) {
  ir::Computation* entry = module->entry();
  for (ir::Instruction* p : entry->parameters()) {
    const auto view = views.find(p);
    if (view != views.end() && view->second->sharding == p->sharding) {
      view->second->replace_all_uses_with(p);
    }
  }
  entry->remove_dead();
}

bool is_argument_view(const ir::Instruction& i) {
  return is_constraint(i) && i.operand(0)->is(ir::Opcode::parameter) && i.name.ends_with(kView);
}

}  // namespace tessera::spmd
