// SPDX-License-Identifier: Apache-2.0
// Convolutions that are dots.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Convolutions whose filter stands by output features, as PyTorch's do, become dots that take it
/// as it stands: those by one position, those whose windows lie side by side, and those of so few
/// results that it costs less to write what each sees than to put the filter in the order that
/// convolutions take. Returns how many.
std::size_t convolutions_as_dots(ir::Module* module);

}  // namespace tessera::passes
