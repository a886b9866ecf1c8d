// SPDX-License-Identifier: Apache-2.0
// What an op weighs when its layouts are compared.
#pragma once

#include "src/ir/module.h"

namespace tessera::spmd {

/// What an op weighs when its layouts are compared: flops where they are known well, and for the
/// others an estimate that is larger than the elements that it reads or makes, so that the search
/// shares out data movement, too, and leaves sorts, transforms and factorizations to few
/// devices only where that saves much.
double layout_work(const ir::Instruction& source);

}  // namespace tessera::spmd
