// SPDX-License-Identifier: Apache-2.0
// The cheapest sequence of collectives between two shardings of one array.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/sharding/tensor_sharding.h"
#include "src/spmd/cost.h"

namespace tessera::spmd {

struct ReshardStep {
  enum class Kind : std::uint8_t {
    slice,           ///< each device keeps a part of dim `dim`: axes appended there; free.
                     ///< dim = -1: no dim changes; `axes` become unreduced, devices whose
                     ///< coordinate along them is not 0 replace their value by zeros
    all_gather,      ///< the minor-most `axes` of `dim` are gathered
    all_to_all,      ///< the minor-most `axes` of `dim` move to the minor end of `to_dim`
    permute,         ///< shards change owners, shapes stay: from `before` to `after`
    all_reduce,      ///< `axes` leave the unreduced set
    reduce_scatter,  ///< `axes` leave the unreduced set and are appended to `dim`
  };
  Kind kind = Kind::slice;
  int dim = 0;  ///< -1 where none is meant
  int to_dim = 0;
  std::vector<int> axes;  ///< major to minor
  TensorSharding after;   ///< the sharding once the step is done
  /// Global dims with the padding that the shards have once the step is done; see padded_dims.
  Dims padded;
};

struct ReshardPlan {
  std::vector<ReshardStep> steps;
  double bytes_received = 0;  ///< by the busiest device
  int collectives = 0;
  std::int64_t peak_bytes = 0;  ///< largest source + target of a step, see plan_reshard
  double cost = 0;
  /// Some step leaves a device with all of the array although neither end is replicated.
  bool full_gather = false;
};

/// Both shardings are on one mesh (the same LogicalMesh, refined alike) and closed. `dims` may be
/// uneven: shards are padded to ceil(dim / ways). `unreduced` of `from` may shrink, never grow,
/// except that a replicated value becomes unreduced by `slice`-like masking (free).
///
/// Memory: no step holds more than the source and the target shard together, if any sequence of
/// steps can do with that; the cheapest such sequence is taken. all_gathers of several dims in a
/// row count as one step there, as do slices in a row; a reduction counts its operand only.
///
/// Axes of size 1 move nothing: the last step's sharding is `to` but for those.
///
/// Uneven dims. A dim of size d split n ways (n > 1) is stored as n equal blocks of the dim padded
/// at its end to `padded` = a multiple of n; an unsplit dim is stored unpadded. Each step's blocks
/// nest in those before it, since `padded` of a dim changes only where the dim is whole on each
/// device. So a step is carried out as follows, with `before` the padded dims of the step before
/// (padded_dims(from) for the first):
///  - a dim that is unsplit before and split after is first padded at its end from d to `padded`;
///  - slice, all_gather, all_to_all, reduce_scatter then cut or join equal blocks, exactly;
///  - a dim that is split before and unsplit after is last cut at its end to d.
/// Sizes of shards between are padded[i] / after.shards(i).
ReshardPlan plan_reshard(const TensorSharding& from, const TensorSharding& to, const Dims& dims,
                         std::int64_t element_bytes, const CostModel& model = {});

/// Only the price, cached per thread by (shardings, dims, element bytes).
double reshard_cost(const TensorSharding& from, const TensorSharding& to, const Dims& dims,
                    std::int64_t element_bytes, const CostModel& model = {});

/// A price that no plan is below, without a search.
double reshard_lower_bound(const TensorSharding& from, const TensorSharding& to, const Dims& dims,
                           std::int64_t element_bytes, const CostModel& model = {});

/// The dims as stored by a value of that sharding: ceil(dim / ways) * ways.
Dims padded_dims(const TensorSharding& sharding, const Dims& dims);

/// (source, target) logical devices of a permute step; devices that keep their shard are included.
/// Each device stands once on either side.
std::vector<std::pair<std::int64_t, std::int64_t>> permute_pairs(const TensorSharding& before,
                                                                 const TensorSharding& after);

}  // namespace tessera::spmd
