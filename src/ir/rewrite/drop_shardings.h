// SPDX-License-Identifier: Apache-2.0
// Takes the shardings out of a program.
#pragma once

#include <functional>

#include "src/ir/module.h"

namespace tessera::ir {

/// Removes all shardings, the constraints and the mesh; the module is for one partition then. What
/// becomes of per-device code is for `per_device` to decide, which may throw: it is called with
/// each manual computation and each custom call that begins or ends such code.
void drop_shardings(Module* module, const std::function<void(Instruction*)>& per_device);

/// The same for a program that runs on one device, where per-device code and custom_partitioning
/// compute what they call.
void drop_shardings_for_one_device(Module* module);

}  // namespace tessera::ir
