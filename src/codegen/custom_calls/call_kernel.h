// SPDX-License-Identifier: Apache-2.0
// The kernel of a custom call.
#pragma once

#include "src/codegen/emitter.h"

namespace tessera::codegen {

/// A custom call that computes on buffers, as one kernel; batches run in parallel. An unknown
/// target is a NotImplementedError.
void emit_custom_call(Emitter& e, const ir::Instruction& i);

}  // namespace tessera::codegen
