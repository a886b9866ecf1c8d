// SPDX-License-Identifier: Apache-2.0
// The parser of constants.
#pragma once

#include "src/base/arrays/literal.h"
#include "src/ir/hlo/hlo_lexer.h"

namespace tessera::ir {

/// Reads a literal of that shape. `{...}` sets `elided` and gives an empty literal.
Literal parse_literal(HloLexer& in, const Shape& shape, bool* elided);

}  // namespace tessera::ir
