// SPDX-License-Identifier: Apache-2.0
// Forward-mode derivatives: what a computation computes, with the tangents of its results.
#pragma once

#include <span>

#include "src/transforms/utils/tangent.h"

namespace tessera::transforms {

/// What becomes of loops, branches and other ops that run computations.
enum class JvpMode {
  /// One op computes results and tangents: nothing is kept for later.
  joint,
  /// One op computes the results, and what their derivative needs of them (the residuals); a second
  /// one, linear in the tangents, computes tangents of residuals and tangents. So all that depends
  /// on a tangent is linear in the tangents, and can be transposed.
  split,
};

/// A value and its tangent.
struct Dual {
  ir::Instruction* primal = nullptr;
  Tangent tangent;
};

/// Appends to `target`, of the same module, what `source` computes of these arguments, and its
/// derivative in the direction of their tangents. Calls are put in place if anything that they are
/// given has a tangent.
///
///     source: x -> sine(x)        =>      sine(x), multiply(cosine(x), dx)
///
/// NotImplementedError, with the op and its place, where an op that is reached by a tangent has no
/// derivative.
///
/// After Bradbury et al., "JAX: composable transformations" (jvp and linearize) and Radul et al.,
/// "You only linearize once", https://arxiv.org/abs/2204.10923.
Dual jvp(const ir::Computation& source, ir::Computation* target,
         std::span<ir::Instruction* const> arguments, std::span<const Tangent> tangents,
         JvpMode mode);

}  // namespace tessera::transforms
