// SPDX-License-Identifier: Apache-2.0
// Loops whose trips are steps of a stencil: several of them at once take one exchange of more rows,
// and pass over memory as often as one.
#pragma once

#include <functional>

#include "src/cost/machine.h"
#include "src/ir/module.h"
#include "src/spmd/partitioner/stencils/region.h"

namespace tessera::spmd::stencils {

/// Unrolls the loops of a propagated module that it pays for. `copied` is told of each copy of an
/// instruction, or of the loop and what counts its trips. Returns how many.
std::size_t unroll_loops(ir::Module* module, const MeshRef& mesh, const cost::Machine& machine,
                         LayoutOf layout_of,
                         const std::function<void(const ir::Instruction& from,
                                                  const ir::Instruction* to)>& copied);

}  // namespace tessera::spmd::stencils
