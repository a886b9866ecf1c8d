// SPDX-License-Identifier: Apache-2.0
// Products with truth values are choices.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Makes `x * convert(p)`, of a predicate, a select of x or zero, as XLA does: programs that were
/// written for it have 0 where x is an infinity or NaN and p is false, and no zero is negative
/// there. Returns how many.
std::size_t select_by_predicates(ir::Module* module);

}  // namespace tessera::passes
