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
  Dims skip;  ///< slices with strides: first row to take
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

RowExchangePlan route_for(const ir::Instruction& source, const RowMove& c, std::int64_t dim,
                          const Placer& placer, const std::vector<RowOrigin>& from, bool mirrored);
/// The layout of one of the distinct arrays.
TensorSharding array_layout(const RowMove& c, std::size_t array, const Dims& changed);
/// Of the result, where it is summed.
TensorSharding summed_layout(const RowMove& c);
/// The cheapest.
RowMove cheapest_move(PartitionContext& p, const ir::Instruction& source,
                      const TensorSharding& requested, const std::vector<RowOrigin>& from,
                      const Dims& changed, const Placer& placer, bool mirrored, bool may_sum);
ReshardReason rows_of(const ir::Instruction& source, const TensorSharding& layout);

}  // namespace tessera::spmd
