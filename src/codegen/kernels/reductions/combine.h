// SPDX-License-Identifier: Apache-2.0
// Functions that combine arrays element by element, as collectives and scatters do.
#pragma once

#include <functional>
#include <string>

#include "src/codegen/kernels/elementwise/block_ops.h"
#include "src/ir/module.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

/// Of a combining function, as KernelDescriptor of a kernel.
struct CombineDescriptor {
  std::string key;
  std::function<runtime::Combiner()> make;

  explicit operator bool() const { return make != nullptr; }
};
/// into = reducer(into, value), element by element. Empty if there are no block functions for it.
CombineDescriptor combine_function(const ir::Computation& reducer);

/// The op of a reducer that combines two scalars of that type by one block function; else null.
BlockFunction single_op(const ir::Computation& reducer, DType held);
/// What sums of that type are held as.
DType held_type(DType t);

}  // namespace tessera::codegen
