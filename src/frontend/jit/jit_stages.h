// SPDX-License-Identifier: Apache-2.0
// The implementation of Lowered and Compiled.
#pragma once

#include <string>
#include <vector>

#include <tessera/jit.h>

#include "src/frontend/run/execute.h"

namespace tessera::internal {

/// The state of a Lowered.
struct LoweredState {
  std::vector<frontend::AbstractValue> avals;
  std::vector<std::string> names;  ///< one per leaf of the arguments: "argument 0.w1 of 'f'"
  std::vector<std::string> paths, result_paths;  ///< without the function
  std::string tree;                              ///< structure of the traced arguments
  std::string result_tree;
  std::vector<int> donate_argnums;
  TypeKey types;  ///< of the traced arguments and the result
  Prototype prototype;
  std::vector<Array> captures;
  frontend::PlacedProgram placed;
};

/// The state of a Compiled.
struct CompiledState {
  std::vector<frontend::AbstractValue> avals;
  std::vector<std::string> names;
  std::vector<std::string> paths, result_paths;
  std::string tree, result_tree;
  TypeKey types;  ///< of the traced arguments and the result
  Prototype prototype;
  std::vector<Array> captures;
  frontend::BoundProgram bound;
};

}  // namespace tessera::internal
