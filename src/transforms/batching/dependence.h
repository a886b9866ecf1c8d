// SPDX-License-Identifier: Apache-2.0
// Which values depend on the batch, found before anything is made: loops need to know.
#pragma once

#include <map>
#include <string>
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
  /// `axis_name`: of the batch (BatchOptions).
  explicit Dependence(std::string axis_name) : axis_name_(std::move(axis_name)) {}

  /// Whether an op is a collective over the batch, or calls a computation with one.
  bool names_batch(const ir::Instruction& i);
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

  const std::string axis_name_;
  std::map<const ir::Computation*, bool> naming_;
  std::map<std::pair<const ir::Computation*, Flags>, Flags> known_;
};

/// Flags of the leaves of `shape`, tokens apart, which never depend on anything.
Flags all_leaves(const Shape& shape, bool flag);

/// The batch between whose entries a collective is; null: it is none, or between devices.
const ir::BatchAxis* batch_axis_of(const ir::Instruction& i);

}  // namespace tessera::transforms::batching
