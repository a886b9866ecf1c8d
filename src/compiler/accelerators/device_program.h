// SPDX-License-Identifier: Apache-2.0
// The form that plugins are given a device's program in.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/base/arrays/memory_kind.h"
#include "src/ir/module.h"

namespace tessera::compiler::accelerators {

/// Makes the partitions of a finished device program replicas: XLA runs those as they are, and
/// would partition a program of several partitions. Collectives join replicas, without channels.
void make_replicas(ir::Module* module);

/// A program's results; empty if its root is a tuple that isn't made by one.
std::vector<const ir::Instruction*> results_of(const ir::Computation& entry);
/// Where a result is left.
MemoryKind memory_of_result(const ir::Instruction& result);

/// Pairs each parameter that is given away with a result of its type in the same memory, as
/// aliases. Returns for each parameter whether it has one.
std::vector<bool> alias_donated(ir::Module* module);

/// NotImplementedError that names the op, its line and the platform if there is a custom call that
/// plugins don't know. `processes`: how many run the program.
void check_calls(const ir::Module& module, const std::string& platform, std::size_t processes);
/// The same of what waits for a host that nobody is: infeed, outfeed, send, recv.
void check_feeds(const ir::Module& module, const std::string& platform);

}  // namespace tessera::compiler::accelerators
