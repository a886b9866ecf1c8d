// SPDX-License-Identifier: Apache-2.0
// Which computations run once per device, and what enters them: shared by all that follows the flow
// of arrays through a program.
#pragma once

#include <vector>

#include "src/ir/module.h"

namespace tessera::ir {

/// A call of code per device (ManualComputationAttrs).
bool is_manual_computation(const Instruction& instruction);
/// Such a call whose body leaves axes automatic: once its shardings are bound (spmd/manual), the
/// body's root has some.
bool is_partly_manual(const Instruction& instruction);

/// Computations that run once per device: the entry, bodies, conditions, branches, callees, and
/// those bodies of manual computations that leave axes automatic.
std::vector<Computation*> device_computations(const Module& module);
/// Those of them that an instruction runs.
std::vector<Computation*> device_callees(const Instruction& i);

}  // namespace tessera::ir
