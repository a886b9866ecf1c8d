// SPDX-License-Identifier: Apache-2.0
// What the kernels of a device program read, write and compute, as far as that can be told without
// planning them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "src/cost/machine.h"
#include "src/ir/module.h"

namespace tessera::cost {

/// Of one computation. Elementwise work is part of the kernels that read it, if only such do; names
/// of arrays are none.
class Kernels {
 public:
  Kernels(const ir::Computation& computation, std::int64_t devices);

  /// Whether an instruction ends a kernel of its own.
  bool ends(const ir::Instruction& instruction) const;
  /// Bytes read and written by the kernel that an instruction ends.
  double traffic(const ir::Instruction& instruction) const;
  /// Of that kernel, with what is made on the way.
  double flops(const ir::Instruction& instruction) const;
  /// The longer of its arithmetic and its traffic: the roofline model.
  double seconds(const ir::Instruction& instruction, const Machine& machine) const;

 private:
  struct Inputs {
    std::set<std::int64_t> made;
    std::map<std::int64_t, double> read;  ///< bytes, by index
  };
  void add_inputs(const ir::Instruction& instruction, Inputs* inputs) const;

  const ir::Computation& computation_;
  std::int64_t devices_;
  std::vector<bool> made_on_the_way_;
};

}  // namespace tessera::cost
