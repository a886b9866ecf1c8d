// SPDX-License-Identifier: Apache-2.0
// Several processes in one: threads that are connected through memory, so that what crosses
// processes can be tested without a launcher.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/processes/transport.h"

namespace tessera::testing {

/// Connections between `count` processes, one for each.
std::vector<std::shared_ptr<Transport>> connect_in_memory(int count);

/// Runs `program(p)` on a thread of its own for each process p of `count`, with `devices` devices
/// each. Returns what each threw, "" if nothing.
std::vector<std::string> run_processes(
    int count, int devices, const std::function<void(int)>& program,
    std::chrono::milliseconds timeout = std::chrono::seconds(60));

}  // namespace tessera::testing
