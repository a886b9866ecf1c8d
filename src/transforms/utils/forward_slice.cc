// SPDX-License-Identifier: Apache-2.0
// What of a computation depends on some of its parameters.
#include "src/transforms/utils/forward_slice.h"

namespace tessera::transforms {

using ir::Instruction;
using ir::Opcode;

std::vector<bool> forward_slice(const ir::Computation& computation,
                                const std::vector<bool>& parameters) {
  std::vector<bool> out(computation.instructions().size(), false);
  for (const auto& i : computation.instructions()) {
    const auto n = std::size_t(i->index);
    if (i->is(Opcode::parameter)) {
      out[n] = parameters.at(std::size_t(i->get<ir::ParameterAttrs>().number));
    }
    for (const Instruction* x : i->operands()) out[n] = out[n] || out[std::size_t(x->index)];
  }
  return out;
}

}  // namespace tessera::transforms
