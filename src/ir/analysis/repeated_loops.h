// SPDX-License-Identifier: Apache-2.0
// Loops that a pass may take things out of.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "src/ir/module.h"

namespace tessera::ir {

/// Those that run more than once, as far as one can tell, and whose bodies are their own.
class RepeatedLoops {
 public:
  explicit RepeatedLoops(const Module& module);
  std::vector<Instruction*> in(const Computation& computation) const;

 private:
  std::unordered_map<const Computation*, int> callers_;
  std::unordered_set<const Computation*> branches_;  ///< run in a branch
};

}  // namespace tessera::ir
