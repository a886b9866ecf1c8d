// SPDX-License-Identifier: Apache-2.0
// The reference interpreter: slow and plain, the meaning of every op.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "src/base/arrays/literal.h"
#include "src/ir/module.h"

namespace tessera::evaluator {

/// Runs the entry on one device. Tuple results come back as a tuple literal.
Literal evaluate(const ir::Module& module, std::span<const Literal> arguments);
/// Runs any computation without collectives (constant folding, reducers).
Literal evaluate(const ir::Computation& computation, std::span<const Literal> arguments);

/// Evaluates one instruction without callees' state: operands given as literals.
Literal evaluate_instruction(const ir::Instruction& instruction, std::span<const Literal> operands);

/// Runs the programs of all devices side by side, nothing shared: `arguments[device]`. Partition p
/// of replica r is device r * num_partitions + p. Devices may take different branches and leave
/// loops at different trips; a collective of which only a part of a group takes part is a
/// RuntimeError that names both places.
std::vector<Literal> evaluate_spmd(const ir::Module& module,
                                   std::span<const std::vector<Literal>> arguments);

/// One custom call made ready: computes its result.
using CallFunction = std::function<Literal(std::span<const Literal* const> operands)>;
/// How calls of targets that stand for no program are made ready. Who has kernels for them says it;
/// before, they are NotImplementedErrors.
void set_custom_calls(CallFunction (*prepare)(const ir::Instruction& call));

}  // namespace tessera::evaluator
