// SPDX-License-Identifier: Apache-2.0
// What the ops share that move rows along dims: slice, pad, reverse, concatenate. Along dims that
// they change, a split dim keeps its axes and only the rows that change owners travel; or the axes
// go to another dim before; or, for small slices, the owners' rows are summed with everybody else's
// zeros. The cheapest is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "src/spmd/partitioner/context.h"

namespace tessera::spmd {

/// What a shard becomes before its rows are sent on, and where these are in the result then.
struct Placed {
  RowSource part;
  ByCoordinate skip;  ///< slices with strides: first row to take
};

/// An array whose rows go into the result. Parts of a concatenation may be slices of one array.
struct RowOrigin {
  Value* value = nullptr;
  std::size_t array = 0;  ///< among the distinct ones
  std::int64_t first = 0, count = 0, offset = 0;
};

/// A way to compute: one sharding for the result and all operands, along all dims.
struct RowMove {
  TensorSharding layout;
  /// Operands of a concatenation that are unsplit along the changed dim.
  std::vector<char> everywhere;
  /// Changed dims over whose axes the result is summed: of what each device puts into zeros.
  Dims summed;
  /// In bytes-equivalents; of it, to bring the operands there.
  double price = 0, operands_price = 0;
};

/// Where the rows of a shard belong.
using Placer = std::function<Placed(const RowOrigin& source, std::int64_t dim, std::int64_t ways,
                                    bool everywhere)>;

/// An op that moves rows.
struct RowOp {
  const ir::Instruction& source;
  std::vector<RowOrigin> from;
  Dims changed;  ///< dims
  Placer placer;
  bool may_sum = false;
};

RowExchangePlan route_for(const RowOp& op, const RowMove& c, std::int64_t dim,
                          PlanFor what = PlanFor::moves);
/// The layout of one of the distinct arrays.
TensorSharding array_layout(const RowOp& op, const RowMove& c, std::size_t array);
/// Of the result, where it is summed.
TensorSharding summed_layout(const RowMove& c);
RowMove cheapest_move(PartitionContext& p, const RowOp& op, const TensorSharding& requested);
/// In the device stage: the way that was planned, of an op that isn't summed.
RowMove planned_move(PartitionContext& p, const RowOp& op);
/// The rows of local arrays where they belong along one dim. `fill`: a scalar for those that none
/// has, null if there are none such.
ir::Instruction* exchanged(PartitionContext& p, const RowOp& op, const RowMove& c, std::int64_t dim,
                           const std::vector<ir::Instruction*>& arrays, ir::Instruction* fill);
ReshardReason rows_of(const ir::Instruction& source, const TensorSharding& layout);

}  // namespace tessera::spmd
