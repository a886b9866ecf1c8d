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

}  // namespace tessera::codegen
