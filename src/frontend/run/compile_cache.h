// SPDX-License-Identifier: Apache-2.0
// The cache of executables by program text: each program is compiled once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/compiler/engine.h"

namespace tessera::frontend {

/// Threads that request a program that another thread compiles wait for it. `runs`: false for
/// programs that are only inspected. `budget`: of memory, and the network: empty are
/// those of the environment. `process_of`: as in compiler::Options.
std::shared_ptr<const compiler::Executable> compile_cached(const compiler::Engine& engine,
                                                           std::unique_ptr<ir::Module> module,
                                                           bool runs, Layouts layouts,
                                                           std::optional<std::int64_t> budget,
                                                           const std::optional<Network>& network,
                                                           std::vector<std::int32_t> process_of);

}  // namespace tessera::frontend
