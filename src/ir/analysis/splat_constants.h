// SPDX-License-Identifier: Apache-2.0
// Arrays of which all elements are one constant.
#pragma once

#include "src/ir/module.h"

namespace tessera::ir {

/// The constant that all elements of an array are, or null.
const Literal* splat_constant(const Instruction& x);

/// Whether all elements are that number, which of zeros has its sign; never of truth values,
/// complex numbers and floats of a byte.
bool is_splat_of(const Instruction& x, double value);

}  // namespace tessera::ir
