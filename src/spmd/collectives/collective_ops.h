// SPDX-License-Identifier: Apache-2.0
// What the passes over collectives ask of instructions, and collectives made like others.
#pragma once

#include <vector>

#include "src/ir/rewrite/rewriter.h"

namespace tessera::spmd {

/// The same collective of other operands, with a channel of its own. `shape`: of the result.
ir::Instruction* same_collective(ir::Builder& b, const ir::Instruction& like,
                                 std::vector<ir::Instruction*> operands, const Shape& shape);
/// A gather of arrays of one dim, otherwise the same.
ir::Instruction* flat_gather(ir::Builder& b, const ir::Instruction& like,
                             std::vector<ir::Instruction*> operands, const Shape& shape);
/// The same with other groups; the shape is inferred.
ir::Instruction* regrouped(ir::Builder& b, const ir::Instruction& like, ir::Instruction* operand,
                           ir::DeviceGroups groups);
/// Some instruction is a collective; computations that it calls aren't looked at.
bool communicates(const ir::Computation& c);
/// reshape, transpose, reverse, copy: the same elements, each once.
bool only_moves(const ir::Instruction& i);

/// Runs a pass over each computation of which `applies`, again until it changes nothing, but so
/// many times at the most. Returns the changes.
template <class Applies, class Pass>
std::size_t run_to_fixed_point(ir::Module* module, int most, Applies applies, Pass pass) {
  std::size_t total = 0;
  for (const auto& c : module->computations()) {
    for (int k = 0; k < most && applies(*c); ++k) {
      const std::size_t n = pass(c.get());
      total += n;
      if (n == 0) break;
    }
  }
  return total;
}

}  // namespace tessera::spmd
