// SPDX-License-Identifier: Apache-2.0
// The kernels of gather and scatter.
#pragma once

#include <memory>

#include "src/codegen/kernels/expressions/loop_expr.h"
#include "src/codegen/kernels/kernel_choice.h"
#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// Inputs: array, indices. Units are the index vectors.
KernelDescriptor gather_kernel(const ir::Instruction& gather);
KernelFamily gather_family();
/// The same as a source of elements, if each index vector gives one run of the array and of the
/// result; else empty.
SourceDescriptor gathered_rows(const ir::Instruction& gather);
/// The same with indices that `indices` computes a block at a time; its inputs follow the array.
/// Only if indices_in_order.
SourceDescriptor gathered_rows(const ir::Instruction& gather,
                               std::shared_ptr<const LoopExpr> indices);
/// Whether there are gathered_rows, and the index vectors are laid out one after the other as the
/// rows do.
bool indices_in_order(const ir::Instruction& gather);

}  // namespace tessera::codegen
