// SPDX-License-Identifier: Apache-2.0
// Sorts, transforms, gathers and scatters.
#include "src/codegen/emitter.h"

namespace tessera::codegen {

bool emit_sort(Emitter&, const ir::Instruction&) { return false; }
bool emit_fft(Emitter&, const ir::Instruction&) { return false; }
bool emit_gather(Emitter&, const ir::Instruction&) { return false; }
bool emit_scatter(Emitter&, const ir::Instruction&) { return false; }

}  // namespace tessera::codegen
