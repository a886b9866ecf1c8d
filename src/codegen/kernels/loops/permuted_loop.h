// SPDX-License-Identifier: Apache-2.0
// The same elements in another order of dims.
#pragma once

#include <array>
#include <memory>

#include "src/codegen/kernels/expressions/loop_expr.h"

namespace tessera::codegen {

/// A program over elements [dims[0], dims[1], dims[2]] as one over its dims in the order `order`:
/// what it reads in sequence it then reads at strides. Null if a read has no strides in those dims.
std::shared_ptr<const LoopExpr> permuted_loop(const LoopExpr& program,
                                              const std::array<std::int64_t, 3>& dims,
                                              const std::array<int, 3>& order);

}  // namespace tessera::codegen
