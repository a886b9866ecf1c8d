// SPDX-License-Identifier: Apache-2.0
// Quotients of dots instead of dots of quotients.
// Also called: sinking.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// A softmax that only dots read is exponentials over the sums of their rows. Where the result of a
/// dot, or its other side, has those rows and is smaller, that is divided instead, and the
/// quotients are never made. Returns how many quotients went.
///
///     dot(e / broadcast(t), v) = dot(e, v) / broadcast(t)
std::size_t sink_divisions(ir::Module* module);

}  // namespace tessera::passes
