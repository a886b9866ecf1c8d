// SPDX-License-Identifier: Apache-2.0
// Calls are replaced by what they call.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Puts the bodies of `call`, `fusion` and custom_partitioning calls in their callers' places, so
/// that the other passes see through them. In a program for one device, calls stay that the program
/// marks as not inlineable. Returns how many.
std::size_t inline_calls(ir::Module* module);
/// Puts the bodies of `call` and `fusion` in their callers' places, so that one call's shardings
/// don't bind another's: calls of one function would share theirs. Does nothing if that made more
/// than so many instructions. Calls stay that have shardings or arguments or results with some
/// (unless these are partial values, which calls don't pass on), that wait for other instructions,
/// or that the program marks as not inlineable. Returns how many.
std::size_t separate_calls(ir::Module* module, std::size_t max_instructions);
/// For how many instructions there is room in a program whose bodies are copied: three times what
/// there is, and more in a small one.
inline std::size_t room_for_copies(const ir::Module& module) {
  return 20000 + 2 * module.instruction_count();
}

}  // namespace tessera::passes
