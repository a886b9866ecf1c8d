// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/ir/module.h"

namespace tessera::ir {

/// What verify() checks, but for the shapes: order, names, callees, parameters, shardings, aliases.
void verify_structure(const Module& module);

}  // namespace tessera::ir
