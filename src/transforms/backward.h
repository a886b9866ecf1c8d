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

/// The results of a computation and, for cotangents of these, those of its arguments, appended to
/// another computation of the module.
///
///     Backward back(loss, {true, false}, target);
///     results = back.results({w, x});
///     gradients = back.cotangents({one});     // {gradient by w, null}
class Backward {
 public:
  /// `source` has parameters that are arrays; `perturbed`: those that cotangents are asked of.
  /// `per_device`: the types of its parameters and results, if it is code per device.
  Backward(const ir::Computation& source, const std::vector<bool>& perturbed,
           ir::Computation* target, std::optional<CodePerDevice> per_device = {});

  /// The leaves of what the source gives for these arguments. To be called first.
  std::vector<ir::Instruction*> results(std::span<ir::Instruction* const> arguments);
  /// One cotangent per leaf of the results, null for zero; gives one per argument, null for zero.
  /// To be called once.
  std::vector<ir::Instruction*> cotangents(std::span<ir::Instruction* const> of_results);

 private:
  std::vector<ir::Instruction*> cotangents_per_device(std::span<ir::Instruction* const> of_results);

  ir::Computation* target_;
  std::optional<CodePerDevice> per_device_;
  Derivative d_;
  ir::Cloner cloner_;
};

}  // namespace tessera::transforms
