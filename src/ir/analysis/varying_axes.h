// SPDX-License-Identifier: Apache-2.0
// Code per device: over which mesh axes the devices' values of one value may differ.
#pragma once

#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/ir/module.h"

namespace tessera::ir {

/// Names of mesh axes; devices that differ in their position along others alone hold equal values.
using VaryingAxes = std::set<std::string>;
inline void add_axes(VaryingAxes* to, const VaryingAxes& more) {
  to->insert(more.begin(), more.end());
}

/// Of the result of an op that runs no other part of the program, by its operands': all of theirs,
/// less those over which it sums or gathers, and those over which it moves values. `mesh` is that
/// of the program, `manual` names the axes along which the code is per device.
VaryingAxes varying_axes(const Instruction& op, std::span<const VaryingAxes* const> operands,
                         const LogicalMesh& mesh, const VaryingAxes& manual);

/// Those of all values of a manual computation's body and of what the body calls.
class VaryingAnalysis {
 public:
  /// From the computation's in_shardings. `around`: of the operands, and `outer` the axes that are
  /// manual, in the manual computation that it is part of.
  explicit VaryingAnalysis(const Instruction& manual_computation, const VaryingAxes& outer = {},
                           const std::vector<VaryingAxes>& around = {});

  /// One for each leaf of the value's shape. A computation that is called several times has the
  /// union over its calls.
  const std::vector<VaryingAxes>& operator[](const Instruction* value) const {
    return values_.at(value);
  }
  /// Of the body's results.
  const std::vector<VaryingAxes>& results() const { return results_; }

 private:
  using Leaves = std::vector<VaryingAxes>;
  Leaves run(const Computation& c, const std::vector<Leaves>& arguments);
  Leaves visit(const Instruction& i);
  Leaves loop(const Instruction& i, Leaves carried);
  Leaves scan(const Instruction& i);
  /// Joins what is known of a value with more of it; true if that says something new.
  void keep(const Instruction& i, const Leaves& leaves);

  MeshRef mesh_;
  VaryingAxes manual_;
  std::unordered_map<const Instruction*, Leaves> values_;
  Leaves results_;
};

}  // namespace tessera::ir
