// SPDX-License-Identifier: Apache-2.0
// Scatters of one window that are elementwise.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Scatters of one window, a large part of its array, to a place that is known become elementwise
/// ops with the padded window. Returns how many.
std::size_t expand_window_scatters(ir::Module* module);

}  // namespace tessera::passes
