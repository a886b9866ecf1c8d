// SPDX-License-Identifier: Apache-2.0
// Scatters of one small window.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Scatters of one window of a few elements become updates of a slice, so that elementwise ops make
/// what they write, and a loop that has them needs no call:
///
///     x.at[i].add(v)  =>  dynamic-update-slice(x, i inside ? x[i] + v : x[i], i)
///
/// Returns how many.
std::size_t update_single_scatters(ir::Module* module);

}  // namespace tessera::passes
