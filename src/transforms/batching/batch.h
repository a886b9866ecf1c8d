// SPDX-License-Identifier: Apache-2.0
// Batching: what a computation does for each entry of a batch, done for all entries at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/ir/module.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::transforms {

/// In place of a dim: the value is the same for all entries.
inline constexpr std::int64_t kNotBatched = -1;
/// In place of a result's dim: on whichever dim it comes out, or not batched.
inline constexpr std::int64_t kAsItComes = -1;

struct BatchOptions {
  std::int64_t size = 1;  ///< of the batch
  /// Name of the batch: collectives over it are computed. Empty: none.
  std::string axis_name = {};
  /// Axes of the program's mesh over which constraints and shard_maps hold the batch.
  std::vector<std::string> spmd_axes = {};
  /// They are those that split the batch in the arguments' types, and no option of the user's.
  bool spmd_axes_of_types = false;
};

struct BatchedComputation {
  ir::Computation* computation = nullptr;
  Dims out_dims;  ///< of each leaf of the root, or kNotBatched
};

/// A computation on a batch, in the same module. `in_dims`: for each leaf of the parameters, in
/// order, the dim along which it is batched, or kNotBatched; that dim is inserted in the
/// parameter's shape. `out_dims`: for each leaf of the root the dim on which it must be batched, or
/// kAsItComes; none at all: all as they come. What depends on no batched parameter is computed
/// once. NotImplementedError for ops that can't be batched, with the op's line.
BatchedComputation batch(const ir::Computation& source, std::span<const std::int64_t> in_dims,
                         const BatchOptions& options, std::span<const std::int64_t> out_dims = {});

/// An array, or one of its kind for each entry.
struct BatchedArray {
  ir::Instruction* value = nullptr;
  std::int64_t dim = kNotBatched;
};

/// The same appended to the computation that `b` builds: what stands for the leaves of the root on
/// these arguments, one for each leaf of the parameters.
std::vector<BatchedArray> batch_into(ir::Builder& b, const ir::Computation& source,
                                     std::span<const BatchedArray> arguments,
                                     const BatchOptions& options);

}  // namespace tessera::transforms
