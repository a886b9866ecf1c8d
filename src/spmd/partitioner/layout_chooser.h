// SPDX-License-Identifier: Apache-2.0
// In which layout each op of a computation is computed.
#pragma once

#include <vector>

#include "src/ir/module.h"
#include "src/spmd/factor_rule.h"
#include "src/spmd/partitioner/alternatives.h"
#include "src/spmd/partitioner/layout/layout_search.h"
#include "src/spmd/partitioner/values.h"

namespace tessera::spmd {

class LayoutChooser {
 public:
  LayoutChooser(ModulePartitioner& module, const SourceComputation& source, Values& values,
                AlternativeCollector& alternatives)
      : module_(module), source_(source), values_(values), alternatives_(alternatives) {}

  /// The cheapest layout by a rule (which the caller may have restricted).
  ComputeLayout choose(const ir::Instruction& source, const FactorRule& rule);

 private:
  /// What a byte of each operand counts that is moved for this op: less for what stays the same
  /// while the loop around runs, as it moves once (steady.cc). Empty: 1.
  std::vector<double> operand_shares(const ir::Instruction& source);

  ModulePartitioner& module_;
  const SourceComputation& source_;
  Values& values_;
  AlternativeCollector& alternatives_;
  std::vector<char> loop_invariant_;  ///< by index in the computation; empty: not found out yet
};

}  // namespace tessera::spmd
