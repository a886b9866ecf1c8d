// SPDX-License-Identifier: Apache-2.0
// What a computation of the propagated module says: who uses what, and how it is sharded.
#include "src/spmd/partitioner/source_computation.h"

#include "src/ir/constraint.h"

namespace tessera::spmd {

SourceComputation::SourceComputation(const ModulePartitioner& module, const ir::Computation& source)
    : module_(module), source_(source) {
  users_.reserve(source.instructions().size());
  for (const auto& i : source.instructions()) users_.push_back(i->users());
  shardings_.resize(source.instructions().size());
  if (module.stage() == PartitionStage::device) return;
  const ir::Instruction& root = *source.root();
  auto has_one_user = [&](const ir::Instruction& used) {
    return users(used).size() == 1 && &used != &root && !used.is(ir::Opcode::parameter);
  };
  // What only becomes a result is requested as the result is sharded.
  auto returned = [&](const ir::Instruction& x, std::size_t leaf) {
    if (x.shape.is_array() && has_one_user(x)) result_of_.try_emplace(&x, leaf);
  };
  if (root.is(ir::Opcode::tuple)) {
    std::size_t leaf = 0;
    for (const ir::Instruction* x : root.operands()) {
      returned(*x, leaf);
      leaf += flatten(x->shape).size();
    }
  } else if (root.is(ir::Opcode::copy)) {
    returned(*root.operand(0), 0);
  } else if (root.is(ir::Opcode::get_tuple_element) && root.shape.is_array() &&
             root.operand(0)->is(ir::Opcode::tuple) && has_one_user(*root.operand(0))) {
    const std::int64_t index = root.get<ir::GetTupleElementAttrs>().index;
    returned(*root.operand(0)->operand(std::size_t(index)), 0);
  }
}

const std::vector<TensorSharding>& SourceComputation::shardings(
    const ir::Instruction& instruction) const {
  if (!has(instruction)) return module_.shardings_of(instruction);
  const std::vector<TensorSharding>*& known = shardings_[std::size_t(instruction.index)];
  if (known) return *known;
  if (auto result = result_of_.find(&instruction); result != result_of_.end()) {
    known =
        &result_shardings_.emplace_back(1, module_.shardings_of(*source_.root())[result->second]);
  } else {
    known = &module_.shardings_of(instruction);
  }
  return *known;
}

std::size_t SourceComputation::user_count(const ir::Instruction& instruction) const {
  return users(instruction).size() + (source_.root() == &instruction ? 1 : 0);
}

TensorSharding SourceComputation::replicated(std::int64_t rank) const {
  TensorSharding s = TensorSharding::replicated_on(module_.mesh(), rank);
  s.manual = manual_axes();
  return s;
}

}  // namespace tessera::spmd
