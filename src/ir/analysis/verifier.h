// SPDX-License-Identifier: Apache-2.0
// The part of verification that needs no shape inference.
#pragma once

#include "src/ir/module.h"

namespace tessera::ir {

/// What verify() checks, but for the shapes: order, names, callees, parameters, shardings, aliases.
/// Names are the slowest part; a parser, whose names are checked as they come, leaves them out.
void verify_structure(const Module& module, bool names = true);

}  // namespace tessera::ir
