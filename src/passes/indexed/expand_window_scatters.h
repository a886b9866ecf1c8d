// SPDX-License-Identifier: Apache-2.0
// Scatters of one window that are elementwise.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Scatters of one window, a large part of its array, to a place that is known, or to every so many
/// elements become elementwise ops with the padded window. `always`: also those that write less
/// than such an op, which are computed where the array is, then; otherwise those of neighbours in
/// nearly all of the array, which are read as they are. Returns how many.
std::size_t expand_window_scatters(ir::Module* module, bool always);

}  // namespace tessera::passes
