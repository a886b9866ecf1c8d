// SPDX-License-Identifier: Apache-2.0
// A program for arrays that come from and go to files: the values of arrays, not parts on devices.
#pragma once

#include "src/ir/module.h"

namespace tessera::ir {

/// An argument that the program says is unreduced is an array that becomes a partial value within
/// the program; such a result is completed. Tokens are no arguments or results any more.
void take_whole_arrays(Module* module);

}  // namespace tessera::ir
