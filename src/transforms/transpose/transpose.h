// SPDX-License-Identifier: Apache-2.0
// Transposes of linear computations: from cotangents of results to cotangents of arguments.
#pragma once

#include <span>
#include <vector>

#include "src/ir/cloner.h"
#include "src/transforms/utils/tangent.h"

namespace tessera::transforms {

/// Appends the transpose of `source` to the target of `cloner`, a cloner of `source` for which its
/// other parameters are mapped. `linear` says in which parameters it is linear, as jvp with
/// JvpMode::split makes it; `cotangent` is that of the root. Gives the cotangents of the linear
/// parameters, and zero for all others. What of `source` is not linear is copied as far as it is
/// needed, where it is needed first.
///
///     linear in b: multiply(sine(a), b)    =>    cotangent of b: multiply(ct, sine(a))
///
/// Products are transposed without conjugation, as JAX does.
std::vector<Tangent> transpose(const ir::Computation& source, const std::vector<bool>& linear,
                               const Tangent& cotangent, ir::Cloner& cloner,
                               ir::Computation* target);

}  // namespace tessera::transforms
