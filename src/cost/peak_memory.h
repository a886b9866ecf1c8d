// SPDX-License-Identifier: Apache-2.0
// An estimate of peak memory, without a plan.
//
// Until when values are needed, `ir/analysis/last_uses.h` says to all who ask. Bytes are counted
// here of an order of instructions, before it is known what fuses; in `codegen/plan/liveness.h` of
// a plan, as its executor holds them.
#pragma once

#include <functional>
#include <vector>

#include "src/ir/module.h"

namespace tessera::cost {

/// About the most bytes that are live on one device when the instructions run in the order that
/// stands, each array from where it is made to its last use. To compare two forms of a program.
double estimated_peak_bytes(const ir::Module& module);
/// The same where a device has so many bytes of an instruction's result.
double peak_bytes_where(const ir::Module& module,
                        const std::function<double(const ir::Instruction&)>& bytes_of);
/// The same of one computation, while each of its instructions runs.
std::vector<double> live_bytes(const ir::Computation& computation);
/// The instructions that run, or whose results are live, wherever more bytes than that are.
std::vector<const ir::Instruction*> live_above(
    const ir::Module& module, double bytes,
    const std::function<double(const ir::Instruction&)>& bytes_of);

}  // namespace tessera::cost
