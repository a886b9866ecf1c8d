// SPDX-License-Identifier: Apache-2.0
// Reductions.
#pragma once

#include <memory>
#include <vector>

#include "src/codegen/kernels/expressions/loop_expr.h"
#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// A reduction of [a, reduced, b] to [a, b].
struct ReduceShape {
  std::int64_t a = 1, reduced = 1, b = 1;
};
struct ReducePlan {
  /// Order of dims that the kernel needs first; empty: as it stands.
  Dims transpose;
  KernelDescriptor kernel;
};

/// An array to be reduced: one input, or what a program of one output makes of several.
struct ReduceOperand {
  int first_input = 0;
  std::shared_ptr<const LoopExpr> program;
};

/// Inputs: the arrays after their transposes, then the initial values. Empty kernel if the reducer
/// has no block functions. If the kernel shares its outputs, its units are planes [reduced, b].
ReducePlan reduce_kernel(const ir::Instruction& reduce);
/// The same for other numbers of inputs: the initial values begin at `first_init`. With programs
/// only if reduce_takes_programs.
ReducePlan reduce_kernel(const ir::Instruction& reduce, const std::vector<ReduceOperand>& operands,
                         int first_init);
/// Order of dims that the kernel needs first, if there is a kernel; empty: as it stands.
Dims reduce_order(const ir::Instruction& reduce);
/// Whether arrays may be made while they are reduced.
bool reduce_takes_programs(const ir::Instruction& reduce);
/// Inputs: as many arrays as the mapped computation has parameters.
KernelDescriptor map_kernel(const ir::Instruction& map);

}  // namespace tessera::codegen
