// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters with explicit dimension numbers, and sums over segments.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <tessera/array.h>
#include <tessera/sharding/out_sharding.h>

/// @file
/// Gathers and scatters with explicit dimension numbers (HLO's `gather` and `scatter`, as
/// jax.lax.gather and jax.lax.scatter), and reductions over segments (jax.ops.segment_sum). For
/// indices as in numpy see `at` and `index`.
///
/// @throws ShapeError if shapes and dimension numbers don't fit.
/// @throws DTypeError if indices aren't integers.
///
/// All messages name the caller's line.

namespace tessera {

/// What happens at indices out of range.
enum class IndexMode : std::uint8_t {
  automatic,          ///< what the function does by default
  fill,               ///< reads give the fill value; updates are dropped
  drop,               ///< same as `fill`
  clip,               ///< the nearest valid index is used
  wrap,               ///< the index modulo the size is used
  promise_in_bounds,  ///< there are none: no code checks
};
/// Options of indexed reads and updates.
struct IndexOptions {
  /// See IndexMode.
  IndexMode mode = IndexMode::automatic;
  /// What reads in mode `fill` give out of range, a scalar; by default NaN, the smallest signed or
  /// largest unsigned integer, or true.
  std::optional<Array> fill_value{};
  /// Promises that indices ascend.
  bool indices_are_sorted = false;
  /// Promises that no element is indexed twice. Some derivatives need it.
  bool unique_indices = false;
  /// Sharding of the result over Explicit axes: where the types of the operands don't say it, or
  /// in place of what they say (see `with_out_sharding`).
  std::optional<OutSharding> out_sharding{};
};

/// How the dimensions of `gather` correspond, as in HLO; the last dimension of the indices holds
/// the index vectors.
struct GatherDims {
  /// Dimensions of the result that are dimensions of the slices.
  std::vector<std::int64_t> offset_dims{};
  /// Dimensions of the array, of slice size 1, that the result lacks.
  std::vector<std::int64_t> collapsed_slice_dims{};
  /// The array's dimension that each entry of an index vector indexes.
  std::vector<std::int64_t> start_index_map{};
  /// Dimensions of the array that are also dimensions of the indices, and these.
  std::vector<std::int64_t> operand_batching_dims{}, start_indices_batching_dims{};
};
/// Slices at computed positions: for each index vector the slice of static sizes that begins there.
/// By default slices are moved to be within the array; in mode `fill` those that aren't are filled.
/// @param x  The array.
/// @param indices  Integers; the last dimension holds index vectors.
/// @param dims  How dimensions correspond.
/// @param slice_sizes  One size per dimension of x.
/// @param options  Mode, fill value, promises.
Array gather(Operand x, Operand indices, const GatherDims& dims,
             std::vector<std::int64_t> slice_sizes, const IndexOptions& options = {});

/// How the dimensions of `scatter` correspond, as in HLO; the last dimension of the indices holds
/// the index vectors.
struct ScatterDims {
  /// Dimensions of the updates that are dimensions of the windows.
  std::vector<std::int64_t> update_window_dims{};
  /// Dimensions of the array, of window size 1, that the updates lack.
  std::vector<std::int64_t> inserted_window_dims{};
  /// The array's dimension that each entry of an index vector indexes.
  std::vector<std::int64_t> scatter_dims_to_operand_dims{};
  /// Dimensions of the array that are also dimensions of the indices, and these.
  std::vector<std::int64_t> operand_batching_dims{}, scatter_indices_batching_dims{};
};
/// Copy of x with windows at computed positions replaced by updates. Windows that aren't within the
/// array are dropped, except in modes `clip` and `wrap`. Of several updates of one element one
/// stays.
/// @param x  The array.
/// @param indices  Integers; the last dimension holds index vectors.
/// @param updates  Of x's dtype, or plain numbers of a scalar.
/// @param dims  How dimensions correspond.
/// @param options  Mode and promises.
/// @throws DTypeError if the updates have another dtype.
Array scatter(Operand x, Operand indices, Operand updates, const ScatterDims& dims,
              const IndexOptions& options = {});
/// `scatter` that adds.
Array scatter_add(Operand x, Operand indices, Operand updates, const ScatterDims& dims,
                  const IndexOptions& options = {});
/// `scatter` that subtracts.
Array scatter_sub(Operand x, Operand indices, Operand updates, const ScatterDims& dims,
                  const IndexOptions& options = {});
/// `scatter` that multiplies. The derivative for the updates needs `unique_indices`.
Array scatter_mul(Operand x, Operand indices, Operand updates, const ScatterDims& dims,
                  const IndexOptions& options = {});
/// `scatter` that takes minima.
Array scatter_min(Operand x, Operand indices, Operand updates, const ScatterDims& dims,
                  const IndexOptions& options = {});
/// `scatter` that takes maxima.
Array scatter_max(Operand x, Operand indices, Operand updates, const ScatterDims& dims,
                  const IndexOptions& options = {});
/// A function that is applied to each element of an array.
using ElementwiseFunction = std::function<Array(Array)>;
/// `scatter` that replaces elements by f of them, once per update. Has no derivative.
/// @param x  The array.
/// @param indices  Integers; the last dimension holds index vectors.
/// @param f  An elementwise function that captures no traced arrays and keeps the dtype.
/// @param update_shape  The shape that updates would have.
/// @param dims  How dimensions correspond.
/// @param options  Mode and promises.
Array scatter_apply(Operand x, Operand indices, const ElementwiseFunction& f,
                    std::vector<std::int64_t> update_shape, const ScatterDims& dims,
                    const IndexOptions& options = {});

/// Options of `segment_sum` and the like.
struct SegmentOptions {
  /// Promises that the ids ascend.
  bool indices_are_sorted = false;
  /// Promises that no id occurs twice.
  bool unique_indices = false;
  /// Ids out of range are dropped; in mode `clip` they count as the nearest.
  IndexMode mode = IndexMode::automatic;
};
/// Sums of the rows of each segment (jax.ops.segment_sum): data [N, D..], ids [N] -> [S, D..],
/// whose row s is the sum of the rows with id s. Ids out of range, negative ones too, are dropped.
/// @code
/// segment_sum(array({1.f, 2.f, 3.f}), array({0, 0, 2}), 3);   // {3, 0, 3}
/// @endcode
/// @param data  The rows.
/// @param ids  Integers, a vector.
/// @param num_segments  S; by default the largest id plus 1, which traced ids don't allow.
/// @param options  Promises and mode.
/// @throws TracerError if ids are traced and there is no num_segments.
/// @throws ValueError if num_segments is negative.
Array segment_sum(Operand data, Operand ids, std::optional<std::int64_t> num_segments = {},
                  const SegmentOptions& options = {});
/// Products of the rows of each segment, as `segment_sum`; 1 for a segment without rows.
Array segment_prod(Operand data, Operand ids, std::optional<std::int64_t> num_segments = {},
                   const SegmentOptions& options = {});
/// Largest elements of each segment, as `segment_sum`; the smallest number of the dtype for a
/// segment without rows.
Array segment_max(Operand data, Operand ids, std::optional<std::int64_t> num_segments = {},
                  const SegmentOptions& options = {});
/// Smallest elements of each segment, as `segment_sum`; the largest number of the dtype for a
/// segment without rows.
Array segment_min(Operand data, Operand ids, std::optional<std::int64_t> num_segments = {},
                  const SegmentOptions& options = {});

}  // namespace tessera
