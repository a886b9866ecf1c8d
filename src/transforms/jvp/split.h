// SPDX-License-Identifier: Apache-2.0
// A computation with results and tangents, cut where the tangents begin.
#pragma once

#include <vector>

#include "src/transforms/jvp/jvp.h"

namespace tessera::transforms {

/// The derivative of a computation as a computation of its own.
struct Derivative {
  /// Has one parameter per argument in `arguments`, and one per tangent that may differ from zero
  /// in `tangent_arguments` (null for others), numbered as the caller asked.
  ir::Computation* computation = nullptr;
  std::vector<ir::Instruction*> arguments, tangent_arguments;
  std::vector<ir::Instruction*> results;   ///< leaves of what the source gives
  std::vector<ir::Instruction*> tangents;  ///< of each; null for those known to be zero
};

/// `source` has parameters that are arrays, in groups of these sizes (of a scan: inputs, carries,
/// constants). The parameters of each group are followed by the tangents of those of them that
/// `perturbed` names. The root is left open.
Derivative differentiate(const ir::Computation& source, const std::vector<std::size_t>& groups,
                         const std::vector<bool>& perturbed, JvpMode mode);

/// What the linear part of a derivative needs of the other part.
struct Residuals {
  /// Instructions of the derivative's computation; parameters among them.
  std::vector<ir::Instruction*> values;
};
/// Chooses them: what depends on no parameter, and what is cheap to compute again of other
/// residuals, is left out; `bytes` of what parameter k costs to keep (0: it is there anyhow).
Residuals choose_residuals(const Derivative& d, const std::vector<std::int64_t>& bytes);

/// What happens in the other part besides what it gives: calls with side effects, in order.
std::vector<ir::Instruction*> effects_of(const Derivative& d);

/// Copies the linear part into the target: the tangents of the results for these residuals and
/// tangents of the arguments.
std::vector<ir::Instruction*> linear_part(const Derivative& d, const Residuals& residuals,
                                          std::span<ir::Instruction* const> residual_values,
                                          std::span<ir::Instruction* const> tangent_values,
                                          ir::Computation* target);

}  // namespace tessera::transforms
