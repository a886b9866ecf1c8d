// SPDX-License-Identifier: Apache-2.0
// What kept code depends on next to its source: the compiler that made it, and the machine.
#pragma once

#include <optional>
#include <string>

namespace tessera::codegen {

/// What tells this build of an ELF library from all others: the linker's build id, or if there is
/// none a hash of the file. Nothing if there is no such library.
std::optional<std::string> build_id(const std::string& file);

/// The processor and what it and the system offer of instructions and vectors.
std::string machine_identity();
/// As its maker calls it: "AMD EPYC 9B14". For messages.
std::string machine_name();
/// The level of the x86-64 ABI, 1 to 4, that the processor and the system have; 0: another kind.
int machine_level();

}  // namespace tessera::codegen
