// SPDX-License-Identifier: Apache-2.0
// The kernel of a custom call, and of ops that are computed by one.
#pragma once

#include "src/codegen/kernels/kernel_choice.h"
#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// Computes the call on buffers; batches run in parallel. Inputs and outputs are the leaves of its
/// operands and result. The key is left to whoever knows the call's program. An unknown target is a
/// NotImplementedError.
KernelDescriptor call_kernel(const ir::Instruction& call);

/// Whether the op is cholesky or triangular-solve, of an element type that LAPACK has.
bool has_solver_kernel(const ir::Instruction& op);
/// Computes such an op by its LAPACK routine.
KernelDescriptor solver_kernel(const ir::Instruction& op);

/// Of an op that no other family of kernels has taken: a custom call's, a solver's, or the
/// evaluator's. `copy`: its own, which the kernel may keep.
KernelDescriptor library_kernel(const ir::Instruction& op,
                                const std::shared_ptr<const ir::Instruction>& copy);
KernelFamily library_family();

}  // namespace tessera::codegen
