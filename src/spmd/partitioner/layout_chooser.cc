// SPDX-License-Identifier: Apache-2.0
// In which layout an op is computed: how its operands are laid out, what its users request, its
// work, and the cheapest between them.
#include "src/spmd/partitioner/layout_chooser.h"

#include "src/cost/work.h"

namespace tessera::spmd {

std::optional<ComputeLayout> LayoutChooser::given(const ir::Instruction& source,
                                                  const FactorRule& rule) const {
  if (module_.stage() != PartitionStage::device) return std::nullopt;
  std::vector<TensorSharding> operands;
  for (const ir::Instruction* o : source.operands()) operands.push_back(source_.sharding(*o));
  return agreed_layout(rule, operands, source_.shardings(source));
}

ComputeLayout LayoutChooser::choose(const ir::Instruction& source, const FactorRule& rule) {
  if (std::optional<ComputeLayout> planned = given(source, rule)) return *planned;
  LayoutProblem problem{
      rule, {}, {}, flatten(source.shape), source_.shardings(source), cost::layout_work(source)};
  for (const ir::Instruction* o : source.operands()) {
    problem.operand_shapes.push_back(o->shape);
    const Value* v = values_.operand(*o);
    problem.operand_shardings.push_back(v->is_recomputable() ? source_.replicated(o->shape.rank())
                                                             : v->sharding);
  }
  return module_.choose_layout(problem);
}

}  // namespace tessera::spmd
