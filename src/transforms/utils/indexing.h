// SPDX-License-Identifier: Apache-2.0
// What rules of gathers and scatters share: places inside and outside of an array.
#pragma once

#include "src/ir/analysis/indexed_dims.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::transforms {

/// The start indices of a gather, moved to where it reads: it moves windows that lie outside
/// inside, where a scatter leaves them out.
ir::Instruction* clamped_starts(ir::Builder& b, ir::Instruction* starts, const ir::GatherAttrs& a,
                                const Shape& operand);
/// pred like the updates of a scatter: whether it takes them, or leaves them out since they lie
/// outside of the operand.
ir::Instruction* updates_inside(ir::Builder& b, ir::Instruction* starts, const ir::ScatterAttrs& a,
                                const Shape& operand, const Shape& updates);
/// out[..., i, ...] = x[..., places[..., i, ...], ...] along dim; x and places have equal sizes in
/// all other dims.
ir::Instruction* take_along(ir::Builder& b, ir::Instruction* x, ir::Instruction* places,
                            std::int64_t dim);

}  // namespace tessera::transforms
