// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/ir/module.h"

namespace tessera::ir {

/// A second computation of the same module; unlike Module::import's, it calls what the first does.
Computation* copy_sharing_callees(const Computation& source);

}  // namespace tessera::ir
