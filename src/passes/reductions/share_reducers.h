// SPDX-License-Identifier: Apache-2.0
// Reducers that ops share.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Additions, maxima and the like that are written once for each op that reduces by them become one
/// computation each. Returns how many uses were redirected.
std::size_t share_reducers(ir::Module* module);

}  // namespace tessera::passes
