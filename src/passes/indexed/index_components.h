// SPDX-License-Identifier: Apache-2.0
// The components of index vectors of gathers and scatters: the numbers that they are made of.
#pragma once

#include <cstdint>

#include "src/ir/analysis/indexed_dims.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::passes {

/// Component k of each index vector, an array of the batch's dims. Where vectors were put together
/// of several arrays it is taken from where it comes from.
ir::Instruction* index_component(ir::Builder& b, ir::Instruction* indices,
                                 const ir::IndexedDims& dims, std::int64_t k);

/// Where windows start that may start at 0 to `last`: s32.
ir::Instruction* inside_start(ir::Builder& b, ir::Instruction* n, std::int64_t last);

/// n * stride, of s32.
ir::Instruction* times(ir::Builder& b, ir::Instruction* n, std::int64_t stride);

/// *sum + n; n alone if there is no sum yet.
void add_to(ir::Builder& b, ir::Instruction** sum, ir::Instruction* n);

/// Adds where windows begin in the dims that go along with the batch's, an array of the batch's
/// dims. `strides`: of the array's dims, of which so many elements, `unit`, count as one.
void add_batching(ir::Builder& b, const ir::IndexedDims& dims, const Dims& strides,
                  std::int64_t unit, ir::Instruction** sum);

/// pred: 0 <= n < size. Null if all numbers of its type are.
ir::Instruction* is_inside(ir::Builder& b, ir::Instruction* n, std::int64_t size);

}  // namespace tessera::passes
