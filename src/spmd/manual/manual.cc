// SPDX-License-Identifier: Apache-2.0
// Manual computations: the text of their attributes, and reading of other forms.
#include "src/spmd/manual/manual.h"
#include "src/ir/analysis/device_computations.h"

#include <unordered_set>

#include "src/base/check.h"
#include "src/ir/constraint.h"
#include "src/ir/hooks.h"

namespace tessera::spmd::manual {

IndexList axes_of(const ir::Instruction& call, const MeshRef& mesh) {
  const TensorSharding& s = call.called().at(0)->root()->sharding.front();
  return s.mesh == mesh ? s.manual : s.on(mesh).manual;
}

std::string sharding_text(const TensorSharding& s) {
  std::string text = s.to_string();
  const std::string prefix = "#sdy.sharding<@" + (s.mesh ? s.mesh->name : "empty_mesh");
  if (!s.mesh || s.kind != TensorSharding::Kind::axes || text.rfind(prefix, 0) != 0) {
    return text.substr(std::string("#sdy.sharding").size());
  }
  std::string mesh = "mesh<[";
  const std::string* last = nullptr;
  for (const MeshAxis& a : s.mesh->axes) {
    if (a.pre != 1 || (last && *last == a.name)) continue;
    mesh += (last ? ", \"" : "\"") + a.name + "\"=" + std::to_string(a.full);
    last = &a.name;
  }
  mesh += "]";
  if (!s.mesh->device_ids.empty()) mesh += ", device_ids=[" + join(s.mesh->device_ids) + "]";
  return "<" + mesh + ">" + text.substr(prefix.size());
}

std::string list_text(const std::vector<TensorSharding>& shardings) {
  std::string out = "[";
  for (std::size_t i = 0; i < shardings.size(); ++i) {
    out += (i ? ", " : "") + sharding_text(shardings[i]);
  }
  return out + "]";
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
    std::unordered_map<ir::Instruction*, ir::Instruction*> replaced;
    for (const auto& i : c->instructions()) {
      if (ir::is_constraint(*i)) replaced[i.get()] = i->operand(0);
    }
    if (replaced.empty()) continue;
    for (const auto& [constraint, x] : replaced) {
      constraint->drop_side_effect();
    }
    c->replace_all_uses(replaced);
    c->remove_dead();
  }
}

}  // namespace

void raise(ir::Module* module) {
  raise_sdy_calls(module);
  raise_shard_shapes(module);
  drop_scalar_constraints(module);
}

}  // namespace tessera::spmd::manual
