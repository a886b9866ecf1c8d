// SPDX-License-Identifier: Apache-2.0
// In which layout each op of a computation is computed.
#pragma once

#include <optional>

#include "src/ir/module.h"
#include "src/spmd/partitioner/layout/layout_search.h"
#include "src/spmd/partitioner/values.h"
#include "src/spmd/rules/factor_rule.h"

namespace tessera::spmd {

class LayoutChooser {
 public:
  LayoutChooser(ModulePartitioner& module, const SourceComputation& source, Values& values)
      : module_(module), source_(source), values_(values) {}

  /// In the device stage: the layout that the op was planned in, if all of it shows in how its
  /// operands and results are laid out.
  std::optional<ComputeLayout> given(const ir::Instruction& source, const FactorRule& rule) const;
  /// The cheapest layout by a rule (which the caller may have restricted).
  ComputeLayout choose(const ir::Instruction& source, const FactorRule& rule);

 private:
  ModulePartitioner& module_;
  const SourceComputation& source_;
  Values& values_;
};

}  // namespace tessera::spmd
