// SPDX-License-Identifier: Apache-2.0
// Which values depend on the batch, found before anything is made: loops need to know.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "src/ir/module.h"

namespace tessera::transforms::batching {

/// One flag per leaf of a value, or of several values in order.
using Flags = std::vector<bool>;

/// Tells which leaves of a computation's root may differ between entries. Rules give no others
/// batched, but they may find out that fewer do.
class Dependence {
 public:
  /// Of the root, for these leaves of the parameters.
  Flags results(const ir::Computation& computation, const Flags& parameters);
  /// Of what a while carries, for these before the first trip. Where the condition depends on the
  /// batch, all that changes does.
  Flags carries(const ir::Instruction& loop, const Flags& init);
  /// Of the last carries of a scan, for these operands.
  Flags scan_carries(const ir::Instruction& scan, const Flags& operands);

 private:
  Flags of(const ir::Instruction& i, const std::vector<const Flags*>& operands);
  Flags of_conditional(const ir::Instruction& i, const std::vector<const Flags*>& operands);
  Flags of_scan(const ir::Instruction& i, const Flags& operands, Flags* carries);

  std::map<std::pair<const ir::Computation*, Flags>, Flags> known_;
};

/// Flags of the leaves of `shape`, tokens apart, which never depend on anything.
Flags all_leaves(const Shape& shape, bool flag);

}  // namespace tessera::transforms::batching
