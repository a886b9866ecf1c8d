// SPDX-License-Identifier: Apache-2.0
// Literals as HLO text: {{1, 2}, {3, 4}}, (1, {2, 3}), nan(0x7fc123).
#pragma once

#include <string>

#include "src/base/arrays/literal.h"

namespace tessera::ir {

/// Numbers in the shortest form that reads back to the same bits.
void append_literal(std::string& out, const Literal& literal);

}  // namespace tessera::ir
