// SPDX-License-Identifier: Apache-2.0
// Targets that stand for a program of the IR: what they share, and where they are.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::ir {

using NamedTargets = std::vector<std::pair<std::string, std::shared_ptr<const CustomCallTarget>>>;

/// ShapeError that names the call, its target and its types.
[[noreturn]] void misfit(const Instruction& call, const std::string& what);
/// Builds a body; its parameters are the call's operands.
Builder body_builder(Module* module, const Instruction& call,
                     std::vector<Instruction*>* parameters);

/// linear_algebra.cc: factors of matrices that XLA's library calls by name.
void add_linear_algebra_calls(NamedTargets* out);
/// quantization.cc: mhlo's operations on quantized tensors, which HLO has as calls.
void add_quantization_calls(NamedTargets* out);

}  // namespace tessera::ir
