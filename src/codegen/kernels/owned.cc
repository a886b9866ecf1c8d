// SPDX-License-Identifier: Apache-2.0
// Instructions and computations copied into modules that live as long as the plan.
#include "src/codegen/kernels/owned.h"

#include <utility>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::codegen {

std::shared_ptr<const ir::Instruction> owned_copy(const ir::Instruction& instruction) {
  auto module = std::make_shared<ir::Module>("kernel");
  ir::Computation* entry = module->add_computation("main");
  ir::Builder builder(entry);
  std::vector<ir::Instruction*> operands;
  for (const ir::Instruction* o : instruction.operands()) {
    operands.push_back(builder.parameter(std::int64_t(operands.size()), o->shape));
  }
  auto copy = std::make_unique<ir::Instruction>(instruction);
  copy->set_operands(std::move(operands));
  copy->set_control_predecessors({});
  for (std::size_t k = 0; k < instruction.called().size(); ++k) {
    copy->set_called(k, module->import(*instruction.called()[k]));
  }
  ir::Instruction* added = entry->add(std::move(copy));
  entry->set_root(added);
  module->set_entry(entry);
  return {std::move(module), added};
}

std::shared_ptr<const ir::Computation> owned_copy(const ir::Computation& computation) {
  auto module = std::make_shared<ir::Module>("kernel");
  ir::Computation* copy = module->import(computation);
  module->set_entry(copy);
  return {std::move(module), copy};
}

std::string canonical_text(const ir::Computation& owned) {
  ir::PrintOptions options;
  options.metadata = false;
  options.canonical = true;
  return ir::to_string(*owned.module(), options);
}

}  // namespace tessera::codegen
