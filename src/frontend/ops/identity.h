// SPDX-License-Identifier: Apache-2.0
// What a reduction starts with.
#pragma once

#include <string>

#include <tessera/error.h>

#include "src/base/arrays/literal.h"
#include "src/ir/opcode.h"

namespace tessera::frontend {

/// The neutral element. DTypeError of `op` if the type has none: f8e8m0fnu has no zero.
Literal identity(ir::Opcode reducer, DType dtype, const std::string& op, Location location);

}  // namespace tessera::frontend
