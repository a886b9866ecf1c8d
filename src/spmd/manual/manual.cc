// SPDX-License-Identifier: Apache-2.0
// Manual computations: reading of the forms that texts have for them.
#include "src/spmd/manual/manual.h"
#include "src/ir/analysis/device_computations.h"

#include <unordered_set>

#include "src/base/check.h"
#include "src/ir/constraint.h"
#include "src/ir/hlo/typed_calls.h"

namespace tessera::spmd::manual {

IndexList axes_of(const ir::Instruction& call, const MeshRef& mesh) {
  const TensorSharding& s = call.called().at(0)->root()->sharding.front();
  return s.mesh == mesh ? s.manual : s.on(mesh).manual;
}

namespace {

/// Constraints in reducers, comparators and the like.
void drop_scalar_constraints(ir::Module* module) {
  std::unordered_set<const ir::Computation*> device;
  for (const ir::Computation* c : ir::device_computations(*module)) device.insert(c);
  // Bodies of manual computations run per device too.
  std::vector<const ir::Computation*> work;
  auto enter = [&](const ir::Computation* c) {
    if (device.insert(c).second) work.push_back(c);
  };
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      if (!ir::is_manual_computation(*i)) continue;
      for (const ir::Computation* body : i->called()) enter(body);
    }
  }
  while (!work.empty()) {
    const ir::Computation* c = work.back();
    work.pop_back();
    for (const auto& i : c->instructions()) {
      const bool runs = i->is(ir::Opcode::call) || i->is(ir::Opcode::while_) ||
                        i->is(ir::Opcode::conditional) || ir::is_manual_computation(*i);
      if (!runs) continue;
      for (const ir::Computation* callee : i->called()) enter(callee);
    }
  }
  for (const auto& c : module->computations()) {
    if (device.count(c.get())) continue;
    bool any = false;
    for (const auto& i : c->instructions()) {
      if (!ir::is_constraint(*i)) continue;
      i->drop_side_effect();
      i->replace_all_uses_with(i->operand(0));
      any = true;
    }
    if (any) c->remove_dead();
  }
}

}  // namespace

void raise(ir::Module* module) {
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      const bool unread = i->is(ir::Opcode::custom_call) &&
                          i->get<ir::CustomCallAttrs>().target == ir::kManualComputationTarget;
      if (unread) ir::raise_manual_computation(i.get(), ir::named_meshes(*module));
    }
  }
  raise_sdy_calls(module);
  raise_shard_shapes(module);
  drop_scalar_constraints(module);
}

}  // namespace tessera::spmd::manual
