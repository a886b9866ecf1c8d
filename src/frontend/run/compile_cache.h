// SPDX-License-Identifier: Apache-2.0
// The cache of executables by program text: each program is compiled once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/compiler/engine.h"

namespace tessera::frontend {

/// Threads that request a program that another thread compiles wait for it. `runs`: false for
/// programs that are only inspected. `process_of`: as in compiler::Options. `device_ids`: of the
/// devices in order, for engines that compile for certain devices.
std::shared_ptr<const compiler::Executable> compile_cached(const compiler::Engine& engine,
                                                           std::unique_ptr<ir::Module> module,
                                                           bool runs,
                                                           const compiler::Requests& requests,
                                                           std::vector<std::int32_t> process_of,
                                                           std::vector<std::int64_t> device_ids);

/// Whether a run of the program calls functions that aren't ours.
bool calls_out(const ir::Module& module);

}  // namespace tessera::frontend
