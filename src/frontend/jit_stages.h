// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <tessera/jit.h>

#include "src/frontend/execute.h"

namespace tessera::internal {

/// Behind Lowered.
struct LoweredState {
  std::vector<frontend::AbstractValue> avals;
  std::vector<std::string> names;  ///< of the leaves of the arguments
  std::string signature;
  std::vector<Array> captures;
  frontend::PlacedProgram placed;
};

/// Behind Compiled.
struct CompiledState {
  std::vector<frontend::AbstractValue> avals;
  std::vector<std::string> names;
  std::vector<Array> captures;
  frontend::BoundProgram bound;
};

}  // namespace tessera::internal
