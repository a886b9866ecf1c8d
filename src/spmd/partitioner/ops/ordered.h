// SPDX-License-Identifier: Apache-2.0
// What the ops share whose elements along a dim depend on each other: sorts, the k greatest,
// prefix scans, reductions by any reducer.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "src/spmd/partitioner/context.h"

namespace tessera::spmd {

// top_k.cc
/// What comes last of all by value, the greatest or the least first: floats are in their total
/// order, NaNs included.
ir::Instruction* last_of_all(PartitionContext& p, DType dtype, bool largest);
/// The cost of a layout where operands come from whichever layout others need them in, too.
double price_of(PartitionContext& p, const ir::Instruction& source, const ComputeLayout& layout);
/// How a step within an op is computed that needs all of these dims, and whose arrays correspond in
/// the others.
ComputeLayout layout_of_step(const PartitionContext& p, const Dims& dims,
                             const std::vector<Shape>& in, const std::vector<TensorSharding>& from,
                             const std::vector<Shape>& out, const std::vector<TensorSharding>& to);

// associative_reduce.cc
/// The reducer of `source` on elements that may be absent: takes and gives a pred besides, and
/// absent is neutral, whatever else the reducer's neutral element may be.
ir::Computation* flagged(PartitionContext& p, const ir::Instruction& source);
/// Reduces dim 0 of these parts to a (tuple of a) local shape, of which further leaves are ignored.
using PartReducer =
    std::function<ir::Instruction*(const std::vector<ir::Instruction*>&, const Shape&)>;
/// One partial result per device of `axes`, reduced where that is cheapest. `layout`: of the
/// partial results.
std::vector<Value*> reduce_parts(PartitionContext& p, const ir::Instruction& source,
                                 const std::vector<ir::Instruction*>& partial,
                                 const std::vector<TensorSharding>& layout, const IndexList& axes,
                                 const PartReducer& reduce);

// prefix_scan.cc
/// The dim along which a reduce-window reduces all elements up to its own (or from its own on) and
/// which the layout splits, if it is such.
std::optional<std::int64_t> scan_dim(const ir::Instruction& source, const TensorSharding& s);
std::vector<ir::Instruction*> prefix_scan(PartitionContext& p, const ir::Instruction& source,
                                          const std::vector<Value*>& values, std::int64_t dim);

}  // namespace tessera::spmd
