// SPDX-License-Identifier: Apache-2.0
// The cheapest sequence of collectives between two shardings of one array.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/cost/machine.h"
#include "src/sharding/axes/tensor_sharding.h"
#include "src/spmd/bounded_cache.h"

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
    unshard,         ///< the minor-most `axes` of `dim` become unreduced: each device's rows stand
                     ///< in their place among neutral elements
  };
  Kind kind = Kind::slice;
  int dim = 0;  ///< -1 where none is meant
  int to_dim = 0;
  IndexList axes;        ///< major to minor
  TensorSharding after;  ///< the sharding once the step is done
  /// padded_dims of `after`.
  Dims padded;
};

struct ReshardPlan {
  std::vector<ReshardStep> steps;
  double bytes_received = 0;  ///< by the busiest device
  int collectives = 0;
  std::int64_t peak_bytes = 0;  ///< largest source + target of a step, see plan_reshard
  double cost = 0;              ///< seconds
  /// Some step leaves a device with all of the array although neither end is replicated.
  bool full_gather = false;
};

/// Both shardings are on one mesh (the same LogicalMesh, refined in the same way) and closed.
/// `dims` may be uneven: shards are padded to ceil(dim / ways). What is unreduced may
/// change in any way, as long as both ends are partial values of the same kind: by reductions, and
/// for free by masks (slice) and neutral elements (unshard).
///
/// Memory: no step needs more than the source and the target shard together, if any sequence of
/// steps can do with that; the cheapest such sequence is taken. all_gathers of several dims in a
/// row count as one step there, as do slices in a row; a reduction counts its operand only.
///
/// Axes of size 1 move nothing: the last step's sharding is `to` but for those.
///
/// Uneven dims. A dim of size d split n ways is stored as n equal blocks of ceil(d / n) rows, what
/// is beyond d being padding at the end (padded_dims). Where the blocks before and after a step
/// don't nest, some rows have to be moved along the dim besides: with k = the parts that the step
/// makes or joins,
///  - slice, reduce_scatter, and all_to_all on `to_dim`: first, so that each device has k blocks of
///    the new size;
///  - all_gather, and all_to_all on `dim`: last, from k joined blocks of the old size to one of the
///    new size.
/// A dim that is unsplit is only padded or cut at its end. What these moves receive is
/// part of the plan's figures, one permute for each distance that rows go.
ReshardPlan plan_reshard(const TensorSharding& from, const TensorSharding& to, const Dims& dims,
                         std::int64_t element_bytes,
                         const cost::Machine& machine = cost::Machine());

/// How many all_to_alls from step `first` on are one exchange: their axes together pass each piece
/// on once. No dim is both given out and put together, and no shard is padded. `before`: the
/// sharding that the first step meets. At least 1.
std::size_t exchanges_in_one(const std::vector<ReshardStep>& steps, std::size_t first,
                             const TensorSharding& before, const Dims& dims);

/// Plans as plan_reshard does, and keeps the plans by all that they depend on.
class ReshardPlanner {
 public:
  ReshardPlanner();
  ReshardPlanner(const ReshardPlanner&) = delete;
  ReshardPlanner& operator=(const ReshardPlanner&) = delete;

  ReshardPlan plan(const TensorSharding& from, const TensorSharding& to, const Dims& dims,
                   std::int64_t element_bytes, const cost::Machine& machine = cost::Machine());
  /// The plan's cost.
  double price(const TensorSharding& from, const TensorSharding& to, const Dims& dims,
               std::int64_t element_bytes, const cost::Machine& machine = cost::Machine());
  /// How many plans had to be searched for.
  std::int64_t plans_made() const { return plans_made_; }

 private:
  const ReshardPlan& planned(const TensorSharding& from, const TensorSharding& to,
                             const MeshRef& mesh, const Dims& dims, std::int64_t element_bytes,
                             const cost::Machine& machine);

  BoundedCache<ReshardPlan> plans_;
  std::int64_t plans_made_ = 0;
};

/// A price that no plan is below, without a search.
double reshard_lower_bound(const TensorSharding& from, const TensorSharding& to, const Dims& dims,
                           std::int64_t element_bytes,
                           const cost::Machine& machine = cost::Machine());

/// No dim is split and nothing is a partial sum, as far as it isn't code per device anyhow.
bool is_fully_replicated(const TensorSharding& sharding);

/// The dims as stored by a value of that sharding: ceil(dim / ways) * ways.
Dims padded_dims(const TensorSharding& sharding, const Dims& dims);

/// The pairs of a permute by which each device, which has one shard, gets the one that it wants.
/// Those that have theirs keep it.
std::vector<std::pair<std::int64_t, std::int64_t>> pairs_between(
    const std::vector<std::int64_t>& has, const std::vector<std::int64_t>& wants);
/// (source, target) logical devices of a permute step; devices that keep their shard are included.
/// Each device stands once on either side.
std::vector<std::pair<std::int64_t, std::int64_t>> permute_pairs(const TensorSharding& before,
                                                                 const TensorSharding& after);

}  // namespace tessera::spmd
