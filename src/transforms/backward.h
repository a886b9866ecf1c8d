// SPDX-License-Identifier: Apache-2.0
// Reverse mode through one computation.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "src/ir/cloner.h"
#include "src/transforms/jvp/split.h"
#include "src/transforms/transpose/varying_types.h"

namespace tessera::transforms {

/// Over which axes each residual of the derivative of that source varies. Sets the root.
std::vector<ir::VaryingAxes> types_of(const Derivative& d, const Residuals& residuals,
                                      const CodePerDevice& source);

/// What a computation gives, and cotangents of its arguments.
struct Reverse {
  std::vector<ir::Instruction*> results;     ///< the leaves
  std::vector<ir::Instruction*> cotangents;  ///< one per argument; null where none is asked of
};

/// Reverse mode, appended to what `b` builds, in the module of `source`: for cotangents of the
/// leaves of the results, null for zero, those of its arguments. `source` has parameters that are
/// arrays; `perturbed`: those of which cotangents are asked. `per_device`: the types of its
/// parameters and results, if it is code per device.
Reverse reverse_mode(const ir::Computation& source, const std::vector<bool>& perturbed,
                     ir::Builder& b, std::span<ir::Instruction* const> arguments,
                     std::span<ir::Instruction* const> of_results,
                     std::optional<CodePerDevice> per_device = {});

/// The same for the cotangent 1 of the first result, and none of others: its gradient.
Reverse value_and_gradient(const ir::Computation& source, const std::vector<bool>& perturbed,
                           ir::Builder& b, std::span<ir::Instruction* const> arguments,
                           std::optional<CodePerDevice> per_device = {});

}  // namespace tessera::transforms
