// SPDX-License-Identifier: Apache-2.0
// Takes the shardings out of a program.
#include "src/ir/rewrite/drop_shardings.h"

#include "src/ir/constraint.h"
#include "src/ir/custom_call_targets.h"
#include "src/ir/rewrite/rewriter.h"

namespace tessera::ir {
namespace {

bool is_per_device_code(const Instruction& i) {
  if (i.is(Opcode::manual_computation)) return true;
  if (!i.is(Opcode::custom_call)) return false;
  const std::string& target = i.get<CustomCallAttrs>().target;
  return is_shard_shape_target(target) || target == kManualComputationTarget ||
         target == kGlobalToLocalShapeTarget || target == kLocalToGlobalShapeTarget;
}

void forget_mesh(Module* module) {
  module->mesh = nullptr;
  module->num_partitions = 1;
}

/// The operand or call that takes the place of an op which one device doesn't need; null for
/// others.
Instruction* on_one_device(Rewriter& rewriter, Instruction* i) {
  if (is_constraint(*i) || i->is(Opcode::pvary)) return i->operand(0);
  if (!i->is(Opcode::manual_computation) && !i->is(Opcode::custom_partitioning)) return nullptr;
  Instruction* call =
      rewriter.builder(i).emit_shaped(Opcode::call, i->shape, i->operands(), {}, i->called());
  call->frontend_attributes = i->frontend_attributes;
  for (Instruction* before : i->control_predecessors()) call->add_control_predecessor(before);
  return call;
}

}  // namespace

void drop_shardings(Module* module, const std::function<void(Instruction*)>& per_device) {
  for (const auto& computation : module->computations()) {
    Rewriter rewriter(computation.get());
    for (std::size_t n = 0; n < rewriter.size(); ++n) {
      Instruction* i = rewriter.at(n);
      i->sharding.clear();
      if (is_constraint(*i)) {
        rewriter.replace(i, i->operand(0));
        rewriter.erase(i);
      } else if (is_per_device_code(*i)) {
        per_device(i);
      }
    }
    rewriter.finish();
  }
  forget_mesh(module);
}

void drop_shardings_for_one_device(Module* module) {
  for (const auto& computation : module->computations()) {
    Rewriter rewriter(computation.get());
    for (std::size_t n = 0; n < rewriter.size(); ++n) {
      Instruction* i = rewriter.at(n);
      i->sharding.clear();
      Instruction* instead = on_one_device(rewriter, i);
      if (instead == nullptr) continue;
      rewriter.replace(i, instead);
      rewriter.erase(i);
    }
    rewriter.finish();
  }
  forget_mesh(module);
}

}  // namespace tessera::ir
