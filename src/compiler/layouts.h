// SPDX-License-Identifier: Apache-2.0
// Which policy of layouts a program is compiled with.
#pragma once

#include <tessera/layouts.h>

#include <optional>

namespace tessera::compiler {

/// What was requested; else what TESSERA_LAYOUTS says, else `solved`.
/// @throws ValueError for another value of the variable, and for one of no name.
Layouts choose_layouts(const std::optional<Layouts>& requested);

}  // namespace tessera::compiler
