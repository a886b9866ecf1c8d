// SPDX-License-Identifier: Apache-2.0
// The rules of custom derivatives as computations.
#pragma once

#include "src/ir/module.h"

namespace tessera::ir {

/// Has a custom_derivative without symbolic zeros call the computations of its rule, which are
/// traced if they aren't there. ValueError if it was read from a text that lacks them; ShapeError
/// if what was traced isn't what the op needs.
void trace_rules(Instruction* custom_derivative);

}  // namespace tessera::ir
