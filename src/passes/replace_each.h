// SPDX-License-Identifier: Apache-2.0
// A pass that puts another instruction in the place of some of one kind.
#pragma once

#include <cstddef>
#include <functional>

#include "src/ir/rewrite/builder.h"

namespace tessera::passes {

/// What takes an instruction's place, built with its metadata; null where it stays.
using Replacement = std::function<ir::Instruction*(const ir::Instruction&, ir::Builder&)>;

/// Which instructions are candidates, asked of all before the first is replaced.
using Candidate = std::function<bool(const ir::Instruction&)>;

/// Returns how many were replaced, in all computations; each replacement gets the sharding of what
/// it replaces.
std::size_t replace_each(ir::Module* module, const Candidate& candidate,
                         const Replacement& replacement);

/// The same for all instructions of one opcode.
std::size_t replace_each(ir::Module* module, ir::Opcode opcode, const Replacement& replacement);

}  // namespace tessera::passes
