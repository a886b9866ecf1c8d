// SPDX-License-Identifier: Apache-2.0
// Executables by the text of their programs: each is compiled once.
#pragma once

#include <memory>

#include "src/compiler/engine.h"

namespace tessera::frontend {

/// Threads that ask for what another one compiles wait for it. `runs`: false for what is compiled
/// to be looked at.
std::shared_ptr<const compiler::Executable> compile_cached(const compiler::Engine& engine,
                                                           std::unique_ptr<ir::Module> module,
                                                           bool runs, Layouts layouts);

}  // namespace tessera::frontend
