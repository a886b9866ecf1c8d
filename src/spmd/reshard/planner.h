// SPDX-License-Identifier: Apache-2.0
// The cheapest sequence of collectives between two shardings of one array.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/sharding/tensor_sharding.h"
#include "src/spmd/cost.h"

namespace tessera::spmd {

struct ReshardStep {
  enum class Kind : std::uint8_t {
    slice,           ///< each device keeps a part of dim `dim`: axes appended there; free
    all_gather,      ///< the minor-most `axes` of `dim` are gathered
    all_to_all,      ///< the minor-most `axes` of `dim` move to the minor end of `to_dim`
    permute,         ///< shards change owners, shapes stay: from `before` to `after`
    all_reduce,      ///< `axes` leave the unreduced set
    reduce_scatter,  ///< `axes` leave the unreduced set and are appended to `dim`
  };
  Kind kind = Kind::slice;
  int dim = 0;
  int to_dim = 0;
  std::vector<int> axes;  ///< major to minor
  TensorSharding after;   ///< the sharding once the step is done
};

struct ReshardPlan {
  std::vector<ReshardStep> steps;
  double bytes_received = 0;  ///< by the busiest device
  int collectives = 0;
  std::int64_t peak_bytes = 0;  ///< largest source + target of a step
  double cost = 0;
  /// Some step leaves a device with all of the array although neither end is replicated.
  bool full_gather = false;
};

/// Both shardings are on one mesh (the same LogicalMesh, refined alike) and closed. `dims` may be
/// uneven: shards are padded to ceil(dim / ways). `unreduced` of `from` may shrink, never grow,
/// except that a replicated value becomes unreduced by `slice`-like masking (free).
ReshardPlan plan_reshard(const TensorSharding& from, const TensorSharding& to, const Dims& dims,
                         std::int64_t element_bytes, const CostModel& model = {});

/// Only the price, cached per thread by (shardings, dims, element bytes).
double reshard_cost(const TensorSharding& from, const TensorSharding& to, const Dims& dims,
                    std::int64_t element_bytes, const CostModel& model = {});

/// (source, target) logical devices of a permute step; devices that keep their shard are included.
std::vector<std::pair<std::int64_t, std::int64_t>> permute_pairs(const TensorSharding& before,
                                                                 const TensorSharding& after);

}  // namespace tessera::spmd
